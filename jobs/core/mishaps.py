"""Mishaps of the machine under a command, told in one sentence: a full disk, a JVM that is gone, a killed worker, and
whatever else the operating system refuses.

Libraries report the first ones as exceptions of many types, so they are known by their words.
"""

import errno
from collections.abc import Iterator

_KINDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("No space left", "Disk quota exceeded", "os error 28", "database or disk is full"),
        "the disk is full ({detail}): free disk space, or move store or HINDCAST_SCRATCH, and run the same command"
        " again; what was published before stays as it is",
    ),
    (
        ("Python worker exited unexpectedly", "Python worker failed to connect back", "ExecutorLostFailure"),
        "a worker of Spark was killed or crashed ({detail}): see that memory suffices (HINDCAST_SPARK__DRIVER_MEMORY)"
        " and run again; what was published before stays as it is",
    ),
    (
        ("Answer from Java side is empty", "Error while sending or receiving", "SparkContext was shut down",
         "An error occurred while trying to connect to the Java server", "Java gateway process exited"),
        "Spark's JVM has ended in mid-work ({detail}): it was killed or ran out of memory; run again; what was"
        " published before stays as it is",
    ),
)  # fmt: skip


def told(error: BaseException) -> str | None:
    """The sentence for an exception or one of its causes; None for what is no mishap of the machine."""
    for one in _causes(error):
        text = str(one)
        for words, sentence in _KINDS:
            detail = next((line.strip() for line in text.splitlines() if any(word in line for word in words)), None)
            if detail is not None:
                return sentence.format(detail=detail[:200])
        if isinstance(one, ConnectionRefusedError) and "py4j" in type(error).__module__:
            return _KINDS[-1][1].format(detail=text)
    return _refused(error) if isinstance(error, OSError) else None


_WAYS = {
    errno.EACCES: "give this user access, or name another path",
    errno.EROFS: "name a path that can be written",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENOENT: "check the path",
}


def _refused(error: OSError) -> str:
    """A refusal of the operating system with the way out, where one is known."""
    what = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
    return f"{what}: {_WAYS[error.errno]}" if error.errno in _WAYS else f"{type(error).__name__}: {what}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
