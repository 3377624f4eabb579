"""The night's Great Expectations run: the contract of its impressions and drift against the weeks before.

An ephemeral context, frames passed at run time, in the session that ingestion used. Results are kept as JSON and as
Data
Docs under runs/RUN/impressions/; `decide` reads the JSON and needs no JVM.
"""

import importlib
import json
import logging
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from jobs.core.errors import HindcastError, NotThereError
from jobs.core.spark import read_parquet
from jobs.core.tables import read_files
from jobs.impressions.drift import BOUNDS, LOOK_BACK_DAYS, night_figures
from schemas.logs import DAILY_COUNTS, IMPRESSIONS

RESULTS, DOCS = "impressions/expectations.json", "impressions/data-docs"


class ChecksFailed(HindcastError):
    """A check of level fail failed: nothing of this night is computed from such data."""


def warm() -> None:
    """Import Great Expectations in the background: 2.5 s that pass while Spark's tasks work."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    threading.Thread(target=importlib.import_module, args=("great_expectations",), daemon=True).start()


def run(ctx: Any, summary: dict[str, Any]) -> dict[str, Any]:
    """Validate the night's event day; writes results and Data Docs, returns their short form."""
    begun = time.monotonic()
    suites = _suites(ctx, summary)
    results, pages = _validate(suites)
    body = {"run": ctx.run.key, "success": not _of_level(results, "fail"), "failed": _of_level(results, "fail"),
            "warned": _of_level(results, "warn"), "checks": results}  # fmt: skip
    ctx.store.write_json(f"{ctx.folder}/{RESULTS}", body)
    for name, content in pages.items():
        ctx.store.documents.write_bytes(f"{ctx.folder}/{DOCS}/{name}", content)
    _keep_figures(ctx, summary)
    return {"checks": len(results), "failed": len(body["failed"]), "warned": len(body["warned"]),
            "seconds": round(time.monotonic() - begun, 1)}  # fmt: skip


def decide(ctx: Any) -> dict[str, Any]:
    """Short form of the run's kept results; ChecksFailed if one of level fail failed, NotThereError if there are
    none."""
    path = f"{ctx.folder}/{RESULTS}"
    if not ctx.store.exists(path):
        raise NotThereError(f"run {ctx.run.key} has no data checks: run `hindcast impressions ingest --day` first")
    body = ctx.store.read_json(path)
    for warning in body["warned"]:
        ctx.progress.say(f"  warning: {warning}")
    if body["failed"]:
        raise ChecksFailed(f"data checks of {ctx.run.key} failed: {'; '.join(body['failed'])}; see {path} and {DOCS}")
    return {"run": ctx.run.key, "checks": len(body["checks"]), "failed": 0, "warned": body["warned"]}


def contract_checks() -> list[dict[str, Any]]:
    """The impressions contract as checks of level fail: type, arguments."""
    return [{**e, "level": "fail", "reason": "contract"} for e in IMPRESSIONS.expectations()]


def drift_checks() -> list[dict[str, Any]]:
    """The bounds on the night's figures as checks."""
    return [
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": b.column, "min_value": b.low, "max_value": b.high},
            "level": b.level,
            "reason": b.reason,
        }
        for b in BOUNDS
    ]


# --- frames ---


def _suites(ctx: Any, summary: dict[str, Any]) -> dict[str, tuple[Any, list[dict]]]:
    spark = ctx.spark.session
    figures = _figures(ctx, summary)
    ctx.store.write_json(f"{ctx.folder}/impressions/figures.json", figures.to_dicts())
    suites = {"drift": (_small_frame(spark, figures), drift_checks())}
    files = ctx.store.files("impressions", where={"event_day": ctx.run.as_of})
    if files:
        frame = read_parquet(spark, ctx.store.table_uri("impressions"), IMPRESSIONS, files)
        suites["impressions"] = (frame, contract_checks())
    return suites


def _small_frame(spark: Any, figures: pl.DataFrame) -> Any:
    columns = ", ".join(f"{n} {'string' if t == pl.String else 'double'}" for n, t in figures.schema.items())
    return spark.createDataFrame(figures.rows(), schema=columns)


def _figures(ctx: Any, summary: dict[str, Any]) -> pl.DataFrame:
    day = ctx.run.as_of
    start = day - timedelta(days=LOOK_BACK_DAYS)
    days = [start + timedelta(days=i) for i in range(LOOK_BACK_DAYS + 1)]
    files = ctx.store.files("daily_counts", where={"event_day": days})
    columns = ["event_day", "corpus", "locale", "rank", "arrival_day", "impressions", "clicks"]
    key = ["event_day", "corpus", "locale", "rank"]
    parts = [
        read_files(DAILY_COUNTS, [f], columns=columns)
        .filter(pl.col("arrival_day") <= day)
        .group_by(key)
        .agg(pl.col("impressions", "clicks").sum())
        for f in files
    ]
    empty = read_files(DAILY_COUNTS, [], columns=[*key, "impressions", "clicks"])
    counts = pl.concat([empty, *parts], how="vertical_relaxed")
    ignored, excluded = _shares(ctx, summary, day)
    return night_figures(
        counts, corpora=ctx.corpora, day=day, ignored=ignored, ignored_before=_usual(ctx, day), excluded=excluded
    )


