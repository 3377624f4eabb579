"""Graded outcomes of rewrites, kept beside the skills for a calibrated router: off by default, unseen by discovery.

FOLDER/feedback.jsonl, one line an outcome: {"query", "skill_id", "outcome" in [0, 1], "source": "clicks" or "labels"}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from jobs.core.errors import InputError
from jobs.skills.rows import rows

FILE = "feedback.jsonl"
SOURCES = ("clicks", "labels")
PRIOR = 10.0  # outcomes at the mean of all that every skill starts with: three lucky clicks must not rule


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How well one rewrite served: 0 to 1, from clicks or labels."""

    query: str
    skill_id: str
    outcome: float
    source: str

    def __post_init__(self) -> None:
        if not 0 <= self.outcome <= 1:
            raise InputError(f"outcome {self.outcome!r} of {self.query!r:.60} is outside of 0 to 1: rescale it")
        if self.source not in SOURCES:
            raise InputError(f"source {self.source!r} of {self.query!r:.60} is unknown: use {' or '.join(SOURCES)}")


def read_outcomes(path: Path) -> list[Outcome]:
    """Outcomes of a file; InputError names the line that lacks something."""
    found = []
    for where, row in rows(path):
        try:
            value = float(row["outcome"])
            found.append(Outcome(query=str(row["query"]), skill_id=str(row["skill_id"]), outcome=value,
                                 source=str(row.get("source") or "labels")))
        except (KeyError, TypeError, ValueError) as problem:
            raise InputError(f"{where}: {problem!r}, each line needs query, skill_id and a number outcome") from problem
    return found


def store_outcomes(folder: Path, outcomes: Sequence[Outcome]) -> int:
    """Add outcomes to the folder's file; a later one for the same query, skill and source replaces the earlier."""
    file = folder / FILE
    known = {_key(one): one for one in (read_outcomes(file) if file.exists() else [])}
    known |= {_key(one): one for one in outcomes}
    part = file.with_name(f".{FILE}.part")
    lines = (json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in known.values())
    part.write_text("".join(lines), encoding="utf-8")
    part.replace(file)
    return len(known)


def gains_of(folder: Path) -> Mapping[str, float]:
    """Each skill's mean outcome, drawn towards the mean of all; empty where nothing is stored."""
    file = folder / FILE
    outcomes = read_outcomes(file) if file.exists() else []
    mean = float(np.mean([one.outcome for one in outcomes])) if outcomes else 0.0
    by_skill: dict[str, list[float]] = {}
    for one in outcomes:
        by_skill.setdefault(one.skill_id, []).append(one.outcome)
    return {name: (sum(values) + PRIOR * mean) / (len(values) + PRIOR) for name, values in by_skill.items()}


def _key(one: Outcome) -> tuple[str, str, str]:
    return one.query, one.skill_id, one.source
