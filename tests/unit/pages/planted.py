"""Planted logs for the tests of pages: queries with known relevance, shown by several rankers, clicked by position."""

from dataclasses import dataclass

import numpy as np
import polars as pl

RANKS = 10
DAYS = 10


@dataclass(frozen=True)
class Planted:
    """counts (measure.py), curve, titles, and the planted relevance of every (query_key, item_key)."""

    counts: pl.DataFrame
    curve: pl.DataFrame
    titles: pl.DataFrame
    relevance: pl.DataFrame


def planted_log(*, queries: int, pages: int, seed: int, items: int = 12, noise: float = 0.3) -> Planted:
    """`pages` result pages a query over 10 days by rankers that order the items with noise; p_k = 1/k."""
    rng = np.random.default_rng(seed)
    relevance = rng.beta(1.6, 2.2, (queries, items))
    q = np.repeat(np.arange(queries), pages)
    order = np.argsort(-(relevance[q] + noise * rng.standard_normal((len(q), items))), axis=1)[:, :RANKS]
    p = 1 / np.arange(1, RANKS + 1)
    clicks = rng.random(order.shape) < relevance[q[:, None], order] * p
    composes = rng.integers(0, DAYS, len(q)) % 2 == 0
    return Planted(
        counts=_counts(q, order, clicks, composes, items),
        curve=curve_frame(p),
        titles=pl.DataFrame({"item_key": np.arange(queries * items), "title": _titles(queries, items, rng)}),
        relevance=pl.DataFrame(
            {
                "query_key": np.repeat(query_keys(queries), items),
                "item_key": np.arange(queries * items),
                "planted": relevance.ravel(),
            }
        ),
    )


def query_keys(queries: int) -> np.ndarray:
    """Keys that look like hashes, as real ones do."""
    return np.random.default_rng(1).integers(-(2**63), 2**63 - 1, queries)


def curve_frame(p: np.ndarray, errors: np.ndarray | None = None) -> pl.DataFrame:
    """One curve for all segments."""
    frame = pl.DataFrame({"rank": np.arange(1, len(p) + 1, dtype=np.int32), "propensity": p})
    errors = np.zeros(len(p)) if errors is None else errors
    return frame.with_columns(segment=pl.lit(None, pl.String), standard_error=pl.Series(errors))


def planted_truth(layout: pl.DataFrame, relevance: pl.DataFrame) -> pl.DataFrame:
    """The planted DCG-weighted relevance of each page: page, planted."""
    items = layout.join(relevance, on=["query_key", "item_key"])
    weight = 1 / (pl.col("rank") + 1).log(2)
    return items.group_by("page").agg(planted=(weight * pl.col("planted")).sum() / weight.sum())


def _counts(q: np.ndarray, order: np.ndarray, clicks: np.ndarray, composes: np.ndarray, items: int) -> pl.DataFrame:
    keys = query_keys(int(q.max()) + 1)
    frame = pl.DataFrame(
        {
            "query_key": np.repeat(keys[q], RANKS),
            "item_key": (q[:, None] * items + order).ravel(),
            "rank": np.tile(np.arange(1, RANKS + 1, dtype=np.int32), len(q)),
            "composes": np.repeat(composes, RANKS),
            "clicks": clicks.ravel().astype(np.int64),
        }
    )
    grouped = frame.group_by("query_key", "item_key", "rank", "composes").agg(
        impressions=pl.len().cast(pl.Int64), clicks=pl.col("clicks").sum()
    )
    return grouped.with_columns(segment=pl.lit(None, pl.String))


def _titles(queries: int, items: int, rng: np.random.Generator) -> list[str]:
    words = ["amber", "river", "neon", "winter", "silent", "golden", "paper", "satellite"]
    return [" ".join(rng.choice(words, 3)) + f" {i}" for i in range(queries * items)]