def _shares(ctx: Any, summary: dict[str, Any], day: date) -> tuple[dict[str, float], dict[str, float]]:
    """Share of documents with undeclared actions, and of excluded impressions of the day, by corpus."""
    ignored: dict[str, list[int]] = {}
    for source in ctx.settings.sources:
        figures = summary["sources"].get(source.name)
        if figures:
            held = ignored.setdefault(source.corpus, [0, 0])
            ignored[source.corpus] = [held[0] + figures["ignored"], held[1] + figures["rows_in"]]
    rows = ctx.store.read("impressions", where={"event_day": day}, columns=["corpus", "arrived_at", "excluded"])
    rows = rows.filter(pl.col("arrived_at").dt.date() <= day)
    shares = rows.group_by("corpus").agg(pl.col("excluded").is_not_null().mean())
    return {c: n / total for c, (n, total) in ignored.items() if total}, dict(shares.iter_rows())


def _keep_figures(ctx: Any, summary: dict[str, Any]) -> None:
    shares, _ = _shares(ctx, summary, ctx.run.as_of)
    if shares:
        ctx.store.write_json(f"ingested/figures/{ctx.run.as_of}.json", {"ignored": shares})


def _usual(ctx: Any, day: date) -> dict[str, float]:
    """Mean share of undeclared actions of the earlier nights in the look-back, by corpus."""
    names = [f"{day - timedelta(days=i)}.json" for i in range(1, LOOK_BACK_DAYS + 1)]
    there = set(ctx.store.documents.list("ingested/figures"))
    bodies = [ctx.store.read_json(f"ingested/figures/{n}")["ignored"] for n in names if n in there]
    corpora = {c for b in bodies for c in b}
    return {c: sum(b[c] for b in bodies if c in b) / sum(c in b for b in bodies) for c in corpora}


# --- Great Expectations ---


def _validate(suites: dict[str, tuple[Any, list[dict]]]) -> tuple[list[dict], dict[str, bytes]]:
    """Run every suite on its frame; results as plain rows and the Data Docs as files by name."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    rows: list[dict] = []
    with tempfile.TemporaryDirectory() as folder, _temporary_files_in(folder):
        site = Path(folder) / "site"
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = ProgressBarsConfig(globally=False)
        source = context.data_sources.add_spark("night", persist=False)
        context.add_data_docs_site("night", _site(str(site)))
        for name, (frame, checks) in suites.items():
            rows += _validate_one(gx, context, source, name, frame, checks)
        context.build_data_docs()
        pages = {str(p.relative_to(site)): p.read_bytes() for p in sorted(site.rglob("*")) if p.is_file()}
    return rows, pages


@contextmanager
def _temporary_files_in(folder: str) -> Iterator[None]:
    """Within it, new temporary files of this process go below `folder`: Great Expectations unpacks the assets of its
    Data Docs into a temporary folder that it never deletes."""
    before, tempfile.tempdir = tempfile.tempdir, folder
    try:
        yield
    finally:
        tempfile.tempdir = before


def _site(folder: str) -> dict:
    return {
        "class_name": "SiteBuilder",
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": folder},
    }


def _validate_one(gx: Any, context: Any, source: Any, name: str, frame: Any, checks: list[dict]) -> list[dict]:
    """Yes or no for every check in one pass over the frame; only if one fails, again with the values that broke it."""
    batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("night")
    suite = context.suites.add(gx.ExpectationSuite(name=name, expectations=[_expectation(gx, c) for c in checks]))
    definition = context.validation_definitions.add(gx.ValidationDefinition(name=name, data=batch, suite=suite))
    held = frame.cache()
    try:
        outcome = definition.run(batch_parameters={"dataframe": held}, result_format="BOOLEAN_ONLY")
        if not outcome.success:
            outcome = definition.run(batch_parameters={"dataframe": held}, result_format="BASIC")
    finally:
        held.unpersist()
    return [_row(name, r) for r in outcome.results]


def _expectation(gx: Any, check: dict) -> Any:
    name = "".join(part.capitalize() for part in check["type"].split("_"))
    severity = "critical" if check["level"] == "fail" else "warning"
    meta = {"level": check["level"], "reason": check["reason"]}
    return getattr(gx.expectations, name)(**check["kwargs"], severity=severity, meta=meta)


def _row(suite: str, result: Any) -> dict:
    plain = result.to_json_dict()
    config, seen = plain["expectation_config"], plain.get("result") or {}
    kwargs = {k: v for k, v in config["kwargs"].items() if k != "batch_id" and v is not None}
    level = (config.get("meta") or {}).get("level", "fail")
    return {
        "suite": suite,
        "check": config["type"],
        "arguments": kwargs,
        "level": level,
        "reason": (config.get("meta") or {}).get("reason", ""),
        "success": plain["success"],
        "unexpected": seen.get("unexpected_count"),
        "examples": [str(v) for v in seen.get("partial_unexpected_list", [])[:3]],
        "error": json.dumps(plain["exception_info"], default=str)[:500] if _raised(plain) else "",
    }


def _raised(plain: dict) -> bool:
    info = plain.get("exception_info") or {}
    return bool(
        info.get("raised_exception") or any(isinstance(v, dict) and v.get("raised_exception") for v in info.values())
    )


def _of_level(results: list[dict], level: str) -> list[str]:
    return [_sentence(r) for r in results if r["level"] == level and not r["success"]]


def _sentence(row: dict) -> str:
    arguments = {k: v for k, v in row["arguments"].items() if k != "column"}
    seen = f", seen {', '.join(row['examples'])}" if row["examples"] else ""
    reason = f" ({row['reason']})" if row["reason"] else ""
    what = f"{row['suite']}.{row['arguments'].get('column', '')} {row['check'].removeprefix('expect_')}"
    return f"{what} {arguments}{seen}{reason}"
