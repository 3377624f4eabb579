"""Brief locks where the store has none of its own: tickets in a folder, by Lamport's bakery algorithm.

Needs nothing of an object store but that a listing sees every object that was written before (S3 does, since 2020).
Who wants the lock says that it is choosing, takes the number after the largest, and waits until nobody chooses and no
ticket is smaller. Tickets of dead processes count for `STALE_S`: so a lock is only for what takes much less, such as
adding an entry to a document.
"""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

from jobs.core.errors import ConflictError

STALE_S = 90.0
PAUSE_S = 0.05


class Folder(Protocol):
    """What tickets need of jobs.core.storage.Files."""

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write a whole file."""

    def written(self, folder: str) -> dict[str, datetime]:
        """Names in a folder, with the time at which each was written."""

    def delete(self, path: str) -> None:
        """Remove a file, if it is there."""


@contextmanager
def held(files: Folder, name: str, *, timeout_s: float) -> Iterator[None]:
    """Hold the lock of that name; ConflictError after `timeout_s`."""
    folder, mine = f"locks/{name}", uuid.uuid4().hex
    choosing = f"{folder}/choosing-{mine}"
    files.write_bytes(choosing, b"choosing")
    try:
        taken = [int(n.split("-")[1]) for n in _living(files, folder) if n.startswith("ticket-")]
        ticket = f"ticket-{max(taken, default=0) + 1:08d}-{mine}"
        files.write_bytes(f"{folder}/{ticket}", b"waiting")
    finally:
        files.delete(choosing)
    try:
        _wait(files, folder, ticket, timeout_s)
        yield
    finally:
        files.delete(f"{folder}/{ticket}")


def _wait(files: Folder, folder: str, ticket: str, timeout_s: float) -> None:
    end = time.monotonic() + timeout_s
    while [n for n in _living(files, folder) if n.startswith("choosing-") or ("ticket-" in n and n < ticket)]:
        if time.monotonic() > end:
            raise ConflictError(f"{folder} was held for {timeout_s:.0f} s: end the other command first")
        time.sleep(PAUSE_S)


def _living(files: Folder, folder: str) -> list[str]:
    """Names of those who wait or choose; what a dead process left longer than STALE_S ago is removed."""
    now = time.time()
    names = files.written(folder)
    dead = [n for n, at in names.items() if now - at.timestamp() > STALE_S]
    for name in dead:
        files.delete(f"{folder}/{name}")
    return [n for n in names if n not in dead]
