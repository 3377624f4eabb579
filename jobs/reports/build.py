"""From data to report.json: every section computed once, each figure with its n, interval and reason."""

from typing import Any

import polars as pl

from jobs.pages.exclusions import cautions, excluded
from jobs.reports.ablation import ablation, health
from jobs.reports.cautions import short_evidence
from jobs.reports.compare import compare
from jobs.reports.controls import control
from jobs.reports.data import Options, ReportData
from jobs.reports.distributions import distributions
from jobs.reports.effects import flips_by_effect, label_drops
from jobs.reports.judged import JudgedSet, judged_set, with_value
from jobs.reports.launches import launch_section
from jobs.reports.paper import PAPER
from jobs.reports.parts import evidence_part, leakage_part
from jobs.reports.recorded import data_part, judging_part, skills_part
from jobs.reports.scores import set_section
from jobs.reports.slices import dimensions, fairness, slices
from jobs.reports.verdict import gates, verdict

FORMAT = 1
NO_CONTROL = "the control needs the offline baseline: shuffled cards were not judged in this run"


def build(data: ReportData, options: Options) -> dict[str, Any]:
    """The content of report.json (formats.md; schemas/report_schema.json). JSON-able, no NaN."""
    sets = judged_sets(data)
    sections = {
        name: {**set_section(s, options), "configurations": label_drops(s, options)} for name, s in sets.items()
    }
    tables = {name: dimensions(s.pages, data.cards) for name, s in sets.items()}
    report = {
        "format": FORMAT,
        "run": {**data.run, "samples": options.samples, "seed": options.seed, "problems": problems(data)},
        **sections,
        "launch": launch_section(data, options),
        "propensity": data.propensity,
        "evidence": evidence_part(data),
        "leakage": leakage_part(data),
        "effects": {name: flips_by_effect(s) for name, s in sets.items()},
        "distributions": {name: distributions(s) for name, s in sets.items()},
        "slices": {name: slices(s, tables[name], options) for name, s in sets.items()},
        "fairness": {name: fairness(s, tables[name], options) for name, s in sets.items()},
        "controls": controls(data, sets, options),
        "skills": skills_part(data),
        "health": {"variants": health(data.judgments), "judging": judging_part(data.steps)},
        "data": data_part(data),
        "excluded": {**{name: s.excluded for name, s in sets.items()}, "pages": excluded(data.steps.get("pages"))},
        "paper": PAPER,
    }
    report["ablation"] = ablation(sets=sets, report=report, judgments=data.judgments)
    body = {**report, "gates": gates(report, options), "verdict": verdict(report)}
    return {**body, "changes": changes(data, body)}


def problems(data: ReportData) -> list[str]:
    """Sentences that a reader must see before believing a figure."""
    return [*data.problems, *short_evidence(data.steps), *cautions(data.steps.get("pages"))]


def changes(data: ReportData, report: dict[str, Any]) -> dict[str, Any] | None:
    """What changed since the previous report, pages that flipped included; None without one."""
    if not data.previous:
        return None
    values = with_value(data.judgments.filter(pl.col("set") != "launch"))
    now: dict[str, dict[str, float | None]] = {}
    for page, variant, label in values.select("page_id", "variant", "label").iter_rows():
        now.setdefault(page, {})[variant] = label
    return compare(data.previous, report, pages=(data.previous_labels, now) if data.previous_labels else None)


def judged_sets(data: ReportData) -> dict[str, JudgedSet]:
    """The Logs set (and foreign pages with a truth) and the human set, each with its own truth.

    Of files also the pages of systems a and b that a truth is given for; they count in the launch part all the same.
    """
    measured = pl.col("truth").is_not_null() | pl.col("human_label").is_not_null()
    launch = (pl.col("set") == "launch") & (~measured if data.run.get("source") == "files" else True)
    pages = data.pages.filter(~launch)
    judged = data.judgments.filter(pl.col("page_id").is_in(pages["page_id"].implode()))
    human = pages.filter(pl.col("human_label").is_not_null())
    logs = pages.filter(pl.col("set") != "human")
    return {
        "logs": judged_set("logs", pages=logs, judgments=_of(judged, logs)),
        "human": judged_set("human", pages=human, judgments=_of(judged, human), truth="human_label"),
    }


def _of(judged: pl.DataFrame, pages: pl.DataFrame) -> pl.DataFrame:
    return judged.join(pages.select("page_id"), on="page_id", how="semi")


def controls(data: ReportData, sets: dict[str, JudgedSet], options: Options) -> dict[str, Any]:
    """Shuffled cards per set, where they were judged; evidence_only stands beside them."""
    found: dict[str, Any] = {"reason": None if data.control_labels else NO_CONTROL}
    for name, judged in sets.items():
        shuffled = control(judged, data.control_labels, options) if data.control_labels and judged.main else None
        found[name] = {"shuffled_cards": shuffled or {"reason": NO_CONTROL}}
    return found
