"""Progress for people, on stderr: a line when a step starts, one every few seconds while it works, one when it ends."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


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
        yield counts
        seconds = round(time.monotonic() - begun, 2)
        self.say(json.dumps({"step": name, "seconds": seconds, **counts}, default=str, ensure_ascii=False))
