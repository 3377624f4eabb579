"""Debiased relevance of items from daily counts, with the examination curve that every row needs.

Counts frames have one row per (query_key, item_key, segment, rank) and side: columns query_key, item_key, segment
(nullable), rank, composes (true: the even event days), impressions, clicks. Curve frames have segment (nullable), rank,
propensity, standard_error (nullable).
"""

import polars as pl

DECIMALS = 12  # relevances that differ by less differ by the order of a sum: rounded, they tie on every machine
PAIR = ["query_key", "item_key"]


def with_propensity(counts: pl.DataFrame, *, curve: pl.DataFrame) -> pl.DataFrame:
    """Add `propensity` and `standard_error` of each row's rank: its segment's curve, else the curve of all segments.

    Rows at a rank that the curve does not reach are left out with their clicks: nobody knows how often such a place is
    looked at, and any guess would bias the sum.
    """
    columns = ["segment", "rank", "propensity", "standard_error"]
    own = counts.join(curve.select(columns), on=["segment", "rank"], how="left", nulls_equal=True)
    overall = curve.filter(pl.col("segment").is_null()).select(
        "rank", overall="propensity", overall_error="standard_error"
    )
    both = own.join(overall, on="rank", how="left")
    filled = both.with_columns(
        standard_error=pl.when(pl.col("propensity").is_null()).then("overall_error").otherwise("standard_error"),
        propensity=pl.coalesce("propensity", "overall"),
    )
    return filled.filter(pl.col("propensity") > 0).drop("overall", "overall_error")


def item_relevance(counts: pl.DataFrame, *, curve: pl.DataFrame) -> pl.DataFrame:
    """One row per (query_key, item_key): impressions, clicks, examined, examined_squared, relevance.

    examined = sum n p, examined_squared = sum n p^2,
    relevance = clicks / examined (estimator `ratio`, methods.md 1), uncapped; pairs that were never shown are left out.
    """
    n, p = pl.col("impressions"), pl.col("propensity")
    sums = (
        with_propensity(counts, curve=curve)
        .group_by(PAIR)
        .agg(pl.col("impressions", "clicks").sum(), examined=(n * p).sum(), examined_squared=(n * p * p).sum())
    )
    ratio = (pl.col("clicks") / pl.col("examined")).round(DECIMALS)
    return sums.filter(pl.col("examined") > 0).with_columns(relevance=ratio)
