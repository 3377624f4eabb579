"""Rank-by-rank tables of weighted exposure and clicks, made from (query, item) pairs that were shown at two ranks.

Two kinds of variation are harvested in one pass. `rankers`: different rankers (or randomised traffic) put the item at
the two ranks; exposure is weighted by the traffic of the rankers that put it there. `changes`: the item stood at two
ranks for whatever reason, at least `MIN_SHOWN` times at each; this takes the change of rank as exogenous.
Tables are sums over queries: parts of the data are added, and a bootstrap over queries is a weighted sum.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from jobs.propensity.bootstrap import Resample

MIN_SHOWN = 5  # impressions at each of two ranks without a known ranker: fewer are mostly noise of single pages
RANDOMISED = "\x00randomised"  # stands in the ranker column for traffic whose ranks were drawn at random
VARIATIONS = ("rankers", "changes")
_CELL = ["query_key", "item_key", "rank"]
_UNKNOWN = -1


def harvest(counts: pl.DataFrame, *, ranks: int, sample: Resample) -> dict[str, np.ndarray]:
    """Tables of both variations, by name, of counts with ranks 1..`ranks` and a column `unit` that `sample` resamples.

    Per variation V: `shown_V`, `clicked_V` (replicates + 1, ranks, ranks): weighted exposure and clicks at the first
    rank of the pairs that also stood at the second; `pairs_V` (ranks,): how many pairs inform the rank.
    """
    moved = _moved(_cells(counts), ranks)
    unit = np.searchsorted(sample.keys, moved.unit)
    found: dict[str, np.ndarray] = {}
    for name in VARIATIONS:
        exposure = moved.traffic if name == "rankers" else moved.impressions
        usable = _different_rankers if name == "rankers" else _often_enough
        found |= _tables(name, moved, exposure, usable, unit, sample)
    return found


def _cells(counts: pl.DataFrame) -> pl.DataFrame:
    """One row a (query, item, rank): its counts, the rankers that put it there and their traffic for the query."""
    by_ranker = (
        counts.group_by(*_CELL, _ranker_codes(counts))
        .agg(pl.first("unit"), pl.sum("impressions"), pl.sum("clicks"))
        .with_columns((pl.col("ranker") == 0).alias("random"))
    )
    share = pl.when("random").then(pl.col("impressions")).otherwise(pl.col("traffic"))
    return (
        by_ranker.join(_traffic(by_ranker), on=["query_key", "ranker"], how="left")
        .with_columns(share.alias("traffic"))
        .group_by(_CELL)
        .agg(
            pl.first("unit"),
            pl.sum("impressions"),
            pl.sum("clicks"),
            pl.sum("traffic"),
            pl.min("ranker").alias("first"),
            pl.max("ranker").alias("last"),
            pl.any("random"),
        )
        .filter(pl.col("impressions") > 0)
    )


def _ranker_codes(counts: pl.DataFrame) -> pl.Series:
    """Rankers as numbers: 0 for randomised traffic, null where no ranker is known."""
    names = sorted(counts["ranker"].drop_nulls().unique())
    codes = counts["ranker"].replace_strict(names, range(1, len(names) + 1), default=None, return_dtype=pl.Int32)
    zero = pl.Series([0], dtype=pl.Int32)
    return codes.zip_with(~counts["randomised"], zero.new_from_index(0, counts.height)).alias("ranker")


def _traffic(by_ranker: pl.DataFrame) -> pl.DataFrame:
    """Page views of each query and known ranker: the best filled rank counts each page once."""
    known = by_ranker.filter(pl.col("ranker").is_not_null())
    ranks = known.group_by("query_key", "ranker", "rank").agg(pl.sum("impressions"))
    return ranks.group_by("query_key", "ranker").agg(pl.max("impressions").alias("traffic"))


@dataclass(frozen=True, kw_only=True)
class _Moved:
    """Pairs at two or more ranks: arrays (pairs, ranks), 0 where a pair was not shown; `unit` (pairs,)."""

    unit: np.ndarray
    impressions: np.ndarray
    clicks: np.ndarray
    traffic: np.ndarray
    first: np.ndarray
    last: np.ndarray
    random: np.ndarray


def _moved(cells: pl.DataFrame, ranks: int) -> _Moved:
    rows = cells.filter(pl.len().over("query_key", "item_key") > 1).sort(_CELL)
    query, item = rows["query_key"].to_numpy(), rows["item_key"].to_numpy()
    new = np.ones(len(query), bool)
    new[1:] = (query[1:] != query[:-1]) | (item[1:] != item[:-1])
    place = (np.cumsum(new) - 1, rows["rank"].to_numpy() - 1)
    shape = (int(new.sum()), ranks)

    def spread(column: str, kind: type, empty: int = 0) -> np.ndarray:
        table = np.full(shape, empty, kind)
        table[place] = rows[column].fill_null(empty).to_numpy()
        return table

    return _Moved(
        unit=rows["unit"].to_numpy()[new],
        impressions=spread("impressions", float),
        clicks=spread("clicks", float),
        traffic=spread("traffic", float),
        first=spread("first", np.int32, _UNKNOWN),
        last=spread("last", np.int32, _UNKNOWN),
        random=spread("random", bool),
    )


def _different_rankers(moved: _Moved, k: int, j: int) -> np.ndarray:
    """False where one and the same known ranker put the item at both ranks, or where no ranker is known."""
    first, last = moved.first, moved.last
    known = (first[:, k] != _UNKNOWN) & (first[:, j] != _UNKNOWN)
    one = (first[:, k] == last[:, k]) & (first[:, j] == last[:, j]) & (first[:, k] == first[:, j])
    return known & ~(one & ~moved.random[:, k])


def _often_enough(moved: _Moved, k: int, j: int) -> np.ndarray:
    return (moved.impressions[:, k] >= MIN_SHOWN) & (moved.impressions[:, j] >= MIN_SHOWN)


def _tables(name: str, moved: _Moved, exposure: np.ndarray, usable, unit: np.ndarray, sample: Resample) -> dict:
    """Both cells of a pair get one weighted exposure, min(x_k, x_j) / x_k, so that its relevance counts alike at
    both.
    """
    ranks, units = exposure.shape[1], len(sample.keys)
    shown, clicked = (np.zeros((sample.replicates + 1, ranks, ranks)) for _ in range(2))
    pairs = np.zeros(ranks)
    for k in range(ranks):
        block, informed = np.zeros((2, units, ranks)), np.zeros(len(unit), bool)
        for j in range(ranks):
            both = np.flatnonzero(usable(moved, k, j) & (moved.impressions[:, k] > 0) & (moved.impressions[:, j] > 0))
            if j == k or not len(both):
                continue
            weight = np.minimum(exposure[both, k], exposure[both, j]) / exposure[both, k]
            informed[both] = True
            for side, counted in enumerate((moved.impressions, moved.clicks)):
                block[side, :, j] = np.bincount(unit[both], weight * counted[both, k], units)
        pairs[k] = informed.sum()
        shown[:, k], clicked[:, k] = sample.weigh(block[0]), sample.weigh(block[1])
    return {f"shown_{name}": shown, f"clicked_{name}": clicked, f"pairs_{name}": pairs}
