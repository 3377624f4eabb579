"""Rank-by-rank tables of weighted exposure and clicks, made from (query, item) pairs that were shown at two ranks.

Two kinds of variation are harvested in one pass. `rankers`: different rankers (or randomised traffic) put the item
at the two ranks; exposure is weighted by the traffic of the rankers that put it there. `changes`: the item stood at two
ranks for whatever reason, at least `MIN_SHOWN` times at each; this takes the change of rank as exogenous.
Tables are sums over queries: parts of the data are added, and a bootstrap over queries is a weighted sum.
"""

from dataclasses import dataclass

import polars as pl

MIN_SHOWN = 5  # impressions at each of two ranks without a known ranker: fewer are mostly noise of single pages
_CELL = ["query_key", "item_key", "rank"]
RANDOMISED = "\x00randomised"  # stands in the ranker column for traffic whose ranks were drawn at random


@dataclass(frozen=True, kw_only=True)
class Harvest:
    """`rows` (unit, rank, other): weighted `shown` and `clicked` at rank, of the pairs that also stood at other.

    `pairs` (rank): how many distinct (query, item) pairs inform the rank.
    """

    rows: pl.DataFrame
    pairs: pl.DataFrame


def harvest(counts: pl.DataFrame) -> dict[str, Harvest]:
    """Both harvests, by name, of a frame with unit, query_key, item_key, rank, ranker, randomised, impressions, clicks.

    `unit` is what the bootstrap resamples: the query's key, or where queries are too few a key of the pair.
    """
    cells = _cells(counts)
    moved = cells.filter(pl.len().over("query_key", "item_key") > 1)
    both = moved.join(moved, on=["query_key", "item_key"], suffix="_other").filter(
        pl.col("rank") != pl.col("rank_other")
    )
    return {
        "rankers": _sums(both.filter(_by_different_rankers()), weight=_share("traffic")),
        "changes": _sums(both.filter(_often_enough()), weight=_share("impressions")),
    }


def _cells(counts: pl.DataFrame) -> pl.DataFrame:
    """One row a (query, item, rank): its counts, the rankers that put it there and their traffic for the query."""
    ranker = pl.when("randomised").then(pl.lit(RANDOMISED)).otherwise(pl.col("ranker"))
    by_ranker = counts.group_by(*_CELL, ranker.alias("ranker")).agg(
        pl.first("unit"), pl.sum("impressions"), pl.sum("clicks")
    )
    traffic = _traffic(by_ranker)
    random = pl.col("ranker") == RANDOMISED
    share = pl.when(random).then(pl.col("impressions")).otherwise(pl.col("traffic"))
    return (
        by_ranker.join(traffic, on=["query_key", "ranker"], how="left")
        .with_columns(share.alias("traffic"), random.alias("random"))
        .group_by(_CELL)
        .agg(
            pl.first("unit"),
            pl.sum("impressions"),
            pl.sum("clicks"),
            pl.sum("traffic"),
            pl.min("ranker").alias("first"),
            pl.max("ranker").alias("last"),
            pl.any("random").alias("random"),
        )
        .filter(pl.col("impressions") > 0)
    )


def _traffic(by_ranker: pl.DataFrame) -> pl.DataFrame:
    """Page views of each query and known ranker: the best filled rank counts each page once."""
    known = by_ranker.filter(pl.col("ranker").is_not_null())
    ranks = known.group_by("query_key", "ranker", "rank").agg(pl.sum("impressions"))
    return ranks.group_by("query_key", "ranker").agg(pl.max("impressions").alias("traffic"))


def _by_different_rankers() -> pl.Expr:
    """False where one and the same known ranker put the item at both ranks, or where no ranker is known."""
    known = pl.col("first").is_not_null() & pl.col("first_other").is_not_null()
    one = (pl.col("first") == pl.col("last")) & (pl.col("first_other") == pl.col("last_other"))
    same = one & (pl.col("first") == pl.col("first_other")) & ~pl.col("random")
    return known & ~same


def _often_enough() -> pl.Expr:
    return (pl.col("impressions") >= MIN_SHOWN) & (pl.col("impressions_other") >= MIN_SHOWN)


def _share(column: str) -> pl.Expr:
    """min(x, x_other) / x: both ranks of a pair get one weighted exposure, so that its relevance counts alike at
    both.
    """
    return pl.min_horizontal(column, f"{column}_other") / pl.col(column)


def _sums(both: pl.DataFrame, *, weight: pl.Expr) -> Harvest:
    rows = (
        both.with_columns(weight.alias("weight"))
        .group_by("unit", "rank", pl.col("rank_other").alias("other"))
        .agg(
            (pl.col("weight") * pl.col("impressions")).sum().alias("shown"),
            (pl.col("weight") * pl.col("clicks")).sum().alias("clicked"),
        )
    )
    pairs = both.select(_CELL).unique().group_by("rank").agg(pl.len().alias("pairs"))
    return Harvest(rows=rows, pairs=pairs)
