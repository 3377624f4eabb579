"""What users did on the odd event days says how good a page is: DCG-weighted relevance with its standard error.

truth = sum(w_i r_i) / sum(w_i) with w_i = 1/log2(i+1) (methods.md 3). The error of an item is that of `ratio` with
one click more than seen (plain counts cover 88-91% at 60 result pages a query); the error of the curve is added by the
delta method, once per rank, since all items of a page share the curve.
"""

import polars as pl

from jobs.pages.measure import DECIMALS, PAIR, with_propensity

TRUTH = {
    "page": pl.String,
    "truth": pl.Float64,
    "truth_standard_error": pl.Float64,
    "truth_variance": pl.Float64,
    "truth_impressions": pl.Int64,
    "truth_clicks": pl.Int64,
}
"""Columns of a scored page."""


def dcg_weight(rank: str = "rank") -> pl.Expr:
    """1 / log2(rank + 1), the discount of DCG for 1-based ranks."""
    return 1 / (pl.col(rank) + 1).log(2)


def page_truth(layout: pl.DataFrame, *, counts: pl.DataFrame, curve: pl.DataFrame) -> pl.DataFrame:
    """Score pages on the odd days: one row per page with the columns TRUTH.

    truth_standard_error is for intervals of one page: it errs on the safe side where clicks are few. truth_variance is
    for sums over many pages, such as the ceiling of a correlation: it is right on average, though 0 without a click.

    layout: page, query_key, item_key, rank. counts: as in measure.py, of both sides; only rows with composes = false
    are used. A page with an item that was not shown on the odd days has null truth and null error.
    """
    shown = with_propensity(counts.filter(~pl.col("composes")), curve=curve)
    items = layout.join(_item_sums(shown), on=PAIR, how="left").with_columns(weight=dcg_weight())
    share = pl.col("weight") / pl.col("weight").sum().over("page")
    items = items.with_columns(
        share=share, variance=share.pow(2) * _variance(extra=1), plain=share.pow(2) * _variance(extra=0)
    )
    pages = items.group_by("page").agg(
        pl.col("variance", "plain").sum(),
        truth=(pl.col("share") * pl.col("clicks") / pl.col("examined")).sum(),
        truth_impressions=pl.col("impressions").sum(),
        truth_clicks=pl.col("clicks").sum(),
        unseen=pl.col("examined").is_null().sum(),
    )
    pages = pages.join(_curve_variance(items, shown), on="page", how="left")
    seen = pl.col("unseen") == 0
    shared = pl.col("curve_variance").fill_null(0)
    error = (pl.col("variance") + shared).sqrt()
    return pages.select(
        "page",
        truth=pl.when(seen).then(pl.col("truth").round(DECIMALS)),
        truth_standard_error=pl.when(seen).then(error.round(DECIMALS)),
        truth_variance=pl.when(seen).then((pl.col("plain") + shared).round(DECIMALS)),
        truth_impressions="truth_impressions",
        truth_clicks="truth_clicks",
    )


def _item_sums(shown: pl.DataFrame) -> pl.DataFrame:
    n, p = pl.col("impressions"), pl.col("propensity")
    sums = shown.group_by(PAIR).agg(
        pl.col("impressions", "clicks").sum(), examined=(n * p).sum(), examined_squared=(n * p * p).sum()
    )
    return sums.filter(pl.col("examined") > 0)


def _variance(*, extra: int) -> pl.Expr:
    """Variance of clicks / examined with `extra` clicks more than seen.

    The binomial factor 1 - r Y/X keeps at least one missing click of all impressions, so that an item that was clicked
    each time is not taken for certain.
    """
    clicks, x, y = pl.col("clicks") + extra, pl.col("examined"), pl.col("examined_squared")
    left = pl.max_horizontal(1 - clicks * y / x.pow(2), 1 / (pl.col("impressions") + 1))
    return clicks / x.pow(2) * left


def _curve_variance(items: pl.DataFrame, shown: pl.DataFrame) -> pl.DataFrame:
    """Per page, sum over ranks of (d truth / d p_k)^2 se_k^2, where d r_i / d p_k = -r_i n_ik / X_i."""
    uncertain = shown.filter(pl.col("standard_error") > 0)
    parts = items.select("page", *PAIR, "share", "clicks", "examined").join(
        uncertain.select(*PAIR, "segment", curve_rank="rank", n="impressions", error="standard_error"), on=PAIR
    )
    slope = pl.col("share") * pl.col("clicks") / pl.col("examined").pow(2) * pl.col("n")
    ranks = parts.group_by("page", "segment", "curve_rank").agg(slope=slope.sum(), error=pl.col("error").first())
    return ranks.group_by("page").agg(curve_variance=(pl.col("slope") * pl.col("error")).pow(2).sum())
