"""The parts of report.json that come from the pipeline's tables and manifests rather than from judgments."""

from collections import Counter
from typing import Any

import numpy as np
import polars as pl

from jobs.reports.cautions import short_evidence
from jobs.reports.data import ReportData

NO_EVIDENCE = {
    True: "this report was made from files, without a store",
    False: "the evidence step of this run has not been run",
}
MAX_COUNT = 100
"""qri_counts of this and more stand in one bar."""
CURVE_COLUMNS = ("rank", "propensity", "raw", "isotonic", "standard_error", "pairs", "impressions", "clicks")


def propensity_part(table: pl.DataFrame, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Curves per corpus and segment from rows of the propensities table, ranks in order.

    `documents` are the curve files of the run, which also say what the estimator warned of.
    """
    warned = {(d.get("curve_id"), d.get("segment")): d.get("warnings", []) for d in documents}
    found = []
    for (corpus, segment), rows in table.sort("corpus", "segment", "rank").group_by(
        "corpus", "segment", maintain_order=True
    ):
        head = rows.row(0, named=True)
        window = [head["window_start"].isoformat(), head["window_end"].isoformat()]
        keep = {k: head[k] for k in ("curve_id", "estimator", "identified", "reason")}
        found.append(
            {
                "corpus": corpus,
                "segment": segment,
                **keep,
                "warnings": warned.get((keep["curve_id"], segment), []),
                "window": window,
                "ranks": rows.select(CURVE_COLUMNS).to_dicts(),
            }
        )
    return found


def evidence_part(data: ReportData) -> dict[str, Any]:
    """Rows, items and queries of the evidence, users threshold, and the distribution of qri_count over judged pages.

    `short` holds a sentence per corpus whose evidence window was not full (cold start); `reason` says why figures on
    evidence are missing or rest on little, and is null where neither is so.
    """
    counts, judgments, cards, short = data.evidence, data.judgments, data.cards, short_evidence(data.steps)
    pages = judgments.group_by("page_id").agg(pl.col("qri_count").max()) if judgments.height else None
    found = {"rows": None, "items": None, "queries": None, "min_users": None, **(counts or {})}
    return {
        **found,
        "qri_count": _spread(pages["qri_count"].to_numpy()) if pages is not None and pages.height else None,
        "card_rows": cards.filter(pl.col("row").is_not_null()).height,
        "dropped": dict(
            cards.filter(pl.col("dropped").is_not_null()).group_by("dropped").len().sort("dropped").iter_rows()
        ),
        "short": short,
        "reason": "; ".join(short) or (None if counts else NO_EVIDENCE[data.run.get("source") == "files"]),
    }


def _spread(counts: np.ndarray) -> dict[str, Any]:
    low, q1, median, q3, high = (float(q) for q in np.quantile(counts, [0.05, 0.25, 0.5, 0.75, 0.95]))
    bins = Counter(min(int(c), MAX_COUNT) for c in counts)
    return {
        "n_pages": len(counts),
        "mean": float(counts.mean()),
        "without": int((counts == 0).sum()),
        "p05": low,
        "q1": q1,
        "median": median,
        "q3": q3,
        "p95": high,
        "histogram": [[k, bins[k]] for k in sorted(bins)],
    }


def leakage_part(data: ReportData) -> dict[str, Any]:
    """What the independent audit found; nulls with a reason where there was none."""
    audit = data.audit
    if audit is None:
        return {
            "checked": None,
            "violations": None,
            "dropped_near_duplicates": None,
            "dropped_rare": None,
            "arrival_guarded": None,
            "reason": "no audit in this report: it was made from files",
        }
    keys = ("checked", "violations", "dropped_near_duplicates", "dropped_rare", "arrival_guarded")
    return {
        **{k: audit.get(k) for k in keys},
        "detail": {k: v for k, v in audit.items() if k not in keys},
        "reason": None,
    }
