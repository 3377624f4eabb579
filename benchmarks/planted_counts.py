"""Counts with planted examination and relevance, drawn at once from binomials: no log, no files, any size.

Used by `benchmarks.estimators` and by the tests of jobs.propensity and jobs.evidence.
"""

import numpy as np
import polars as pl

RANKS = 10
TRUE_CURVE = 1.0 / np.arange(1, RANKS + 1)
CANDIDATES = 15  # items that compete for the places of a query
GOOD, POOR = 0.3, 1.5  # noise of a ranker's scores in standard deviations of relevance


def relevances(rng: np.random.Generator, *, queries: int) -> np.ndarray:
    """Planted relevance (queries, CANDIDATES): most items are poor, a few are good (Beta(1.2, 3), mean .29)."""
    return rng.beta(1.2, 3.0, size=(queries, CANDIDATES))


def order(rng: np.random.Generator, relevance: np.ndarray, *, noise: float) -> np.ndarray:
    """Items by place (queries, RANKS), as a ranker with that noise lists them; infinite noise is random order."""
    if np.isinf(noise):
        return rng.permuted(np.tile(np.arange(CANDIDATES), (len(relevance), 1)), axis=1)[:, :RANKS]
    scores = relevance + rng.normal(0, noise * relevance.std(), relevance.shape)
    return np.argsort(-scores, axis=1)[:, :RANKS]


def two_rankers(
    seed: int,
    *,
    queries: int = 1000,
    pages: int = 60,
    noises: tuple[float, ...] = (GOOD, POOR),
    curve: np.ndarray = TRUE_CURVE,
) -> pl.DataFrame:
    """Counts of `pages` page views a query, split at random between rankers with these noises (one: a fixed ranker)."""
    rng = np.random.default_rng(seed)
    relevance = relevances(rng, queries=queries)
    orders = [order(rng, relevance, noise=noise) for noise in noises]
    return counts(rng, relevance, orders, pages=pages, curve=curve)


def swapped(seed: int, *, swaps: int, queries: int = 1000, pages: int = 60) -> pl.DataFrame:
    """One ranker, and a second that exchanges two neighbouring places on `swaps` of the queries."""
    rng = np.random.default_rng(seed)
    relevance = relevances(rng, queries=queries)
    first = order(rng, relevance, noise=GOOD)
    second = first.copy()
    chosen = rng.choice(queries, swaps, replace=False)
    place = rng.integers(0, RANKS - 1, swaps)
    second[chosen, place], second[chosen, place + 1] = first[chosen, place + 1], first[chosen, place]
    return counts(rng, relevance, [first, second], pages=pages, curve=TRUE_CURVE)


def counts(
    rng: np.random.Generator, relevance: np.ndarray, orders: list[np.ndarray], *, pages: int, curve: np.ndarray
) -> pl.DataFrame:
    """Rows query_key, item_key, rank, ranker, randomised, impressions, clicks, of cells that were shown."""
    queries = len(relevance)
    split = rng.multinomial(pages, [1 / len(orders)] * len(orders), size=queries)
    frames = [_cells(rng, relevance, o, split[:, [f]], curve, f"ranker-{f}") for f, o in enumerate(orders)]
    return pl.concat(frames).filter(pl.col("impressions") > 0)


def _cells(rng, relevance, places, shown, curve, ranker):
    queries, ranks = places.shape
    n = np.repeat(shown, ranks, axis=1)
    clicks = rng.binomial(n, curve[:ranks] * np.take_along_axis(relevance, places, axis=1))
    query = np.repeat(np.arange(queries, dtype=np.int64), ranks)
    return pl.DataFrame(
        {
            "query_key": query + 1_000_003,
            "item_key": query * CANDIDATES + places.ravel(),
            "rank": np.tile(np.arange(1, ranks + 1, dtype=np.int32), queries),
            "ranker": pl.Series([ranker]).gather(np.zeros(queries * ranks, np.uint32)),
            "randomised": np.zeros(queries * ranks, bool),
            "impressions": n.ravel().astype(np.int64),
            "clicks": clicks.ravel().astype(np.int64),
        }
    )


def relative_error(values: np.ndarray, truth: np.ndarray = TRUE_CURVE) -> float:
    """Mean absolute relative error over ranks 2 and deeper; rank 1 is 1 by definition."""
    return float(np.mean(np.abs(values - truth)[1:] / truth[1:]))
