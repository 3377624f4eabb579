"""The label store: every answer as it arrives, by the hash of all that was asked. SQLite, safe for several processes.

A call's key is written before it is sent, so after a kill the calls that were in flight are known: they are asked again
and their labels say `possibly_billed_twice`. Reasons are kept beside labels and never served as labels.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import orjson

from jobs.core.errors import InputError
from schemas.judgments import NOT_ASKED

_TABLES = """
CREATE TABLE IF NOT EXISTS answers (
  key BLOB PRIMARY KEY, paid_by TEXT NOT NULL, at REAL NOT NULL, in_flight INTEGER NOT NULL, outcome BLOB
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
"""
_CHUNK = 500  # keys of one look-up: below SQLite's limit of host parameters on every build


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What is kept of one question: a label or a reason, and what it cost. `paid_by` names the row that it was asked
    for (LabelStore.payer)."""

    label: float | None = None
    reason: str | None = None
    expected_label: float | None = None
    rationale: str = ""
    cited: Sequence[int] = ()
    cited_invented: int = 0
    evidence_cut: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    latency_ms: float | None = None
    possibly_billed_twice: bool = False
    served_by: str = ""
    paid_by: str = ""


_NAMES = tuple(name for name in Outcome.__slots__ if name != "paid_by")
_values = attrgetter(*_NAMES)  # dataclasses.astuple copies deeply, which costs more than the insert


class LabelStore:
    """Answers by key. `run` names who pays; use as a context manager.

    A file of another kind at `path` raises InputError.
    """

    def __init__(self, path: Path, *, run: str):
        self.run = run
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._base = sqlite3.connect(path, timeout=60, isolation_level=None)
            self._base.execute("PRAGMA journal_mode=WAL")
            # A commit reaches the operating system, not the disk: safe against kill -9, and 30 microseconds a label.
            self._base.execute("PRAGMA synchronous=NORMAL")
            self._base.executescript(_TABLES)
        except sqlite3.DatabaseError as error:
            raise InputError(f"{path} is no label store ({error}): name another file, or remove it") from None

    def __enter__(self) -> LabelStore:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    @property
    def connection(self) -> sqlite3.Connection:
        """The open database, for the ledger of batches that lives in the same file."""
        return self._base

    def find(self, keys: Iterable[bytes]) -> tuple[dict[bytes, Outcome], set[bytes]]:
        """Stored outcomes by key, and the keys that were sent without an answer ever being stored."""
        found: dict[bytes, Outcome] = {}
        unsure: set[bytes] = set()
        keys = list(keys)
        for start in range(0, len(keys), _CHUNK):
            some = keys[start : start + _CHUNK]
            marks = ",".join("?" * len(some))
            sql = f"SELECT key, in_flight, outcome, paid_by FROM answers WHERE key IN ({marks})"
            for key, in_flight, body, paid_by in self._base.execute(sql, some):
                if in_flight:
                    unsure.add(key)
                if body is not None:
                    found[key] = Outcome(**dict(zip(_NAMES, orjson.loads(body), strict=False)) | {"paid_by": paid_by})
        return found, unsure

    def payer(self, *, page_id: str, variant: str) -> str:
        """Names the one row of this run that pays for an answer; every other row that it serves is `cached`."""
        return f"{self.run} {variant} {page_id}"

    def sending(self, key: bytes) -> None:
        """Count a call that goes out; an outcome already there (asked again on purpose) stays until the new one."""
        sql = "INSERT INTO answers VALUES (?, ?, ?, 1, NULL) ON CONFLICT (key) DO UPDATE SET in_flight = in_flight + 1"
        self._base.execute(sql, (key, self.run, time.time()))

    def unbilled(self, key: bytes) -> None:
        """Take a call back that certainly cost nothing; earlier ones that may have been billed stay counted."""
        self._base.execute("UPDATE answers SET in_flight = max(0, in_flight - 1) WHERE key = ?", (key,))

    def keep(self, key: bytes, outcome: Outcome) -> None:
        """Store an answer. Reasons that mean "not answered" (deadline, endpoint, budget) are not kept."""
        if outcome.reason in NOT_ASKED:
            return
        body = orjson.dumps(_values(outcome))
        self._base.execute(
            "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, 0, ?)", (key, outcome.paid_by, time.time(), body)
        )

    def note(self, name: str) -> str | None:
        """A remembered text, such as what an endpoint accepts."""
        row = self._base.execute("SELECT body FROM notes WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    def remember(self, name: str, body: str) -> None:
        """Keep a text under a name, in place of the one before; on disk when this returns."""
        self._base.execute("PRAGMA synchronous=FULL")
        self._base.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, body))
        self._base.execute("PRAGMA synchronous=NORMAL")
