"""The rewrites that changed their query's result most, side by side: what a reviewer of skills looks at first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobs.skills.bench import Bench
from jobs.skills.evaluation import Evaluation

SHOWN = 5
"""Queries shown at each end."""
METHOD = "skills"


def changed_most(evaluation: Evaluation, benches: Sequence[Bench]) -> dict[str, list[dict[str, Any]]]:
    """{"gained": [...], "lost": [...]}: nDCG@10 of the skills' rewrite against the original query, largest first.

    Each entry has the query, its rewrites by the generic instruction and by skill, the skill, and nDCG@10 of all three.
    Empty where the methods original and skills were not both measured.
    """
    rows = [r for bench in benches for r in _rows(evaluation, bench)]
    ordered = sorted(rows, key=lambda r: (-r["gain"], r["query"]))
    gained = [r for r in ordered[:SHOWN] if r["gain"] > 0]
    return {"gained": gained, "lost": [r for r in ordered[::-1][:SHOWN] if r["gain"] < 0]}


def _rows(evaluation: Evaluation, bench: Bench) -> list[dict[str, Any]]:
    found = []
    outcome = evaluation.rows[METHOD].outcomes.get(bench.subject.name) if METHOD in evaluation.rows else None
    for query in bench.subject.queries if outcome else ():
        key = f"{bench.subject.name}/{query.id}"
        values = {m: r.values.get(key) for m, r in evaluation.rows.items() if m in ("original", "generic", METHOD)}
        if values.get("original") is None or values.get(METHOD) is None:
            continue
        generic = evaluation.rows["generic"].outcomes.get(bench.subject.name) if "generic" in evaluation.rows else None
        found.append(
            {
                "query": query.text,
                "generic": generic.rewrites[query.id].text if generic else None,
                "skills": outcome.rewrites[query.id].text,
                "skill_id": outcome.choices.get(query.id),
                "ndcg10": values,
                "gain": values[METHOD] - values["original"],
            }
        )
    return found
