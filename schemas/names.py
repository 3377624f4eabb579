"""Names that become paths, partitions or task labels: what is allowed, checked in one place.

Run, launch, corpus and source names reach file paths and partition values, so they are restricted to a small alphabet
instead of being escaped at each use.
"""

import re
from datetime import date

_LAUNCH = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_RUN = re.compile(r"(night-\d{4}-\d{2}-\d{2}|launch-[a-z0-9][a-z0-9-]{0,40})")


class BadName(ValueError):
    """A name outside the allowed alphabet; the message names it and the pattern."""


def launch_id(value: str) -> str:
    """Return `value` if it is a launch id (formats.md: `[a-z0-9][a-z0-9-]{0,40}`), else raise BadName."""
    return _checked(value, _LAUNCH, "launch id", "lower-case letters, digits and '-', at most 41 characters")


def plain_name(value: str, *, kind: str = "name") -> str:
    """Return `value` if it can name a corpus, source, segment, table or variant, else raise BadName."""
    return _checked(value, _NAME, kind, "letters, digits, '_' and '-', at most 64 characters")


def run_key(value: str) -> str:
    """Return `value` if it is a run key ('night-YYYY-MM-DD' with a real date, or 'launch-ID'), else raise BadName."""
    _checked(value, _RUN, "run", "'night-2026-11-20' or 'launch-ID'")
    if value.startswith("night-"):
        try:
            date.fromisoformat(value.removeprefix("night-"))
        except ValueError:
            raise BadName(f"run {value!r} holds no calendar date: use for instance 'night-2026-11-20'") from None
    return value


def _checked(value: str, pattern: re.Pattern[str], kind: str, allowed: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise BadName(f"{value!r} is no {kind}: allowed are {allowed}")
    return value
