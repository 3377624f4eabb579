"""Progress for people, on stderr: a line when a step starts, one every few seconds while it works, one when it ends."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class Progress:
    """Prints steps and counts to a stream; quiet when `stream` is None. One structured line per finished step."""

    def __init__(self, stream: TextIO | None = sys.stderr, *, every_s: float = 5.0) -> None:
        self._stream = stream
        self._every = every_s
        self._last = 0.0

    def say(self, text: str) -> None:
        """Print one line."""
        if self._stream is not None:
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def tick(self, label: str, done: int, total: int) -> None:
        """Print 'label: done of total' at most every `every_s` seconds, and at the end."""
        now = time.monotonic()
        if now - self._last >= self._every or (done == total and self._last):
            self._last = now
            self.say(f"  {label}: {done:,} of {total:,}")

    @contextmanager
    def step(self, name: str) -> Iterator[dict]:
        """Time a step; what the body puts into the yielded dict is printed with it as one JSON line at the end."""
        self.say(f"{name} …")
        begun, counts = time.monotonic(), {}
        self._last = 0.0
        try:
            yield counts
        except BaseException as error:
            self.say(step_line(name, begun, {**counts, "error": type(error).__name__}))
            raise
        self.say(step_line(name, begun, counts))


def step_line(name: str, begun: float, counts: dict[str, Any]) -> str:
    """The one structured line of a step that began at `begun` (monotonic seconds)."""
    seconds = round(time.monotonic() - begun, 2)
    return json.dumps({"step": name, "seconds": seconds, **counts}, default=str, ensure_ascii=False)


_ORDINALS = {"", "shard", "sequence"}
"""Whole numbers that count nothing."""


def counts_of(summary: Any) -> dict[str, int]:
    """The whole numbers of a step's summary by name, those of parts (corpora, sets, shards) added up; two levels deep.
    """
    found: dict[str, int] = {}
    for name, number in _numbers(summary, depth=2):
        found[name] = found.get(name, 0) + number
    return found


def _numbers(value: Any, *, depth: int) -> Iterator[tuple[str, int]]:
    parts = {"": value} if isinstance(value, list) else value if isinstance(value, dict) else {}
    for name, one in parts.items():
        if isinstance(one, int) and not isinstance(one, bool) and name not in _ORDINALS:
            yield name, one
        elif isinstance(one, dict) and depth:
            yield from _numbers(one, depth=depth - 1)
        elif isinstance(one, list) and not name:
            yield from (pair for part in one for pair in _numbers(part, depth=depth - 1))
