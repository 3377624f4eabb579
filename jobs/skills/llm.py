"""How skills ask a language model: requests in, replies out, in order, with nothing raised for a bad reply.

`Model` is the small protocol; the client of judging is adapted to it in endpoint.py, tests pass scripts. `CachedModel`
keeps good replies in SQLite, so that an unchanged corpus or a repeated evaluation asks nothing twice.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

OFFLINE = "offline-baseline"
"""The name of everything that is done without a language model; it is never called one."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One call. `schema` is the JSON schema of the reply; `sample` tells repeated samples of one prompt apart.

    once: a reply that was cut off is not asked for again, so that the calls stay within a bound.
    """

    purpose: str
    system: str
    user: str
    schema: Mapping[str, Any]
    temperature: float = 0.0
    max_tokens: int = 500
    seed: int = 0
    sample: int = 0
    once: bool = False

    def key(self, model: str) -> str:
        """sha256 over the model and everything that can change the reply."""
        body = {name: value for name, value in asdict(self).items() if name not in ("purpose", "once")}
        return hashlib.sha256(json.dumps([model, body], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What came back: the text, or a problem (never both empty); tokens as the endpoint counted them.

    lost: no answer came at all (the endpoint was down, or time ran out), so that asking again later can help.
    """

    text: str = ""
    problem: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    cached: bool = False
    calls: int = 1
    lost: bool = False


class Model(Protocol):
    """A language model. `name` reaches tables and reports."""

    name: str

    def complete(self, requests: Sequence[Request]) -> list[Reply]:
        """One reply a request, in order; failures are replies with a problem."""


@dataclass(kw_only=True)
class Usage:
    """Counts of calls (cached ones apart), tokens and seconds of calls (their sum, however many ran at once)."""

    calls: int = 0
    cached: int = 0
    failed: int = 0
    lost: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0

    def add(self, reply: Reply) -> None:
        """Count one reply; a cached one counts its tokens and seconds as when it was bought."""
        self.cached += reply.calls if reply.cached else 0
        self.calls += 0 if reply.cached else reply.calls
        self.failed += bool(reply.problem)
        self.lost += reply.lost
        self.tokens_in += reply.tokens_in
        self.tokens_out += reply.tokens_out
        self.seconds += reply.seconds


class CachedModel:
    """A model whose good replies are kept in `file` (SQLite) and served again for the very same request."""

    def __init__(self, model: Model, *, file: Path):
        self.name, self._model = model.name, model
        self._lock = threading.Lock()
        file.parent.mkdir(parents=True, exist_ok=True)
        self._base = sqlite3.connect(file, timeout=60, check_same_thread=False)
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, purpose TEXT, reply TEXT)")

    def complete(self, requests: Sequence[Request]) -> list[Reply]:
        """Serve what is known, ask the model for the rest (each distinct request once), keep the good replies."""
        keys = [one.key(self.name) for one in requests]
        with self._lock:
            known = {key: found for key in set(keys) if (found := self._find(key))}
        missing = {key: one for key, one in zip(keys, requests, strict=True) if key not in known}
        fresh = dict(zip(missing, self._model.complete(list(missing.values())), strict=True)) if missing else {}
        with self._lock, self._base:
            self._base.executemany(
                "INSERT OR REPLACE INTO replies VALUES (?, ?, ?)",
                [(key, missing[key].purpose, json.dumps(asdict(one))) for key, one in fresh.items() if not one.problem],
            )
        return [fresh.get(key) or known[key] for key in keys]

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def _find(self, key: str) -> Reply | None:
        row = self._base.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
        return Reply(**{**json.loads(row[0]), "cached": True}) if row else None
