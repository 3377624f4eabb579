"""Dense retrieval by cosine with FAISS: exact up to a configured size, inverted lists above, with measured recall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobs.core.embedding import Encoder
from jobs.core.errors import InputError
from jobs.core.sampling import unit_hash
from jobs.skills.documents import Document

EXACT_UP_TO = 200_000  # documents: a query costs some 20 ms on two cores there, less than its embedding
PROBES = 32  # of the inverted lists; recall is measured and reported, see `recall`
PER_LIST = 39  # vectors a list that FAISS wants to train on
TRAINING = 100_000  # vectors that the inverted lists are trained on


@dataclass(frozen=True)
class Hit:
    """One retrieved document."""

    document_id: str
    score: float


class Retriever:
    """The documents of one corpus under one embedding model.

    exact_up_to: documents up to which the search is exact.
    `recall` is null for an exact index, else the share of the true top 10 found, over sampled documents as queries.
    """

    def __init__(self, documents: Sequence[Document], encoder: Encoder, *, exact_up_to: int = EXACT_UP_TO):
        if not documents:
            raise InputError("no document holds text: give a corpus to retrieve from")
        self.documents, self.encoder = documents, encoder
        self.vectors = encoder.encode([one.content for one in documents], kind="document")
        self.exact = len(documents) <= exact_up_to
        self.index = _flat(self.vectors) if self.exact else _inverted(self.vectors)
        self.recall = None if self.exact else recall(self.index, self.vectors)
        self._rows = {one.id: row for row, one in enumerate(documents)}

    def search(
        self, texts: Sequence[str], *, depth: int, excluded: Sequence[Sequence[str]] | None = None
    ) -> list[list[Hit]]:
        """The `depth` nearest documents of each text, best first, without those excluded for it."""
        if not texts:
            return []
        return self.search_vectors(self.encoder.encode(list(texts), kind="query"), depth=depth, excluded=excluded)

    def search_vectors(
        self, vectors: np.ndarray, *, depth: int, excluded: Sequence[Sequence[str]] | None = None
    ) -> list[list[Hit]]:
        """The same for float32[n, d] vectors. Ties stand in the order of the documents."""
        if not len(vectors):
            return []
        most = max((len(one) for one in excluded), default=0) if excluded else 0
        scores, rows = self.index.search(vectors, min(depth + most, len(self.documents)))
        barred = [set(one) for one in excluded] if excluded else [set()] * len(vectors)
        return [self._hits(*one, depth) for one in zip(scores, rows, barred, strict=True)]

    def document(self, document_id: str) -> Document:
        """The document of that id; KeyError if there is none."""
        return self.documents[self._rows[document_id]]

    def _hits(self, scores: np.ndarray, rows: np.ndarray, barred: set[str], depth: int) -> list[Hit]:
        found = (Hit(self.documents[row].id, float(score)) for score, row in zip(scores, rows, strict=True) if row >= 0)
        return [one for one in found if one.document_id not in barred][:depth]


def recall(index: Any, vectors: np.ndarray, *, depth: int = 10, queries: int = 200) -> float:
    """Share of the exact top `depth` that `index` finds, with sampled documents as queries."""
    order = sorted(range(len(vectors)), key=lambda row: unit_hash("recall", row))[:queries]
    depth = min(depth, len(vectors))
    _, found = index.search(vectors[order], depth)
    _, true = _flat(vectors).search(vectors[order], depth)
    hits = sum(len(set(one) & set(other)) for one, other in zip(found.tolist(), true.tolist(), strict=True))
    return hits / (len(order) * depth)


def _flat(vectors: np.ndarray) -> Any:
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index


def _inverted(vectors: np.ndarray) -> Any:
    import faiss

    lists = max(1, min(int(4 * np.sqrt(len(vectors))), len(vectors) // PER_LIST))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(vectors.shape[1]), vectors.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1  # fewer only happen in one list, where there is nothing to learn
    step = max(1, len(vectors) // TRAINING)
    index.train(np.ascontiguousarray(vectors[::step]))
    index.add(vectors)
    index.nprobe = min(PROBES, lists)
    return index
