"""The evidence curve: which system the judge prefers, as a function of how much evidence its pages carry."""

from typing import Any

import numpy as np
import polars as pl

from jobs.reports.alignment import sign
from jobs.reports.judged import ordered_variants, with_value
from jobs.reports.resample import interval, mean_samples

MAX_POINTS = 40
"""Thresholds shown at most; beyond, every k-th one."""
MIN_QUERIES = 30
"""Queries that a threshold needs before an automation threshold may rest on it: below, an interval says little."""


def per_query(judgments: pl.DataFrame, *, evidence: str = "qri_count") -> pl.DataFrame:
    """One row per variant and query that both systems have a scored page of: difference (A - B), evidence_a, _b.

    `judgments` needs query_key, system, variant, label, expected_label and the `evidence` column (per page).
    """
    rows = with_value(judgments).filter(pl.col("system").is_in(["a", "b"]))
    sides = rows.group_by("variant", "query_key", "system").agg(
        value=pl.col("value").mean(), evidence=pl.col(evidence).mean()
    )
    a, b = (sides.filter(pl.col("system") == s).drop("system") for s in ("a", "b"))
    both = a.join(b, on=["variant", "query_key"], suffix="_b").filter(
        pl.col("value").is_not_null() & pl.col("value_b").is_not_null()
    )
    return both.select(
        "variant",
        "query_key",
        difference=pl.col("value") - pl.col("value_b"),
        evidence_a="evidence",
        evidence_b="evidence_b",
    ).sort("variant", "query_key")


def thresholds(queries: pl.DataFrame) -> list[int]:
    """Whole thresholds from 0 to the largest smaller-system evidence, thinned to MAX_POINTS."""
    top = queries.select(pl.min_horizontal("evidence_a", "evidence_b").max()).item()
    top = 0 if top is None else int(top)
    step = max(1, -(-top // MAX_POINTS))
    return list(range(0, top + 1, step))


def curve(queries: pl.DataFrame, *, at: list[int], samples: int, seed: int) -> list[dict[str, Any]]:
    """[{t, n_queries, n_queries_a, n_queries_b, preference, low, high}] of one variant's rows of `per_query`.

    A query counts at t if its smaller system has evidence >= t; the interval is a bootstrap over queries.
    """
    if not queries.height:
        return []
    a, b = queries["evidence_a"].to_numpy(), queries["evidence_b"].to_numpy()
    kept = np.minimum(a, b)[:, None] >= np.asarray(at)[None, :]
    values = np.where(kept, queries["difference"].to_numpy()[:, None], np.nan)
    drawn = mean_samples(values, queries["query_key"].to_numpy(), samples=samples, seed=seed)
    return [_point(t, values[:, i], drawn[:, i], a, b) for i, t in enumerate(at)]


def _point(t: int, values: np.ndarray, drawn: np.ndarray, a: np.ndarray, b: np.ndarray) -> dict[str, Any]:
    n = int((~np.isnan(values)).sum())
    ends = interval(drawn) if n > 1 else None
    return {
        "t": t,
        "n_queries": n,
        "n_queries_a": int((a >= t).sum()),
        "n_queries_b": int((b >= t).sum()),
        "preference": float(np.nanmean(values)) if n else None,
        "low": ends and ends[0],
        "high": ends and ends[1],
        "reason": None if ends else "too few queries reach this threshold for an interval",
    }


def curves(judgments: pl.DataFrame, *, evidence: str, samples: int, seed: int) -> dict[str, list[dict[str, Any]]]:
    """`curve` per variant, all at the same thresholds."""
    rows = per_query(judgments, evidence=evidence)
    at = thresholds(rows)
    variants = ordered_variants(rows["variant"].unique().to_list())
    return {v: curve(rows.filter(pl.col("variant") == v), at=at, samples=samples, seed=seed) for v in variants}


def found_thresholds(points: list[dict[str, Any]], online: float | None) -> dict[str, Any]:
    """Smallest t with the right sign, and smallest whose interval excludes 0 on the right side; null with a reason.

    `online` is the overall measured difference A - B; without it no sign is right or wrong yet.
    """
    if online is None or sign(online) == 0:
        why = "the outcome is not known yet" if online is None else "the outcome is a tie"
        return {"right_sign": None, "significant": None, "reason": why}
    right = [p["t"] for p in points if p["preference"] is not None and sign(p["preference"]) == sign(online)]
    sure = [p["t"] for p in points if _excludes(p, sign(online))]
    reason = None if right and sure else "no threshold gets there" if not right else "no interval excludes 0"
    return {"right_sign": min(right, default=None), "significant": min(sure, default=None), "reason": reason}


def recommendation(points: list[dict[str, Any]], online: float | None) -> dict[str, Any]:
    """The qri_count from which decisions could be left to the judge, or null and why the data support none.

    Asked: from it on, every threshold that at least MIN_QUERIES queries reach has an interval on the outcome's side.
    """
    if online is None or sign(online) == 0:
        return {"qri_count": None, "reason": "no outcome with a sign is known yet: an automation threshold needs one"}
    solid = [p for p in points if p["n_queries"] >= MIN_QUERIES]
    if len(solid) < 2:
        return {"qri_count": None, "reason": f"fewer than two thresholds are reached by {MIN_QUERIES} queries"}
    good = [_excludes(p, sign(online)) for p in solid]
    if not good[-1]:
        return {"qri_count": None, "reason": "the preference is not sure even where evidence is rich"}
    first = len(good) - (good[::-1].index(False) if False in good else len(good))
    reason = f"from here on every threshold reached by {MIN_QUERIES} queries has the outcome's sign beyond noise"
    return {"qri_count": solid[first]["t"], "n_queries": solid[first]["n_queries"], "reason": reason}


def _excludes(point: dict[str, Any], side: int) -> bool:
    if point["low"] is None:
        return False
    return point["low"] > 0 if side > 0 else point["high"] < 0
