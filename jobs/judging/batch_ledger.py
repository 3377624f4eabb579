"""What was handed to a Batch API: written down before it is handed over, so that a crash can never buy it twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from jobs.judging.labels import LabelStore

_TABLES = """
CREATE TABLE IF NOT EXISTS batches (
  token TEXT PRIMARY KEY, base_url TEXT NOT NULL, requests TEXT NOT NULL, batch_id TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batch_questions (
  key BLOB PRIMARY KEY, token TEXT NOT NULL, payer TEXT NOT NULL, rows INTEGER NOT NULL, items INTEGER,
  cut INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS batch_questions_by_token ON batch_questions (token);
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A question in a batch: all that is needed to read its reply later. `items` is None for a page judge."""

    key: bytes
    payer: str
    rows: int
    items: int | None
    cut: int


@dataclass(frozen=True, kw_only=True)
class Handed:
    """A batch: `token` is ours, `requests` the file to upload, `batch_id` the provider's, once it is known."""

    token: str
    base_url: str
    requests: Path
    batch_id: str | None = None


class BatchLedger:
    """Batches and their questions, in the label store's file."""

    def __init__(self, store: LabelStore):
        self._base = store.connection
        self._base.executescript(_TABLES)

    def open(self, *, base_url: str) -> list[Handed]:
        """Batches of one endpoint whose replies are not yet collected."""
        sql = "SELECT token, base_url, requests, batch_id FROM batches WHERE base_url = ? ORDER BY token"
        return [
            Handed(token=token, base_url=url, requests=Path(requests), batch_id=batch_id)
            for token, url, requests, batch_id in self._base.execute(sql, (base_url,))
        ]

    def waiting(self, keys: Iterable[bytes]) -> set[bytes]:
        """Those of `keys` that stand in an open batch."""
        sql = "SELECT 1 FROM batch_questions WHERE key = ?"
        return {key for key in keys if self._base.execute(sql, (key,)).fetchone()}

    def claim(self, handed: Handed, questions: list[Asked]) -> set[bytes]:
        """Write a batch and its questions down, on disk when this returns; the keys that no other batch holds.

        Only these may be sent. Raises nothing if another process was quicker: its keys are left to it.
        """
        self._base.execute("PRAGMA synchronous=FULL")
        self._base.execute("BEGIN IMMEDIATE")
        free = {q.key for q in questions} - self.waiting(q.key for q in questions)
        rows = [(q.key, handed.token, q.payer, q.rows, q.items, q.cut) for q in questions if q.key in free]
        self._base.executemany("INSERT INTO batch_questions VALUES (?, ?, ?, ?, ?, ?)", rows)
        if free:
            values = (handed.token, handed.base_url, str(handed.requests))
            self._base.execute("INSERT INTO batches VALUES (?, ?, ?, NULL)", values)
        self._base.execute("COMMIT")
        self._base.execute("PRAGMA synchronous=NORMAL")
        return free

    def submitted(self, token: str, batch_id: str) -> None:
        """Write the provider's id down, on disk when this returns."""
        self._base.execute("PRAGMA synchronous=FULL")
        self._base.execute("UPDATE batches SET batch_id = ? WHERE token = ?", (batch_id, token))
        self._base.execute("PRAGMA synchronous=NORMAL")

    def questions(self, token: str) -> dict[str, Asked]:
        """The questions of a batch by their id in it (the key in hexadecimal)."""
        sql = "SELECT key, payer, rows, items, cut FROM batch_questions WHERE token = ?"
        rows = self._base.execute(sql, (token,))
        return {k.hex(): Asked(key=k, payer=payer, rows=r, items=items, cut=cut) for k, payer, r, items, cut in rows}

    def close(self, handed: Handed) -> None:
        """Forget a batch whose replies are all kept."""
        self._base.execute("BEGIN IMMEDIATE")
        self._base.execute("DELETE FROM batch_questions WHERE token = ?", (handed.token,))
        self._base.execute("DELETE FROM batches WHERE token = ?", (handed.token,))
        self._base.execute("COMMIT")
        handed.requests.unlink(missing_ok=True)
