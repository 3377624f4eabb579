"""The window sum: daily counts of the evidence window to one debiased row per (query, item). Pure, on polars frames.

The caller has filtered the rows to the window by event and arrival day (jobs.core.windows); this sums, weighs by the
curve, and keeps the queries that enough users issued.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from jobs.evidence import relevance as formulas
from jobs.evidence.relevance import Prior
from jobs.evidence.sums import CurveErrors, CurveValues, pair_sums
from jobs.evidence.users import distinct_users

BANDS = (1.5, 2.5, 3.5, 4.5, 5.5, 7.5, 10.5, 20.5)
"""Upper ends, in mean rank, of the bands of a rank-band prior; one more band is deeper."""

_WORKING = ("curve_variance", "inverse_clicks", "inverse_square_clicks", "inverse_exposure")


@dataclass(frozen=True, kw_only=True)
class How:
    """How evidence rows are made.

    `relevance`: ratio, ratio_eb, ips, weighted or ctr. `prior_kind`: groups of the shrunk values (query, rank_band,
    global). `floor` clips propensities from below in the inverse-weighted estimators.
    """

    min_users: int = 20
    relevance: str = "ratio"
    prior_kind: str = "rank_band"
    by_segment: bool = False
    floor: float = 0.01

    @property
    def inverse(self) -> bool:
        """True for estimators that need inverse-weighted sums."""
        return self.relevance in ("ips", "weighted")


def sum_window(
    counts: pl.DataFrame,
    users: pl.DataFrame,
    *,
    curve: CurveValues,
    min_users: int = 20,
    curve_errors: CurveErrors | None = None,
    prior: Prior | None = None,
    how: How | None = None,
) -> pl.DataFrame:
    """Evidence-shaped rows (keys, no text), sorted by (query_key, item_key), of queries with at least `min_users`
    users.

    `counts` has the columns of daily_counts, `users` those of daily_users. Without `prior` it is fitted on these very
    rows. Columns: those of the evidence table that need no text. Raises InputError where the curve lacks a rank.
    """
    how = how or How(min_users=min_users)
    sums = pair_sums(
        counts, curve=curve, errors=curve_errors, by_segment=how.by_segment, inverse=how.inverse, floor=how.floor
    )
    rows = issued_by_enough(sums, users, min_users=how.min_users)
    return with_relevance(rows, prior=prior or prior_of(rows, kind=how.prior_kind), how=how)


def issued_by_enough(sums: pl.DataFrame, users: pl.DataFrame, *, min_users: int) -> pl.DataFrame:
    """`sums` with columns users and users_exact, without the queries that may have had fewer than `min_users`
    issuers.
    """
    enough = distinct_users(users).filter(pl.col("users_least") >= min_users).drop("users_least")
    return sums.join(enough, on="query_key", how="inner", maintain_order="left")


def prior_of(rows: pl.DataFrame, *, kind: str) -> Prior:
    """The prior that these rows support (relevance.fit_prior over the groups of `kind`)."""
    return formulas.fit_prior(rows["clicks"].to_numpy(), rows["examined"].to_numpy(), _groups(rows, kind), kind=kind)


def with_relevance(rows: pl.DataFrame, *, prior: Prior, how: How) -> pl.DataFrame:
    """Add ctr, relevance with its 95% interval, and the shrunk relevance; drop the working sums.

    Groups of the prior are taken within these rows, so whole queries must stand in one frame.
    """
    c, x = rows["clicks"].to_numpy().astype(float), rows["examined"].to_numpy()
    mean = formulas.group_means(c, x, _groups(rows, prior.kind), prior=prior)
    value, low, high = _chosen(rows, how.relevance, mean, prior)
    return rows.with_columns(
        pl.Series("ctr", formulas.ctr(c, rows["impressions"].to_numpy())),
        pl.Series("relevance", value),
        pl.Series("relevance_low", low),
        pl.Series("relevance_high", high),
        pl.Series("relevance_shrunk", formulas.ratio_eb(c, x, mean, prior=prior)),
    ).drop(_WORKING, strict=False)


def _chosen(rows: pl.DataFrame, name: str, mean: np.ndarray, prior: Prior) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value and 95% interval of the chosen estimator."""
    c, n, x = (rows[k].to_numpy().astype(float) for k in ("clicks", "impressions", "examined"))
    if name == "ctr":
        return formulas.ctr(c, n), *formulas.score_interval(c, n, n)
    if name == "ratio_eb":
        return formulas.ratio_eb(c, x, mean, prior=prior), *formulas.gamma_interval(c, x, mean, prior=prior)
    if name in ("ips", "weighted"):
        below = n if name == "ips" else rows["inverse_exposure"].to_numpy()
        value = formulas.ips(rows["inverse_clicks"].to_numpy(), below)
        return value, *formulas.inverse_interval(value, rows["inverse_square_clicks"].to_numpy(), below)
    interval = formulas.score_interval(
        c, x, rows["examined_squared"].to_numpy(), curve_variance=rows["curve_variance"].to_numpy()
    )
    return formulas.ratio(c, x), *interval


def _groups(rows: pl.DataFrame, kind: str) -> np.ndarray:
    """Group number of each row, from 0."""
    if kind == "query":
        keys = rows["query_key"].to_numpy()
        return np.cumsum(np.append(0, keys[1:] != keys[:-1])) if len(keys) else np.empty(0, np.int64)
    if kind == "rank_band":
        return np.searchsorted(BANDS, _mean_rank(rows))
    return np.zeros(rows.height, np.int64)


def _mean_rank(rows: pl.DataFrame) -> np.ndarray:
    sizes = rows["ranks"].list.len().to_numpy()
    weighted = rows["ranks"].explode().to_numpy() * rows["rank_impressions"].explode().to_numpy()
    owner = np.repeat(np.arange(rows.height), sizes)
    return np.bincount(owner, weighted, rows.height) / rows["impressions"].to_numpy()
