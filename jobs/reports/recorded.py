"""What other steps recorded in their own words, in the shape that the page shows; missing keys become null."""

from typing import Any

import polars as pl

from jobs.reports.data import ReportData

DISCOVERY = ("model", "documents", "clusters", "covered", "unchanged", "stopped", "calls", "call_bound", "seconds",
             "movement", "changes", "rounds", "usage")  # fmt: skip
MOVEMENT = ("documents_added", "documents_changed", "documents_deleted", "clusters_moved", "clustered_anew")
ROUND = ("round", "skills", "covered", "clusters", "coverage", "document_coverage", "verdicts")
COST = ("calls", "tokens_in", "tokens_out", "seconds", "other_seconds")
INGEST = (
    "rows_in",
    "accepted",
    "duplicates",
    "ignored",
    "rejected",
    "impressions",
    "clicks",
    "days",
    "excluded",
    "sources",
)
SOURCE = ("rows_in", "accepted", "duplicates", "ignored", "rejected", "impressions", "clicks", "arrival_guarded")
JUDGING = (
    "judge",
    "model",
    "rows",
    "calls",
    "cached",
    "tokens_in",
    "tokens_out",
    "cost_usd",
    "estimate",
    "budget_left_out",
)
TRUST = ("trust", "anchors", "repeats", "order", "alarms", "use_of_evidence", "ensemble")
"""Keys under which the judging step records how far its judge can be trusted."""


def picked(body: dict[str, Any] | None, keys: tuple[str, ...]) -> dict[str, Any]:
    """Exactly these keys of `body`, null where it has none."""
    return {k: (body or {}).get(k) for k in keys}


def skills_part(data: ReportData) -> dict[str, Any]:
    """Per corpus: skills, discovery, evaluation and rewrites; empty with a reason without a skills step."""
    corpora = sorted({*data.skills["corpus"].unique().to_list(), *data.skill_files})
    found = {c: _corpus_skills(data, c) for c in corpora}
    return {"corpora": found, "reason": None if found else "no corpus of this run has documents to learn skills from"}


def _corpus_skills(data: ReportData, corpus: str) -> dict[str, Any]:
    skills = data.skills.filter(pl.col("corpus") == corpus)
    rewrites = data.rewrites.filter(pl.col("corpus") == corpus)
    columns = ("skill_id", "name", "description", "instruction", "domains", "version")
    recorded = data.skill_files.get(corpus) or {}
    return {
        "skills": skills.select(columns).sort("skill_id").to_dicts(),
        "rewrites": rewrites.height,
        "fallbacks": rewrites.filter(pl.col("fallback").is_not_null()).height,
        "by_skill": dict(rewrites.group_by("skill_id").len().sort("skill_id").iter_rows()),
        "discovery": _discovery(recorded.get("discovery")),
        "evaluation": _evaluation(recorded.get("evaluation")),
    }


def _discovery(body: dict[str, Any] | None) -> dict[str, Any] | None:
    if not body:
        return None
    return {
        **picked(body, DISCOVERY),
        "seconds": (body.get("seconds") or {}).get("all"),
        "movement": picked(body.get("movement"), MOVEMENT),
        "changes": [picked(c, ("skill_id", "change", "why")) for c in body.get("changes") or []],
        "rounds": [{**picked(x, ROUND), "verdicts": x.get("verdicts") or {}} for x in body.get("rounds") or []],
    }


def _evaluation(body: dict[str, Any] | None) -> dict[str, Any] | None:
    if not body or not body.get("methods"):
        return None
    tests = {t["a"]: t for t in body.get("tests") or [] if t.get("b") == "original"}
    examples = body.get("examples") or {}
    return {
        **picked(body, ("n_queries", "retriever", "model", "sensitive", "calibration")),
        "methods": {name: _method(x, tests.get(name)) for name, x in body["methods"].items()},
        "examples": {side: examples.get(side) or [] for side in ("gained", "lost")},
    }


def _method(body: dict[str, Any], test: dict[str, Any] | None) -> dict[str, Any]:
    return {
        **picked(body, ("ndcg10", "n", "with_labels", "note", "reason", "fallbacks")),
        "per_query": picked(body.get("per_query"), COST),
        "against_original": picked(test, ("difference", "low", "high", "p", "p_holm")) if test else None,
    }


def data_part(data: ReportData) -> dict[str, Any]:
    """Rows in, accepted, duplicates, ignored, refused by reason (in all and per source), and the data-quality checks.

    `ingest` is None where the run read an earlier night's tables, or was made from files.
    """
    recorded = data.steps.get("impressions")
    expectations = data.checks.get("expectations") or {}
    checks = expectations.get("checks") or []
    return {
        "ingest": _ingest(recorded) if recorded else None,
        "checks": [picked(c, ("check", "level", "arguments", "reason")) for c in checks if not c.get("success")],
        "n_checks": len(checks) or None,
        "passed": expectations.get("success"),
        "drift": data.checks.get("figures") or [],
        "reason": None if recorded else "no ingest stands behind this report",
    }


def _ingest(body: dict[str, Any]) -> dict[str, Any]:
    sources = {
        n: {**picked(s, SOURCE), "rejected": s.get("rejected") or {}} for n, s in (body.get("sources") or {}).items()
    }
    rejected, days = body.get("rejected") or {}, body.get("days") or []
    return {**picked(body, INGEST), "rejected": rejected, "days": days, "sources": sources}


def judging_part(steps: dict[str, Any]) -> dict[str, Any]:
    """{"recorded": cost and counts of the judging step or None, "checks": what it says of the judge's own trust}."""
    body = steps.get("judging")
    trust = {k: v for k, v in (body or {}).items() if k in TRUST and v}
    return {"recorded": picked(body, JUDGING) if body else None, "checks": trust}
