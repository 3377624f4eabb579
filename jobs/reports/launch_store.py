"""What a launch keeps in the store: its frozen forecast, its row in the launches table, its track record."""

import json
from dataclasses import replace
from datetime import date
from typing import Any

import polars as pl

from jobs.core.context import Context
from jobs.core.errors import InputError, NotThereError
from jobs.pages.exclusions import cautions
from jobs.reports.cautions import short_evidence
from jobs.reports.data import Options, ReportData
from jobs.reports.forecast import forecast
from jobs.reports.launches import launch_section
from jobs.reports.track import track_record
from schemas.metrics import LAUNCHES

ALIGNMENT = (
    "variants",
    "mcnemar",
    "online_difference",
    "online",
    "outcomes",
    "calibration",
    "thresholds",
    "automation",
)


def with_frozen_forecast(ctx: Context, data: ReportData, options: Options) -> ReportData:
    """`data` with the launch's forecast: the frozen one, or one made and frozen now (before any outcome is known)."""
    parameters = data.launch or {}
    if parameters.get("forecast"):
        return data
    if data.outcomes is not None:
        raise NotThereError(
            f"launch {ctx.run.launch_id} has an outcome but no frozen forecast: it cannot be made afterwards"
        )
    launch = data.judgments.filter(pl.col("set") == "launch")
    manifest = ctx.manifest()
    frozen = {
        "launch_id": ctx.run.launch_id,
        "frozen_at": ctx.now().isoformat(timespec="seconds"),
        **forecast(launch, options),
        "cautions": [*short_evidence(data.steps), *cautions(data.steps.get("pages"))],
        "manifest": {
            k: manifest.get(k) for k in ("tables", "config_sha256", "versions", "windows", "cut", "simulated")
        },
    }
    ctx.store.write_json(f"launches/{ctx.run.launch_id}/forecast.json", frozen)
    found = replace(data, launch={**parameters, "forecast": frozen})
    _write_row(ctx, found, outcome=None, alignment=None)
    return found


def join_outcome(ctx: Context, data: ReportData, options: Options) -> dict[str, Any]:
    """Align the frozen forecast's judges with the outcome; InputError if no query of the outcome was judged."""
    if data.outcomes is None or not (data.launch or {}).get("forecast"):
        raise NotThereError(
            f"launch {ctx.run.launch_id} lacks its outcome or its frozen forecast: run `hindcast launch`"
        )
    section = launch_section(data, options)
    matched = section["outcomes"]
    if not matched["both"]:
        raise InputError(
            f"none of the {matched['n']} queries of the outcome was judged for launch {ctx.run.launch_id}:"
            " check query_key, or corpus, locale and query"
        )
    alignment = {k: section[k] for k in ALIGNMENT}
    _write_row(
        ctx, data, outcome={k: section[k] for k in ("online_difference", "online", "outcomes")}, alignment=alignment
    )
    return ctx.record("reports.outcome", {"outcomes": matched, "aligned": _aligned(section)}, tables=("launches",))


def _aligned(section: dict[str, Any]) -> dict[str, Any]:
    return {v: {k: x[k] for k in ("aligned", "half_credit", "n")} for v, x in section["variants"].items()}


def _write_row(ctx: Context, data: ReportData, *, outcome: Any, alignment: Any) -> None:
    parameters = data.launch or {}
    row = {
        "launch_id": ctx.run.launch_id,
        "start": date.fromisoformat(parameters["start"]),
        "forecast": json.dumps(parameters["forecast"]),
        "manifest": json.dumps(ctx.manifest(), default=str),
        "outcome": None if outcome is None else json.dumps(outcome),
        "alignment": None if alignment is None else json.dumps(alignment),
    }
    frame = pl.DataFrame([row], schema=LAUNCHES.polars())
    ctx.store.replace("launches", frame, where={"launch_id": ctx.run.launch_id})


def with_track_record(ctx: Context, report: dict[str, Any]) -> dict[str, Any]:
    """The report with the record over all launches of the store in its launch part."""
    rows = ctx.store.read("launches")
    launches = [
        {
            "launch_id": r["launch_id"],
            "start": r["start"].isoformat(),
            "forecast": json.loads(r["forecast"]),
            "alignment": json.loads(r["alignment"]) if r["alignment"] else None,
        }
        for r in rows.iter_rows(named=True)
    ]
    return {**report, "launch": {**report["launch"], "track": track_record(launches)}}
