"""How much cluster count and skill cap matter: discovery and the `skills` row again, with one change at a time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from jobs.skills.artefacts import read_index
from jobs.skills.commands import Endpoint, Plan, Say, discover_files, evaluate_files
from jobs.skills.discovery import Options
from jobs.skills.rewriting import RewriteOptions

CHANGES = {
    "clusters x0.5": ("cluster_factor", 0.5), "clusters x2": ("cluster_factor", 2.0), "ten skills": ("max_skills", 10),
}


def vary(plan: Plan, *, out: Path, endpoint: Endpoint, rewriting: RewriteOptions, say: Say) -> dict[str, Any]:
    """nDCG@10 of `skills` as discovered, and after each change, with its difference in points of 100.

    Vectors and replies are those of the skills folder: nothing is embedded or asked twice.
    """
    options = _options(plan.skills)
    found = {}
    for name, (setting, value) in {"as discovered": ("seed", options.seed), **CHANGES}.items():
        folder = out / "sensitivity" / name.replace(" ", "-")
        discover_files(
            plan.documents, corpus="sensitivity", out=folder, endpoint=endpoint, retriever=plan.retrievers[0],
            options=replace(options, **{setting: value}), say=say, keep=plan.kept,
        )
        again = replace(plan, skills=folder, keep=plan.kept, methods=("skills",), retrievers=plan.retrievers[:1])
        summary = evaluate_files(again, out=folder / "evaluation", endpoint=endpoint, rewriting=rewriting, say=say)
        found[name] = summary["methods"]["skills"]["ndcg10"]
    base = found["as discovered"]
    rows = {
        name: {"ndcg10": value, "points": None if value is None or base is None else 100 * (value - base)}
        for name, value in found.items()
    }
    file = out / "evaluation.json"
    summary = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**summary, "sensitivity": rows}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return rows


def _options(folder: Path) -> Options:
    """The options that the folder (or its first subject) was discovered with."""
    file = next(iter(sorted([*folder.glob("index.json"), *folder.glob("*/index.json")])), folder)
    return Options(**read_index(file.parent)["summary"]["options"])
