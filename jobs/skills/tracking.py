"""An evolving corpus: which clusters a changed corpus has, and which of them moved since an agent last looked at them.

Centroids stay where they are; added and changed documents join the nearest one. A cluster moved when more than a tenth
of its documents (by content) came, went or changed since it was last characterised. Far-off documents found clusters of
their own, and a corpus that grew or shrank by more than half is clustered anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jobs.skills.clusters import Clustering, centroids_of, cluster_count, fit_clusters, nearest
from jobs.skills.documents import Document

MOVED_SHARE = 0.1  # of a cluster's documents: below it, six representatives and a profile in a few words stay true
REFIT_RATIO = 1.5  # of the cluster count that the corpus should have to the one it has: 2.25 times as many documents
FAR_QUANTILE = 0.01  # a document farther from its centroid than 99% of the corpus belongs to no known cluster


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """A clustering with the documents that it is of, and what each cluster held when it was last characterised.

    ids: str[n]; hashes: str[n]; labels: int32[n]; anchors: (hash, cluster) pairs as two arrays; far: cosine below which
    a document is far from its centroid.
    """

    centroids: np.ndarray
    ids: np.ndarray
    hashes: np.ndarray
    labels: np.ndarray
    anchor_hashes: np.ndarray
    anchor_labels: np.ndarray
    far: float

    def save(self, file: Path) -> None:
        """Write to `file` (.npz, replaced atomically)."""
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f".{file.name}.part")
        with part.open("wb") as stream:
            np.savez_compressed(stream, **{**vars(self), "far": np.float64(self.far)})
        part.replace(file)

    @classmethod
    def load(cls, file: Path) -> Tracked | None:
        """Read `file`; None where there is none."""
        if not file.exists():
            return None
        with np.load(file) as arrays:
            return cls(**{name: arrays[name] if name != "far" else float(arrays[name]) for name in arrays.files})


@dataclass(frozen=True, kw_only=True)
class Movement:
    """What changed in the documents, and what that did to the clusters. `origin[k]` is cluster k's old number or -1."""

    clustering: Clustering
    origin: np.ndarray
    moved: frozenset[int]
    added: int
    changed: int
    deleted: int
    new_clusters: int
    refit: str

    @property
    def summary(self) -> dict[str, object]:
        """For reports."""
        return {
            "documents_added": self.added, "documents_changed": self.changed, "documents_deleted": self.deleted,
            "clusters_moved": len(self.moved), "clusters_new": self.new_clusters, "clustered_anew": self.refit or None,
        }


def cluster_anew(vectors: np.ndarray, *, count: int, seed: int, reason: str) -> Movement:
    """All clusters from nothing: each of them has moved."""
    clustering = fit_clusters(vectors, count=count, seed=seed)
    number = len(clustering.centroids)
    return Movement(
        clustering=clustering, origin=np.full(number, -1), moved=frozenset(range(number)),
        added=len(vectors), changed=0, deleted=0, new_clusters=number, refit=reason,
    )


def follow(old: Tracked, documents: Sequence[Document], vectors: np.ndarray, *, count: int, seed: int) -> Movement:
    """Clusters of the documents as they are now, with as little change to the old ones as the documents allow."""
    have = len(old.centroids)
    if max(count / have, have / count) > REFIT_RATIO:
        reason = f"the corpus calls for {count} clusters, there were {have}"
        return cluster_anew(vectors, count=count, seed=seed, reason=reason)
    labels, fresh = _labels(old, documents, vectors)
    labels, new = _found_clusters(labels, fresh, vectors, old=old, seed=seed)
    origin, dense = np.unique(labels, return_inverse=True)
    dense = dense.reshape(-1).astype(np.int32)
    origin = np.where(origin < have, origin, -1)
    clustering = Clustering(centroids=_centroids(old, vectors, dense, origin), labels=dense)
    before = dict(zip(old.ids.tolist(), old.hashes.tolist(), strict=True))
    return Movement(
        clustering=clustering, origin=origin, moved=_moved(old, documents, dense, origin),
        added=sum(one.id not in before for one in documents),
        changed=sum(one.id in before and before[one.id] != one.hash for one in documents),
        deleted=len(before.keys() - {one.id for one in documents}),
        new_clusters=new, refit="",
    )


