"""The estimators behind one form: raw curve, bootstrap replicates, pairs behind each rank, and how the fit went."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from jobs.core.sampling import unit_hashes
from jobs.propensity import allpairs, em
from jobs.propensity.bootstrap import weights
from jobs.propensity.summary import Summary

EM_REPLICATES = 100  # each is a whole fit; the standard error of a standard error is 7% at 100
EM_ERROR_QUERIES = 2_000  # replicates use at most so many queries; errors are scaled by the root of the share


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """`raw` (K,) relative to rank 1 (NaN: undefined, 0: no click), `replicates` (R, K), `pairs` (K,).

    `scale` multiplies the replicates' spread of log p: below 1 where they used fewer queries than the curve.
    """

    estimator: str
    raw: np.ndarray
    replicates: np.ndarray
    pairs: np.ndarray
    variation: str | None = None
    converged: bool = True
    steps: int | None = None
    scale: float = 1.0


def randomised(summary: Summary) -> Estimate:
    """Click rate by rank on traffic whose ranks were drawn at random, relative to rank 1."""
    shown, clicked = summary["random_shown"], summary["random_clicked"]
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = np.where(shown > 0, clicked / shown, np.nan)
        p = np.where(rate[:, :1] > 0, rate / rate[:, :1], np.nan)
    return Estimate(estimator="randomised", raw=p[0], replicates=p[1:], pairs=summary["random_pairs"])


def all_pairs(summary: Summary, *, variation: str, adjacent: bool = False) -> Estimate:
    """Intervention harvesting over one kind of variation; `adjacent` uses neighbouring ranks only."""
    shown, clicked = summary[f"shown_{variation}"], summary[f"clicked_{variation}"]
    if adjacent:
        ranks = np.arange(shown.shape[1])
        near = np.abs(ranks[:, None] - ranks) == 1
        shown, clicked = shown * near, clicked * near
    p, converged = allpairs.solve(shown, clicked)
    return Estimate(
        estimator="allpairs",
        raw=p[0],
        replicates=p[1:],
        pairs=summary[f"pairs_{variation}"],
        variation=variation,
        converged=bool(converged[0]),
    )


@dataclass(frozen=True, kw_only=True)
class PairCounts:
    """Counts for `pbm_em`: cells, the query key behind each pair, and how many pairs stand at two ranks, by rank."""

    cells: em.Cells
    query: np.ndarray
    moved: np.ndarray


def pair_counts(counts: pl.DataFrame, *, max_rank: int, max_queries: int) -> PairCounts:
    """Sums per (query, item, rank) of a stable sample of at most about `max_queries` queries."""
    used = sampled(counts.filter(pl.col("rank") <= max_rank), max_queries=max_queries)
    sums = used.group_by("query_key", "item_key", "rank").agg(pl.sum("impressions"), pl.sum("clicks"))
    sums = sums.filter(pl.col("impressions") > 0).sort("query_key", "item_key", "rank")
    keys = sums.select("query_key", "item_key").unique(maintain_order=True).with_row_index("pair")
    sums = sums.join(keys, on=["query_key", "item_key"], how="left", maintain_order="left")
    rank = sums["rank"].to_numpy().astype(np.int64) - 1
    pair = sums["pair"].to_numpy().astype(np.int64)
    cells = em.Cells(
        pair=pair,
        rank=rank,
        impressions=sums["impressions"].to_numpy().astype(float),
        clicks=sums["clicks"].to_numpy().astype(float),
    )
    moved = np.bincount(pair, minlength=len(keys))[pair] > 1
    return PairCounts(
        cells=cells,
        query=keys["query_key"].to_numpy(),
        moved=np.bincount(rank[moved], minlength=max_rank).astype(float),
    )


def sampled(counts: pl.DataFrame, *, max_queries: int) -> pl.DataFrame:
    """Rows of the `max_queries` queries with the smallest stable hashes: a day more of log changes few of them."""
    keys = counts["query_key"].unique().to_numpy()
    if len(keys) <= max_queries:
        return counts
    chosen = keys[np.argsort(unit_hashes(keys, salt=977), kind="stable")[:max_queries]]
    return counts.filter(pl.col("query_key").is_in(pl.Series(chosen).implode()))


def pbm_em(counts: PairCounts, *, max_rank: int, replicates: int, start: float | np.ndarray = 0.5) -> Estimate:
    """Tabular EM with bootstrap replicates over queries (over pairs where queries are fewer than 20)."""
    found = em.fit(counts.cells, start=start)
    replicates = min(replicates, EM_REPLICATES) if found.converged else 0
    curves, scale = _em_replicates(counts, found.p, replicates=replicates, max_rank=max_rank)
    return Estimate(
        estimator="pbm_em",
        raw=_wide(found.p, max_rank),
        replicates=curves,
        pairs=counts.moved,
        converged=found.converged,
        steps=found.steps,
        scale=scale,
    )


def refused_em(summary: Summary) -> Estimate:
    """What stands in for pbm_em where it is not run: nothing estimated."""
    none = np.full(summary.ranks, np.nan)
    return Estimate(estimator="pbm_em", raw=none, replicates=np.empty((0, summary.ranks)), pairs=summary["moved_pairs"])


def _em_replicates(counts: PairCounts, p: np.ndarray, *, replicates: int, max_rank: int) -> tuple[np.ndarray, float]:
    unique, place = np.unique(counts.query, return_inverse=True)
    if len(unique) < 20:
        unique, place = np.arange(counts.cells.pairs), np.arange(counts.cells.pairs)
    used = min(len(unique), EM_ERROR_QUERIES)
    copies = weights(unique, replicates=replicates)[1:]
    copies[:, np.argsort(unit_hashes(unique, salt=978), kind="stable")[used:]] = 0.0
    rows = [_wide(_weighted_fit(counts.cells, row[place], p), max_rank) for row in copies]
    return np.array(rows).reshape(replicates, max_rank), float(np.sqrt(used / len(unique)))


def _weighted_fit(cells: em.Cells, copies: np.ndarray, start: np.ndarray) -> np.ndarray:
    """EM of one replicate, on the pairs at two or more ranks: a pair at one rank has the relevance that fits it."""
    weight = copies[cells.pair]
    kept = (weight > 0) & (np.bincount(cells.pair)[cells.pair] > 1)
    if not (kept & (cells.rank == 0)).any():
        return np.full(cells.ranks, np.nan)
    pair = np.unique(cells.pair[kept], return_inverse=True)[1]
    part = em.Cells(
        pair=pair,
        rank=cells.rank[kept],
        impressions=(cells.impressions * weight)[kept],
        clicks=(cells.clicks * weight)[kept],
    )
    return em.fit(part, start=np.nan_to_num(start[: part.ranks], nan=0.5), tolerance=1e-5).p


def _wide(p: np.ndarray, max_rank: int) -> np.ndarray:
    return np.pad(p.astype(float), (0, max(0, max_rank - len(p))), constant_values=np.nan)[:max_rank]
