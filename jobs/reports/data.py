"""What a report is made from, wherever it came from (a store's run, or files), and the options of the computation."""

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from schemas.cards import CARDS
from schemas.judgments import JUDGMENTS
from schemas.pages import PAGES
from schemas.skills import REWRITES, SKILLS


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to compute: resamples, seed, smallest slice shown, gates, threads (which never change a result)."""

    samples: int = 2000
    seed: int = 0
    min_slice: int = 30
    min_spearman: float | None = None
    max_unscored: float | None = None
    workers: int = 2


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """Everything that a report reads. Frames have the columns of their tables; what is not there is empty or None.

    `run` becomes the head of report.json; `outcomes` has query_key (BIGINT), system_a, system_b and, where known, n_a,
    n_b, standard_error_a, standard_error_b; `previous_labels` is {page_id: {variant: label}} of the run that `previous`
    reports; `checks` what the data-quality step found. `problems` are sentences that a reader must see.
    """

    run: dict[str, Any]
    pages: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=PAGES.polars()))
    judgments: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=JUDGMENTS.polars()))
    cards: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=CARDS.polars()))
    skills: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SKILLS.polars()))
    rewrites: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=REWRITES.polars()))
    outcomes: pl.DataFrame | None = None
    propensity: list[dict[str, Any]] = field(default_factory=list)
    evidence: dict[str, Any] | None = None
    audit: dict[str, Any] | None = None
    launch: dict[str, Any] | None = None
    steps: dict[str, Any] = field(default_factory=dict)
    previous: dict[str, Any] | None = None
    previous_labels: dict[str, dict[str, float | None]] | None = None
    checks: dict[str, Any] = field(default_factory=dict)
    skill_files: dict[str, Any] = field(default_factory=dict)
    control_labels: dict[str, Any] | None = None
    problems: tuple[str, ...] = ()


RUN_HEAD: dict[str, Any] = {
    "run": None,
    "launch_id": None,
    "source": "store",
    "as_of": None,
    "cut": None,
    "windows": None,
    "judge": None,
    "model": None,
    "models": [],
    "simulated": False,
    "config_sha256": None,
    "versions": {},
    "tables": {},
}
"""Keys that the head of every report has, whatever it was made from."""


def known(value: float | None) -> float | None:
    """A finite float, or None: JSON knows no NaN."""
    return None if value is None or value != value or value in (float("inf"), float("-inf")) else float(value)
