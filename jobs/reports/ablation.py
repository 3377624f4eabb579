"""The ablation table: every variant against plain, not by averages alone."""

from typing import Any

import numpy as np
import polars as pl

from jobs.reports.effects import towards_truth
from jobs.reports.judged import JudgedSet, with_value


def ablation(*, sets: dict[str, JudgedSet], report: dict[str, Any], judgments: pl.DataFrame) -> list[dict[str, Any]]:
    """One row per variant: correlation on both sets, disagreement cases, human agreement, alignment, cost."""
    there = [v for s in sets.values() for v in s.variants] + list(report["launch"]["variants"])
    costs = cost_by_variant(judgments)
    return [
        {
            "variant": v,
            "logs": _spearman(report["logs"], v),
            "human": _spearman(report["human"], v),
            "disagreement": _disagreement(sets["logs"], v),
            "human_exact": _exact(sets["human"], v),
            "launch": launch_cell(report["launch"], v),
            "cost": costs.get(v),
        }
        for v in dict.fromkeys(there)
    ]


def _spearman(section: dict[str, Any], variant: str) -> dict[str, Any] | None:
    return section["variants"].get(variant, {}).get("all", {}).get("spearman")


def _disagreement(judged: JudgedSet, variant: str) -> dict[str, Any] | None:
    """Pages on which the variant contradicts the baseline, and on how many of them it stands nearer to the truth."""
    base = judged.baseline
    if variant == base or variant not in judged.graded:
        return None
    flipped = judged.flipped(base, variant)
    nearer, further = (towards_truth(judged, x, y) & flipped for x, y in ((base, variant), (variant, base)))
    return {"n": int(flipped.sum()), "nearer": int(nearer.sum()), "further": int(further.sum())}


def _exact(judged: JudgedSet, variant: str) -> dict[str, Any] | None:
    """Share of human-labelled pages on which the label equals the human one rounded to the offered labels."""
    if variant not in judged.graded:
        return None
    rows = judged.scored(variant)
    if not rows.any():
        return None
    human = np.round(judged.truth[rows] * 2) / 2
    return {"n": int(rows.sum()), "share": float((judged.labels[variant][rows] == human).mean())}


def launch_cell(launch: dict[str, Any], variant: str) -> dict[str, Any] | None:
    """The variant's sign alignment for the table, or None."""
    found = launch["variants"].get(variant)
    return found and {k: found.get(k) for k in ("n", "aligned", "half_credit", "half_credit_low", "half_credit_high")}


def cost_by_variant(judgments: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """Calls, tokens and seconds per variant; a call is a row that was neither cached nor taken from plain."""
    if not judgments.height:
        return {}
    sent = ~pl.col("cached") & ~pl.col("reused_from_plain") & (pl.col("variant") != "evidence_only")
    rows = judgments.group_by("variant").agg(
        rows=pl.len(),
        calls=sent.sum(),
        cached=pl.col("cached").sum(),
        reused_from_plain=pl.col("reused_from_plain").sum(),
        tokens_in=pl.col("tokens_in").sum(),
        tokens_out=pl.col("tokens_out").sum(),
        latency_ms=pl.col("latency_ms").median(),
        possibly_billed_twice=pl.col("possibly_billed_twice").sum(),
    )
    return {r.pop("variant"): r for r in rows.sort("variant").to_dicts()}


def health(judgments: pl.DataFrame) -> dict[str, Any]:
    """How the judge behaved: labels, reasons, citations and cost by variant."""
    variants = judgments["variant"].unique().to_list() if judgments.height else []
    costs = cost_by_variant(judgments)
    return {v: {**costs[v], **_behaviour(judgments.filter(pl.col("variant") == v))} for v in sorted(variants)}


def _behaviour(rows: pl.DataFrame) -> dict[str, Any]:
    first = with_value(rows)
    labels = first.group_by("label").len().drop_nulls().sort("label")
    reasons = first.filter(pl.col("reason").is_not_null()).group_by("reason").len().sort("reason")
    return {
        "pages": first.height,
        "labels": {f"{label:g}": n for label, n in labels.iter_rows()},
        "unscored": dict(reasons.iter_rows()),
        "with_value": first["value"].count(),
        "with_evidence": first.filter(pl.col("evidence_rows") > 0).height,
        "citing": first.filter(pl.col("cited").list.len() > 0).height,
        "cited_invented": int(first["cited_invented"].sum()),
        "evidence_cut": int((first["evidence_cut"] > 0).sum()),
    }
