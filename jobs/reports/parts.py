"""The parts of report.json that come from the pipeline's tables and manifests rather than from judgments."""

from collections import Counter
from typing import Any

import numpy as np
import polars as pl

from jobs.reports.data import ReportData

CURVE_COLUMNS = ("rank", "propensity", "raw", "isotonic", "standard_error", "pairs", "impressions", "clicks")


def propensity_part(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Curves per corpus and segment from rows of the propensities table, ranks in order."""
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
                "window": window,
                "ranks": rows.select(CURVE_COLUMNS).to_dicts(),
            }
        )
    return found


def evidence_part(counts: dict[str, Any] | None, judgments: pl.DataFrame, cards: pl.DataFrame) -> dict[str, Any]:
    """Rows, items and queries of the evidence, users threshold, and the distribution of qri_count over judged pages."""
    pages = judgments.group_by("page_id").agg(pl.col("qri_count").max()) if judgments.height else None
    found = {"rows": None, "items": None, "queries": None, "min_users": None, **(counts or {})}
    return {
        **found,
        "qri_count": _spread(pages["qri_count"].to_numpy()) if pages is not None and pages.height else None,
        "card_rows": cards.filter(pl.col("row").is_not_null()).height,
        "dropped": dict(
            cards.filter(pl.col("dropped").is_not_null()).group_by("dropped").len().sort("dropped").iter_rows()
        ),
        "reason": None if counts else "this report was made from files, without a store",
    }


def _spread(counts: np.ndarray) -> dict[str, Any]:
    low, q1, median, q3, high = (float(q) for q in np.quantile(counts, [0.05, 0.25, 0.5, 0.75, 0.95]))
    bins = Counter(min(int(c), 40) for c in counts)
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


def skills_part(data: ReportData) -> dict[str, Any]:
    """Per corpus: skills, what the step recorded, and counts of rewrites; empty with a reason without a skills step."""
    corpora = sorted({*data.skills["corpus"].unique().to_list(), *data.skill_files})
    found = {c: _corpus_skills(data, c) for c in corpora}
    return {"corpora": found, "reason": None if found else "no corpus of this run has documents to learn skills from"}


def _corpus_skills(data: ReportData, corpus: str) -> dict[str, Any]:
    skills = data.skills.filter(pl.col("corpus") == corpus)
    rewrites = data.rewrites.filter(pl.col("corpus") == corpus)
    columns = ("skill_id", "name", "description", "instruction", "domains", "version")
    return {
        "skills": skills.select(columns).sort("skill_id").to_dicts(),
        "rewrites": rewrites.height,
        "fallbacks": rewrites.filter(pl.col("fallback").is_not_null()).height,
        "by_skill": dict(rewrites.group_by("skill_id").len().sort("skill_id").iter_rows()),
        "files": data.skill_files.get(corpus, {}),
    }


def data_part(steps: dict[str, Any]) -> dict[str, Any]:
    """What the impressions and data-quality steps recorded: rows in, accepted, refused by reason, checks."""
    return {k: v for k, v in steps.items() if k.split(".")[0] == "impressions"}
