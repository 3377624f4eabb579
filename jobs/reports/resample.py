"""Bootstrap over queries: which queries are drawn depends on the seed alone, never on rows, variants or workers."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

from jobs.reports import association as assoc

BATCH = 64
"""Resamples per batch: 64 x 6,000 weights are 3 MB, which stays in the processor's cache."""
PAIR_SAMPLES = 2_000
"""Resamples of pair statistics for labels of many levels: each costs a product with a matrix of all queries."""
PAIR_LIMIT = 8_000
"""Above this many queries the matrix of all pairs (float32) is not built and these intervals are left out."""


@dataclass(frozen=True, kw_only=True)
class Subset:
    """Pages of one comparison: `rows` (m,) page indices, `labels` per judge (m,), all defined."""

    name: str
    rows: np.ndarray
    labels: dict[str, np.ndarray]


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks for loaded libraries, which takes milliseconds


def one_blas_thread() -> AbstractContextManager:
    """Keep BLAS on one thread: our matrices are small, and its threads would wait for ours."""
    return _controller().limit(limits=1, user_api="blas")


def query_codes(query: np.ndarray) -> np.ndarray:
    """Queries as 0..k-1 in the order of their keys, so that a query keeps its draws whatever the order of rows."""
    return np.unique(query, return_inverse=True)[1]


def query_draws(queries: int, *, samples: int, seed: int) -> Iterator[np.ndarray]:
    """Batches (at most BATCH, queries) of how often each query is drawn when `queries` are drawn with replacement."""
    for number, begin in enumerate(range(0, samples, BATCH)):
        yield draw_batch(queries, size=min(BATCH, samples - begin), seed=seed, number=number)


def draw_batch(queries: int, *, size: int, seed: int, number: int) -> np.ndarray:
    """Batch `number` of the draws: float64 (size, queries)."""
    rng = np.random.Generator(np.random.PCG64([seed, number]))
    drawn = rng.integers(0, queries, (size, queries), dtype=np.int64)
    drawn += np.arange(size)[:, None] * queries
    return np.bincount(drawn.ravel(), minlength=size * queries).reshape(size, queries).astype(np.float64)


class _Prepared:
    """A subset sorted and coded once, evaluated for each batch of draws."""

    def __init__(self, subset: Subset, truth: np.ndarray, queries: np.ndarray) -> None:
        self.subset = subset
        self.truth = assoc.TruthOrder.of(truth[subset.rows])
        self.columns = queries[subset.rows][self.truth.order]
        few = {j for j, labels in subset.labels.items() if assoc.few_levels(labels)}
        self.levels = {j: assoc.Levels.of(subset.labels[j], self.truth) for j in few}
        self.graded = {j: v for j, v in subset.labels.items() if j not in few}
        used, local = np.unique(queries[subset.rows], return_inverse=True)
        small = len(used) <= PAIR_LIMIT
        self.used = used
        self.signs = {
            j: assoc.pair_signs(v, truth[subset.rows], local) for j, v in self.graded.items() if small and len(v)
        }

    def evaluate(self, draws: np.ndarray, *, with_pairs: bool) -> dict[str, np.ndarray]:
        """Statistics per judge: (samples, 4) in the order of STATISTICS."""
        batch = assoc.WeightedTruth.of(self.truth, np.take(draws, self.columns, axis=1))
        found = {j: assoc.associate_levels(levels, batch) for j, levels in self.levels.items()}
        for judge, labels in self.graded.items():
            pairs = self._pairs(judge, draws) if with_pairs and judge in self.signs else None
            found[judge] = assoc.associate_graded(labels, batch, pairs)
        return {j: np.stack([v[s] for s in assoc.STATISTICS], axis=1) for j, v in found.items()}

    def _pairs(self, judge: str, draws: np.ndarray) -> np.ndarray:
        counts = draws[:, self.used].astype(np.float32)
        return np.einsum("ij,ij->i", counts @ self.signs[judge], counts, dtype=np.float64) / 2


def bootstrap(
    *, truth: np.ndarray, query: np.ndarray, subsets: list[Subset], samples: int, seed: int, workers: int = 2
) -> dict[tuple[str, str], np.ndarray]:
    """Resampled statistics: (subset name, judge) -> (samples, 4), columns as STATISTICS, NaN where undefined.

    `workers` threads work on batches, and BLAS on one thread in each: two levels of threads wait for each other.
    All subsets and judges see the same draws of queries, so that differences of two results are paired.
    Empty subsets are left out. Pair statistics of labels with many levels stop after PAIR_SAMPLES (NaN after that).
    """
    queries = query_codes(query)
    count = int(queries.max()) + 1 if len(queries) else 0
    prepared = [_Prepared(s, truth, queries) for s in subsets if len(s.rows)]

    def one(number: int) -> list[dict[str, np.ndarray]]:
        size = min(BATCH, samples - number * BATCH)
        draws = draw_batch(count, size=size, seed=seed, number=number)
        return [p.evaluate(draws, with_pairs=number * BATCH < PAIR_SAMPLES) for p in prepared]

    with one_blas_thread(), ThreadPoolExecutor(max_workers=workers) as pool:
        batches = list(pool.map(one, range(-(-samples // BATCH)))) if prepared else []
    return {
        (p.subset.name, judge): np.concatenate([b[i][judge] for b in batches])
        for i, p in enumerate(prepared)
        for judge in p.subset.labels
    }


def mean_samples(values: np.ndarray, query: np.ndarray, *, samples: int, seed: int) -> np.ndarray:
    """Resampled means over queries: `values` (n, k) may hold NaN (left out of their column); result (samples, k)."""
    queries = query_codes(query)
    count = int(queries.max()) + 1
    known = ~np.isnan(values)
    sums, ns = np.zeros((count, values.shape[1])), np.zeros((count, values.shape[1]))
    np.add.at(sums, queries, np.where(known, values, 0))
    np.add.at(ns, queries, known.astype(np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.concatenate([(d @ sums) / (d @ ns) for d in query_draws(count, samples=samples, seed=seed)])


def interval(samples: np.ndarray, *, level: float = 0.95) -> tuple[float, float] | None:
    """Percentile interval of a sample (n,); None if fewer than 100 or under 95% of the resamples are defined.

    Samples of which a prefix alone was computed (pair statistics of many-level labels) are judged by that prefix.
    """
    defined = samples[~np.isnan(samples)]
    asked = int(np.flatnonzero(~np.isnan(samples))[-1]) + 1 if len(defined) else 0
    if len(defined) < min(100, len(samples)) or len(defined) < 0.95 * asked or not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
