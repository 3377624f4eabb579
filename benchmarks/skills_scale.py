"""100,000 documents clustered and sampled, in a process of its own: prints seconds and the peak of memory as JSON."""

from __future__ import annotations

import json
import resource
import time

import numpy as np

from jobs.skills.clusters import cluster_count, cluster_views, fit_clusters
from jobs.skills.documents import Document

DOCUMENTS, TOPICS, WORDS, DIMENSION = 100_000, 300, 60, 384


def make(seed: int) -> tuple[list[Document], np.ndarray]:
    """Documents of 60 words on 300 topics, and vectors of length 1 around their topics."""
    rng = np.random.default_rng(seed)
    topics = rng.integers(0, TOPICS, DOCUMENTS)
    centres = rng.standard_normal((TOPICS, DIMENSION)).astype(np.float32)
    vectors = centres[topics] + rng.standard_normal((DOCUMENTS, DIMENSION), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vocabulary = np.array([f"word{chr(97 + n % 26)}{n // 26:x}" for n in range(20_000)])
    own = rng.integers(0, 60, (DOCUMENTS, WORDS // 3)) + topics[:, None] * 60
    common = rng.zipf(1.3, (DOCUMENTS, WORDS - WORDS // 3)) % len(vocabulary)
    picks = np.concatenate([own, common], axis=1)
    return [Document(id=f"d{n}", text=" ".join(vocabulary[row])) for n, row in enumerate(picks)], vectors


def main() -> None:
    """Cluster, find representatives, samples and terms of each cluster, and say what it took."""
    documents, vectors = make(0)
    begun, busy = time.perf_counter(), time.process_time()
    clustering = fit_clusters(vectors, count=cluster_count(len(documents)), seed=0)
    views = cluster_views(documents, vectors, clustering)
    seconds, busy = time.perf_counter() - begun, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"seconds": seconds, "processor_seconds": busy, "peak_gib": peak, "clusters": len(views)}))


if __name__ == "__main__":
    main()