def track(
    documents: Sequence[Document], vectors: np.ndarray, movement: Movement, *, old: Tracked | None
) -> Tracked:
    """What to keep for the next time: moved clusters are anchored at their present documents, others as before."""
    clustering = movement.clustering
    hashes = np.array([one.hash for one in documents])
    anchors = [(hashes[clustering.labels == k], np.full(int(clustering.sizes[k]), k)) for k in sorted(movement.moved)]
    for k, number in enumerate(movement.origin):
        if k not in movement.moved and old is not None:
            kept = old.anchor_hashes[old.anchor_labels == number]
            anchors.append((kept, np.full(len(kept), k)))
    cosine = np.einsum("nd,nd->n", vectors, clustering.centroids[clustering.labels])
    return Tracked(
        centroids=clustering.centroids, ids=np.array([one.id for one in documents]), hashes=hashes,
        labels=clustering.labels,
        anchor_hashes=np.concatenate([one for one, _ in anchors]).astype(hashes.dtype),
        anchor_labels=np.concatenate([one for _, one in anchors]).astype(np.int32),
        far=float(np.quantile(cosine, FAR_QUANTILE)),
    )


def _labels(old: Tracked, documents: Sequence[Document], vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(labels, rows of the documents that are new or changed): known documents keep their cluster."""
    known = zip(old.ids.tolist(), old.hashes.tolist(), strict=True)
    place = dict(zip(known, old.labels.tolist(), strict=True))
    labels = np.array([place.get((one.id, one.hash), -1) for one in documents], dtype=np.int32)
    fresh = np.flatnonzero(labels < 0)
    if len(fresh):
        labels[fresh] = nearest(vectors[fresh], old.centroids)[0]
    return labels, fresh


def _found_clusters(
    labels: np.ndarray, fresh: np.ndarray, vectors: np.ndarray, *, old: Tracked, seed: int
) -> tuple[np.ndarray, int]:
    """Give far-off new documents clusters of their own, once they are as many as half a cluster of mean size."""
    cosine = np.einsum("nd,nd->n", vectors[fresh], old.centroids[labels[fresh]])
    far = fresh[cosine < old.far]
    mean_size = len(old.ids) / len(old.centroids)
    if len(far) < max(2.0, mean_size / 2):
        return labels, 0
    own = fit_clusters(vectors[far], count=max(1, round(len(far) / mean_size)), seed=seed)
    labels = labels.copy()
    labels[far] = len(old.centroids) + own.labels
    return labels, len(own.centroids)


def _centroids(old: Tracked, vectors: np.ndarray, labels: np.ndarray, origin: np.ndarray) -> np.ndarray:
    means = centroids_of(vectors, labels)
    known = origin >= 0
    means[known] = old.centroids[origin[known]]
    return means


def _moved(old: Tracked, documents: Sequence[Document], labels: np.ndarray, origin: np.ndarray) -> frozenset[int]:
    now: list[set[str]] = [set() for _ in origin]
    for one, label in zip(documents, labels.tolist(), strict=True):
        now[label].add(one.hash)
    then: dict[int, set[str]] = {}
    for name, label in zip(old.anchor_hashes.tolist(), old.anchor_labels.tolist(), strict=True):
        then.setdefault(label, set()).add(name)

    def share(k: int) -> float:
        was = then.get(int(origin[k]), set())
        return len(now[k] ^ was) / max(len(was), 1)

    return frozenset(k for k in range(len(origin)) if origin[k] < 0 or share(k) > MOVED_SHARE)


def wanted_clusters(documents: int, *, declared: int, factor: float = 1.0) -> int:
    """The declared number of clusters, or about sqrt(documents) where none is declared (0)."""
    return min(declared, documents) if declared else cluster_count(documents, factor=factor)
