"""Relevance on planted items: bias by ranker, the estimators side by side, and what a wrong curve costs."""

from collections.abc import Iterable
from concurrent.futures import Executor

import numpy as np
import polars as pl
from scipy.stats import rankdata

from benchmarks.lines import Line, at_most, holds
from benchmarks.planted_counts import CANDIDATES, GOOD, POOR, TRUE_CURVE, counts, order, relevances
from jobs.evidence import relevance as formulas
from jobs.evidence.window import How, sum_window
from jobs.propensity.estimate import Options, fit

REPETITIONS, PAGES, ITEMS = 4000, 400, 10
RANKERS = {"good": 1.0, "random": 0.0, "adversarial": -1.0}  # sign of relevance in the ranker's scores
SCORE_NOISE = 0.3  # so that every item is shown at several ranks
LIMIT = 0.01


def bias(pool: Executor) -> Iterable[Line]:
    """Largest |bias| over ten items of planted relevance .05 to .95, per ranker and estimator."""
    for ranker, found in zip(RANKERS, pool.map(_bias, RANKERS.items()), strict=True):
        yield at_most(f"ratio, {ranker} ranker", found["ratio"], LIMIT)
        yield Line(f"ips, {ranker} ranker", f"{found['ips']:.4f}")
        for name in ("ctr", "weighted"):
            title = f"{name}, {ranker} ranker: fails the same test"
            yield holds(title, truth=found[name] > LIMIT, figure=f"{found[name]:.4f} > {LIMIT}")


def _bias(ranker: tuple[str, float]) -> dict[str, float]:
    """Pages are drawn one by one: each is the ranker's order of ten items under fresh noise."""
    rng = np.random.default_rng(len(ranker[0]))
    planted = np.linspace(0.05, 0.95, ITEMS)
    sums = {name: np.zeros(ITEMS) for name in ("ctr", "weighted", "ips", "ratio")}
    for _ in range(REPETITIONS // 100):
        scores = ranker[1] * planted + rng.normal(0, SCORE_NOISE, (100, PAGES, ITEMS))
        rank = ITEMS - 1 - np.argsort(np.argsort(scores, axis=2), axis=2)
        p = TRUE_CURVE[rank]
        click = rng.random(p.shape) < p * planted
        c, n, x = click.sum(axis=1), np.full((100, ITEMS), PAGES), p.sum(axis=1)
        inverse = (click / p).sum(axis=1)
        sums["ctr"] += formulas.ctr(c, n).sum(axis=0)
        sums["weighted"] += formulas.weighted(inverse, (1 / p).sum(axis=1)).sum(axis=0)
        sums["ips"] += formulas.ips(inverse, n).sum(axis=0)
        sums["ratio"] += formulas.ratio(c, x).sum(axis=0)
    return {name: float(np.abs(total / REPETITIONS - planted).max()) for name, total in sums.items()}


_LOGS = {
    "mostly good": ((GOOD,) * 4 + (POOR,)),
    "mostly poor": ((POOR,) * 4 + (GOOD,)),
    "random": ((np.inf,) * 5),
}
_ESTIMATORS = {
    "ctr": How(min_users=1, relevance="ctr"),
    "weighted": How(min_users=1, relevance="weighted"),
    "ips": How(min_users=1, relevance="ips"),
    "ratio": How(min_users=1, relevance="ratio"),
    "ratio_eb, prior by query": How(min_users=1, relevance="ratio_eb", prior_kind="query"),
    "ratio_eb, prior by rank band": How(min_users=1, relevance="ratio_eb", prior_kind="rank_band"),
    "ratio_eb, one prior": How(min_users=1, relevance="ratio_eb", prior_kind="global"),
}


def table(pool: Executor) -> Iterable[Line]:
    """Bias, RMSE and order (mean Spearman within queries) per kind of traffic, pages a query and estimator."""
    cases = [(log, pages) for pages in (8, 60) for log in _LOGS]
    for (log, pages), found in zip(cases, pool.map(_measured, cases), strict=True):
        for name, (off, rmse, rho) in found.items():
            yield Line(f"{pages} pages, {log} traffic: {name}", f"{off:+.3f}  {rmse:.3f}  {rho:.3f}")


def _measured(case: tuple[str, int]) -> dict[str, tuple[float, float, float]]:
    log, pages = case
    rng = np.random.default_rng(7)
    planted = relevances(rng, queries=2000)
    orders = [order(rng, planted, noise=noise) for noise in _LOGS[log]]
    seen = counts(rng, planted, orders, pages=pages, curve=TRUE_CURVE)
    curve = fit(seen, options=Options(replicates=100)).lookup(max_rank=10)
    daily, users = as_tables(seen)
    truth = planted.ravel()
    return {name: _scores(sum_window(daily, users, curve=curve, how=how), truth) for name, how in _ESTIMATORS.items()}


def as_tables(seen: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Counts as one day of daily_counts, and one user for each query."""
    daily = seen.with_columns(
        pl.lit(None, pl.String).alias("segment"),
        pl.lit(0).cast(pl.Date).alias("event_day"),
        pl.lit(0).alias("interaction"),
    )
    users = seen.select(pl.col("query_key").unique()).with_columns(salt_id=pl.lit("s"), user_hash=pl.lit(1, pl.Int64))
    return daily, users


def _scores(rows: pl.DataFrame, truth: np.ndarray) -> tuple[float, float, float]:
    """Items shown at least once; item_key is query * CANDIDATES + item. Order needs three items that differ."""
    item, value = rows["item_key"].to_numpy(), rows["relevance"].to_numpy()
    error = value - truth[item]
    query = item // CANDIDATES
    edges = np.flatnonzero(np.diff(query)) + 1
    rho = [_spearman(v, t) for v, t in zip(np.split(value, edges), np.split(truth[item], edges), strict=True)]
    return float(error.mean()), float(np.sqrt((error**2).mean())), float(np.nanmean(rho))


def _spearman(one: np.ndarray, two: np.ndarray) -> float:
    a, b = rankdata(one), rankdata(two)
    if len(a) < 3 or a.std() == 0 or b.std() == 0:
        return np.nan
    return float(np.corrcoef(a, b)[0, 1])


def wrong_curve(pool: Executor) -> Iterable[Line]:
    """Bias of `ratio` for an item of relevance .4 shown equally at ranks 1 to 10 (exact expectation)."""
    for eta in (0.5, 1.0, 1.5):
        p = np.arange(1, 11) ** -eta
        yield Line(f"declared 1/rank^{eta:g}: bias", f"{0.4 * TRUE_CURVE.sum() / p.sum() - 0.4:+.3f}")
