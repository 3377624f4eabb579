"""Vectors of texts on disk: found again by the hash of the text, so that a text is embedded once.

A folder holds segments that are written whole and never changed: `NAME.vectors.npy` (float32, n x d, mapped into
memory when read) and `NAME.keys.npy` (the sorted 16-byte hashes, written last: a segment exists once its keys do).
Several processes may add at once; when segments become many, one of them joins them under a lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jobs.core.errors import ConflictError, InputError

MAX_SEGMENTS = 24  # a look-up searches each of them: a binary search of some microseconds
LARGE = 100_000  # rows; such a segment is left as it is, so that joining never copies gigabytes
ATTEMPTS = 5
KEY = np.dtype("S16")  # 128 bits of sha256: no two texts of any corpus meet


def text_keys(texts: Sequence[str], *, prompt: str = "") -> np.ndarray:
    """The first 16 bytes of sha256(prompt 0x00 text) of each text, as an array of dtype S16."""
    head = prompt.encode() + b"\0"
    return np.array([hashlib.sha256(head + text.encode()).digest()[:16] for text in texts], dtype=KEY)


@dataclass(frozen=True)
class Segment:
    """One file of vectors and its sorted keys."""

    keys: np.ndarray
    vectors: np.ndarray


class VectorCache:
    """The vectors of one model under `folder` (made when first written)."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._open: dict[str, Segment] = {}

    def find(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Which of `keys` are known (bool[n]) and their vectors (float32[n, d]; None where nothing is known)."""
        known, vectors = np.zeros(len(keys), bool), None
        for segment in self._segments():
            place = np.minimum(np.searchsorted(segment.keys, keys), max(len(segment.keys) - 1, 0))
            hit = (segment.keys[place] == keys) & ~known if len(segment.keys) else np.zeros(len(keys), bool)
            if hit.any():
                vectors = np.zeros((len(keys), segment.vectors.shape[1]), np.float32) if vectors is None else vectors
                vectors[hit] = segment.vectors[place[hit]]
                known |= hit
        return known, vectors

    def add(self, keys: np.ndarray, vectors: np.ndarray) -> None:
        """Keep `vectors` (float32[n, d]) under `keys` (unique); a segment of the same keys is written once."""
        if len(keys) != len(vectors):
            raise InputError(f"{len(keys)} keys came with {len(vectors)} vectors; give each key one vector")
        if len(keys):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write(keys, vectors)
            if len(self._names()) > MAX_SEGMENTS:
                self._join()

    def _names(self) -> list[str]:
        return sorted(path.name.removesuffix(".keys.npy") for path in self.folder.glob("*.keys.npy"))

    def _segments(self) -> list[Segment]:
        for _ in range(ATTEMPTS):
            try:
                self._open = {name: self._open.get(name) or self._load(name) for name in self._names()}
            except FileNotFoundError:  # another process joined it into a larger one: look again
                continue
            return list(self._open.values())
        raise ConflictError(f"the vectors in {self.folder} change faster than they are read: try again")

    def _load(self, name: str) -> Segment:
        keys = np.load(self.folder / f"{name}.keys.npy")
        return Segment(keys=keys, vectors=np.load(self.folder / f"{name}.vectors.npy", mmap_mode="r"))

    def _write(self, keys: np.ndarray, vectors: np.ndarray) -> str:
        order = np.argsort(keys)
        keys = keys[order].astype(KEY)
        name = hashlib.sha256(keys.tobytes()).hexdigest()[:24]
        self._save(f"{name}.vectors.npy", vectors[order].astype(np.float32))
        self._save(f"{name}.keys.npy", keys)
        return name

    def _save(self, name: str, array: np.ndarray) -> None:
        part = self.folder / f".{name}.{os.getpid()}.part"
        with part.open("wb") as file:
            np.save(file, array)
        part.replace(self.folder / name)

    def _join(self) -> None:
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            loaded = {name: self._load(name) for name in self._names()}
            small = {name: one for name, one in loaded.items() if len(one.keys) < LARGE}
            if len(loaded) <= MAX_SEGMENTS or len(small) < 2:
                return
            keys, first = np.unique(np.concatenate([one.keys for one in small.values()]), return_index=True)
            joined = self._write(keys, np.concatenate([one.vectors for one in small.values()])[first])
            for name in small:
                if name != joined:  # keys go first: a segment without them is not looked at
                    (self.folder / f"{name}.keys.npy").unlink(missing_ok=True)
                    (self.folder / f"{name}.vectors.npy").unlink(missing_ok=True)
