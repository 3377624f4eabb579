"""The forecast of a launch, made before it starts and frozen: which system the judges prefer, and how surely."""

import math
from typing import Any

import numpy as np
import polars as pl

from jobs.core.keys import key_hex
from jobs.reports.curve import per_query
from jobs.reports.data import Options
from jobs.reports.judged import BASELINE, MAIN, ordered_variants
from jobs.reports.resample import interval, mean_samples

POWER = 1.959964 + 0.841621
"""Standard normal quantiles of a two-sided 5% test with 80% power."""


def forecast(judgments: pl.DataFrame, options: Options) -> dict[str, Any]:
    """Per variant: preference (mean label A - B over queries) with interval, preferred system, queries needed.

    `per_query` holds the main variant's and the baseline's view of each query. All null with a reason without pages.
    """
    rows = per_query(judgments)
    variants = ordered_variants(rows["variant"].unique().to_list())
    if not variants:
        return {"main": None, "variants": {}, "per_query": [], "reason": "no query has a scored page of both systems"}
    main = MAIN if MAIN in variants else variants[-1]
    overall = {v: _overall(rows.filter(pl.col("variant") == v), options) for v in variants}
    return {"main": main, "variants": overall, "per_query": _queries(rows, main), "reason": None}


def _overall(rows: pl.DataFrame, options: Options) -> dict[str, Any]:
    d = rows["difference"].to_numpy()
    drawn = mean_samples(d[:, None], rows["query_key"].to_numpy(), samples=options.samples, seed=options.seed)[:, 0]
    ends = interval(drawn) if len(d) > 1 else None
    covered = rows.filter((pl.col("evidence_a") > 0) & (pl.col("evidence_b") > 0)).height
    return {
        "n_queries": len(d),
        "preference": float(d.mean()),
        "low": ends and ends[0],
        "high": ends and ends[1],
        "preferred": _preferred(ends),
        "chance_a_better": float((drawn > 0).mean() + (drawn == 0).mean() / 2),
        "queries_for_a": int((d > 0).sum()),
        "queries_for_b": int((d < 0).sum()),
        "queries_tied": int((d == 0).sum()),
        "evidence_coverage": covered / len(d),
        "mean_qri_count_a": float(rows["evidence_a"].mean()),
        "mean_qri_count_b": float(rows["evidence_b"].mean()),
        "queries_needed": queries_needed(d),
    }


def _preferred(ends: tuple[float, float] | None) -> str:
    if ends is None or ends[0] <= 0 <= ends[1]:
        return "undecided"
    return "a" if ends[0] > 0 else "b"


def queries_needed(differences: np.ndarray) -> int | None:
    """Queries that would decide a preference of this size (two-sided 5%, power 80%); None if it is exactly 0."""
    mean = float(differences.mean())
    if mean == 0 or len(differences) < 2:
        return None
    return max(2, math.ceil((POWER * float(differences.std(ddof=1)) / mean) ** 2))


def _queries(rows: pl.DataFrame, main: str) -> list[dict[str, Any]]:
    own = rows.filter(pl.col("variant") == main)
    plain = rows.filter(pl.col("variant") == BASELINE).select("query_key", plain="difference")
    joined = own.join(plain, on="query_key", how="left").sort("query_key")
    return [
        {
            "query_key": key_hex(r["query_key"]),
            "difference": r["difference"],
            "difference_plain": r["plain"],
            "qri_count_a": r["evidence_a"],
            "qri_count_b": r["evidence_b"],
        }
        for r in joined.iter_rows(named=True)
    ]
