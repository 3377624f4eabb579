"""Clusters of a corpus: MiniBatchKMeans on the retriever's vectors, about sqrt(N) of them, and who stands for each.

MiniBatchKMeans, because Birch gave one dominant cluster and many fragments (SkillQR): no overview to propose from.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jobs.core.sampling import unit_hash
from jobs.skills.documents import Document
from jobs.skills.skill import Cluster
from jobs.skills.terms import cluster_terms

BATCH = 4096  # of MiniBatchKMeans: scikit-learn's advice is at least 256 times the cores
SAMPLED = 10  # documents a cluster that the initialisation is drawn from, and never less than a batch
RESTARTS = 3  # of the initialisation on a sample; one in twenty seeds loses a small cluster with a single one
REPRESENTATIVES = 6  # texts nearest to the centroid: enough to name a domain, few enough for a small context
SAMPLES = 6  # other texts for the judge, so that coverage is not judged on what the profile was made from


@dataclass(frozen=True, kw_only=True)
class Clustering:
    """centroids: float32[k, d] of length 1; labels: int32[n], the cluster of each document, 0 to k-1, none empty."""

    centroids: np.ndarray
    labels: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """int64[k]: documents by cluster."""
        return np.bincount(self.labels, minlength=len(self.centroids))


def cluster_count(documents: int, *, factor: float = 1.0) -> int:
    """About sqrt(documents) times `factor`, at least 1."""
    return max(1, min(documents, round(np.sqrt(documents) * factor)))


def fit_clusters(vectors: np.ndarray, *, count: int, seed: int) -> Clustering:
    """Cluster float32[n, d] vectors of length 1 into at most `count` clusters; the same seed gives the same ones.

    On one thread: the many small steps of the initialisation cost seven times the processor time on two (13 s and 98 s
    for 100,000 documents on a busy machine), and the order of sums then does not depend on the machine.
    """
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    count = min(count, len(vectors))
    model = MiniBatchKMeans(
        n_clusters=count, batch_size=BATCH, n_init=RESTARTS, random_state=seed, max_iter=30,
        init_size=max(BATCH, SAMPLED * count),
    )
    with threadpool_limits(1), warnings.catch_warnings():
        # Documents that say the same make fewer clusters than were asked for, which `tidy` takes care of.
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        return tidy(model.fit_predict(vectors), vectors)


def tidy(labels: np.ndarray, vectors: np.ndarray) -> Clustering:
    """Number the clusters that have documents from 0, in the order of their old numbers; centroids are their means."""
    _, dense = np.unique(labels, return_inverse=True)
    dense = dense.reshape(-1).astype(np.int32)
    return Clustering(centroids=centroids_of(vectors, dense), labels=dense)


def centroids_of(vectors: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """float32[k, d]: the direction of the mean of each cluster's vectors."""
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(int(labels.max()) + 1))
    sums = np.add.reduceat(vectors[order], starts, axis=0, dtype=np.float64)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return (sums / np.maximum(lengths, 1e-12)).astype(np.float32)


def nearest(vectors: np.ndarray, centroids: np.ndarray, *, block: int = 16384) -> tuple[np.ndarray, np.ndarray]:
    """(int32[n] nearest centroid by cosine, float32[n] that cosine), in blocks so that memory stays flat."""
    labels, cosine = np.zeros(len(vectors), np.int32), np.zeros(len(vectors), np.float32)
    for start in range(0, len(vectors), block):
        similar = vectors[start : start + block] @ centroids.T
        labels[start : start + block] = similar.argmax(axis=1)
        cosine[start : start + block] = similar.max(axis=1)
    return labels, cosine


def cluster_views(documents: Sequence[Document], vectors: np.ndarray, clustering: Clustering) -> tuple[Cluster, ...]:
    """Each cluster as agents see it: nearest texts, other texts by a stable hash, c-TF-IDF terms and a fingerprint."""
    order = np.argsort(clustering.labels, kind="stable")
    members = np.split(order, np.cumsum(clustering.sizes)[:-1])
    terms = cluster_terms([[documents[i].content for i in _some(rows, documents)] for rows in members])
    return tuple(
        _view(number, rows, documents, vectors=vectors, clustering=clustering, terms=terms[number])
        for number, rows in enumerate(members)
    )


def fingerprint(hashes: Sequence[str]) -> str:
    """16 hex digits over the document hashes of a cluster, whatever their order."""
    return hashlib.sha256("\n".join(sorted(hashes)).encode()).hexdigest()[:16]


def _view(
    number: int, rows: np.ndarray, documents: Sequence[Document], *, vectors: np.ndarray, clustering: Clustering,
    terms: tuple[str, ...],
) -> Cluster:
    cosine = vectors[rows] @ clustering.centroids[number]
    near = rows[np.lexsort((rows, -cosine))]
    others = sorted(near[REPRESENTATIVES:], key=lambda i: unit_hash("judge", documents[i].hash))
    return Cluster(
        id=number,
        size=len(rows),
        representatives=tuple(documents[i].content for i in near[:REPRESENTATIVES]),
        samples=tuple(documents[i].content for i in (others or list(near))[:SAMPLES]),
        terms=terms,
        fingerprint=fingerprint([documents[i].hash for i in rows]),
    )


def _some(rows: np.ndarray, documents: Sequence[Document], *, most: int = 50) -> list[int]:
    """At most `most` members by a stable hash: terms settle long before all of a large cluster is read."""
    if len(rows) <= most:
        return list(rows)
    return sorted(rows, key=lambda i: unit_hash("terms", documents[i].hash))[:most]
