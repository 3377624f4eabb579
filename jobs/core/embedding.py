"""Texts to vectors: sentence-transformers behind one interface, each distinct text embedded once per model.

    embedder = Embedder("all-MiniLM-L6-v2", cache=Path("store/vectors"))
    cosine = embedder.encode(["warmup music"]) @ embedder.encode(["training music"]).T
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from jobs.core.embedding_batches import encode_steadily
from jobs.core.embedding_models import PACKAGED, ModelFiles, find_model
from jobs.core.errors import InputError, MachineError
from jobs.core.settings import Settings
from jobs.core.storage import is_object_store
from jobs.core.vectors import VectorCache, text_keys

__all__ = ["PACKAGED", "Embedder", "Encoder", "embedder_for"]

CHUNK = 4096  # texts between two writes of the cache: some seconds of work are lost when a process is killed


class Encoder(Protocol):
    """What rooms ask for: a name for tables, a revision for manifests, and normalised vectors."""

    name: str
    revision: str

    def encode(self, texts: Sequence[str], *, kind: str = "plain") -> np.ndarray:
        """float32[n, d], rows of length 1 in the order of `texts`; `kind` is plain, query or document."""


def embedder_for(settings: Settings, *, say: Callable[[str], None] | None = None) -> Embedder:
    """The embedder of these settings, with its vectors kept in the store (beside the settings for object stores)."""
    uri = settings.store_uri
    folder = Path(settings.root) / ".hindcast" / "vectors" if is_object_store(uri) else Path(uri) / "vectors"
    return Embedder(settings.evidence.embedding_model, cache=folder, say=say)


class Embedder:
    """A sentence-transformers model by name or folder; loaded when the first text is missing from the cache.

    cache: folder of vectors, one sub-folder per model and revision; None keeps them in memory only.
    prompts: {"query": ..., "document": ...} in place of those of the model's own configuration.
    say: told what is done when more than one chunk is embedded.
    `embedded` counts the texts that went through the model.
    """

    def __init__(
        self,
        model: str = PACKAGED,
        *,
        cache: Path | None = None,
        prompts: Mapping[str, str] | None = None,
        say: Callable[[str], None] | None = None,
    ):
        self.files: ModelFiles = find_model(model, prompts=prompts)
        self.name, self.revision = self.files.name, self.files.revision
        self.embedded = 0
        self._folder, self._say, self._model = cache, say, None
        self._memory: dict[bytes, np.ndarray] = {}
        self._cache = self._open_cache()

    def encode(self, texts: Sequence[str], *, kind: str = "plain") -> np.ndarray:
        """float32[n, d] of length 1 each, in the order of `texts`; an empty list gives shape (0, d).

        Raises InputError for anything but text. Texts longer than the model's window are cut by the model.
        """
        wrong = [text for text in texts if not isinstance(text, str)]
        if wrong:
            raise InputError(f"{wrong[0]!r} cannot be embedded: give texts")
        if not len(texts):
            return np.zeros((0, self.dimension), np.float32)
        texts = [text.encode("utf-8", "replace").decode() for text in texts]  # tokenizers refuse lone surrogates
        prompt = self.files.prompt(kind)
        keys, first, back = np.unique(text_keys(texts, prompt=prompt), return_index=True, return_inverse=True)
        distinct = [texts[i] for i in first]
        return self._vectors(keys, distinct, prompt)[back.reshape(-1)]

    @property
    def dimension(self) -> int:
        """Length of a vector; read beside the cache, or from the loaded model."""
        note = self._note()
        return note["dimension"] if note else self._loaded().get_embedding_dimension()

    def _vectors(self, keys: np.ndarray, texts: list[str], prompt: str) -> np.ndarray:
        if self._cache is None:
            return self._from_memory(keys, texts, prompt)
        known, vectors = self._cache.find(keys)
        if not known.all():
            missing = np.flatnonzero(~known)
            fresh = self._embed([texts[i] for i in missing], prompt, keys=keys[missing])
            vectors = np.zeros((len(keys), fresh.shape[1]), np.float32) if vectors is None else vectors
            vectors[missing] = fresh
        return vectors

    def _from_memory(self, keys: np.ndarray, texts: list[str], prompt: str) -> np.ndarray:
        names = [key.tobytes() for key in keys]
        missing = [i for i, name in enumerate(names) if name not in self._memory]
        if missing:
            fresh = self._embed([texts[i] for i in missing], prompt, keys=None)
            self._memory.update(zip((names[i] for i in missing), fresh, strict=True))
        return np.stack([self._memory[name] for name in names])

    def _embed(self, texts: list[str], prompt: str, *, keys: np.ndarray | None) -> np.ndarray:
        """Embed in chunks of like length (a batch is as slow as its longest text), storing each chunk."""
        model, order = self._loaded(), np.argsort([-len(text) for text in texts], kind="stable")
        vectors = np.zeros((len(texts), self._loaded().get_embedding_dimension()), np.float32)
        for start in range(0, len(order), CHUNK):
            rows = order[start : start + CHUNK]
            vectors[rows] = encode_steadily(model, [prompt + texts[i] for i in rows])
            if keys is not None and self._cache is not None:
                self._cache.add(keys[rows], vectors[rows])
            if self._say and len(order) > CHUNK:
                self._say(f"embedded {start + len(rows):,} of {len(order):,} texts with {self.name}")
        self.embedded += len(texts)
        return vectors

    def _loaded(self) -> Any:
        if self._model is None:
            self._model = _load(self.files)
            if self.revision == "unresolved":
                self.files = find_model(self.name, prompts=self.files.prompts)
                self.revision = self.files.revision
                self._cache = self._open_cache()
            self._write_note()
        return self._model

    def _open_cache(self) -> VectorCache | None:
        return VectorCache(self._place()) if self._folder and self.revision != "unresolved" else None

    def _place(self) -> Path:
        slug = re.sub(r"[^A-Za-z0-9]+", "-", Path(self.name).name).strip("-") or "model"
        return self._folder / f"{slug}-{hashlib.sha256(f'{self.name} {self.revision}'.encode()).hexdigest()[:8]}"

    def _note(self) -> dict[str, Any] | None:
        file = self._place() / "model.json" if self._cache is not None else None
        return json.loads(file.read_text()) if file and file.exists() else None

    def _write_note(self) -> None:
        if self._cache is None or self._note():
            return
        self._place().mkdir(parents=True, exist_ok=True)
        note = {"name": self.name, "revision": self.revision, "dimension": self._model.get_embedding_dimension()}
        part = self._place() / f".model.{os.getpid()}.part"
        part.write_text(json.dumps(note) + "\n")
        part.replace(self._place() / "model.json")


def _load(files: ModelFiles) -> Any:
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # of loading: some milliseconds that would stand in every log
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0))))
    try:
        model = SentenceTransformer(files.location, device="cpu")
    except (OSError, ValueError) as problem:
        raise MachineError(
            f"embedding model {files.name!r} cannot be loaded ({str(problem).splitlines()[0]}): correct"
            f" evidence.embedding_model, or use the packaged {PACKAGED}"
        ) from problem
    return model.eval()
