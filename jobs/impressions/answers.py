"""What a task answers when it cannot go on: an error in one sentence, instead of a stack trace of the cluster."""

import functools
from collections.abc import Callable

from jobs.core.errors import HindcastError, InputError, MachineError

_FULL = ("No space left", "Disk quota exceeded")


def answering(function: Callable[[dict], dict]) -> Callable[[dict], dict]:
    """A task that returns {"error", "kind"} for errors that a person can mend; others stay what they are."""

    @functools.wraps(function)
    def answer(spec: dict) -> dict:
        try:
            with disk_told():
                return function(spec)
        except HindcastError as error:
            return {"error": str(error), "kind": "machine" if isinstance(error, MachineError) else "input"}

    return answer


class disk_told:
    """Within it, a full disk is a MachineError that says so; nothing was committed then."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and any(text in str(error) for text in _FULL):
            raise MachineError(
                f"the disk is full ({str(error)[:200]}): free space, or move store or HINDCAST_SCRATCH, and run again;"
                " nothing of this ingestion was published"
            ) from error


def raise_error(result: dict) -> None:
    """Raise what a task answered, if it was an error."""
    if "error" in result:
        raise (MachineError if result["kind"] == "machine" else InputError)(result["error"])
