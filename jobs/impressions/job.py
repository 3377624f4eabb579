"""`hindcast impressions`: raw logs to canonical impressions, quarantine, daily counts and users."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

import typer

from jobs.core.cli import (
    ConfigOption,
    CorpusOption,
    DayOption,
    JsonOption,
    RunOption,
    command,
    context,
    finish,
    parse_day,
    settings_of,
)
from jobs.core.errors import UsageError
from jobs.core.settings import Settings, Source, load_settings
from jobs.core.spark import SparkProvider
from jobs.core.tables import Store
from jobs.impressions import items, quality, quarantine
from jobs.impressions.by_hand import check_format, dated, pairs_of, source_by_hand
from jobs.impressions.ingest import ingest, run_id_of, together
from jobs.impressions.inputs import InputFile, Ledger, list_files, list_table
from jobs.impressions.salts import salt_of
from jobs.impressions.stored import with_stored
from jobs.impressions.work import Ingestion, Request
from schemas.names import plain_name

app = typer.Typer(help="Raw logs to canonical impressions and daily counts.", no_args_is_help=True)

TABLES = ("impressions", "rejected_impressions", "items", "queries", "item_keys", "daily_counts", "daily_users")

_CATALOG_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}")
"""A table of Spark's catalog, such as logs.searches: its parts are words, so that they can be quoted into a
statement."""


@command(app, "ingest", example="hindcast impressions ingest --config hindcast.toml --day 2026-11-20")
def ingest_command(
    config: ConfigOption = "",
    day: DayOption = "",
    run_key: RunOption = "",
    corpus: CorpusOption = "",
    source: Annotated[
        str, typer.Option("--source", help="File, folder or glob to ingest now, instead of a night.")
    ] = "",
    form: Annotated[str, typer.Option("--format", help="ubi, csv, jsonl, parquet or delta.")] = "",
    name: Annotated[
        str, typer.Option("--name", help="Name of the source; default: the declared one of the corpus.")
    ] = "",
    columns: Annotated[str, typer.Option("--columns", help="FIELD=COLUMN,… as query=query_id,item=doc_id.")] = "",
    time_zone: Annotated[str, typer.Option("--time-zone", help="IANA zone of times without offset.")] = "",
    rank_base: Annotated[int, typer.Option("--rank-base", help="Rank of the first place, 0 or 1.")] = -1,
    store: Annotated[
        str, typer.Option("--store", help="Folder or URI of the store, instead of the declared one.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Read new files of a night, or one file by hand, into the tables. Counts every row."""
    if not source:
        with context(config=config, day=day, run=run_key) as ctx:
            summary = run(ctx)
        finish(summary, as_json=as_json)
        return
    if not config and not store:
        raise UsageError("no configuration: pass --config hindcast.toml, or --store with --corpus and --format")
    settings = load_settings(config or None, **({"store": store} if store else {}))
    if store:
        settings = settings.model_copy(update={"store": _absolute(store)})
    wanted = source_by_hand(
        settings, corpus=corpus, form=form, name=name, columns=pairs_of(columns), zone=time_zone, base=rank_base
    )
    finish(ingest_files(settings, wanted, path=source, day=day), as_json=as_json)


@command(app, "inspect", example="hindcast impressions inspect logs/searches.csv.gz --corpus tracks")
def inspect_command(
    path: Annotated[str, typer.Argument(help="File, folder or glob of a log.")],
    form: Annotated[
        str, typer.Option("--format", help="ubi, csv, jsonl or parquet; default: what it looks like.")
    ] = "",
    corpus: Annotated[str, typer.Option("--corpus", help="Corpus to propose.")] = "my-corpus",
    name: Annotated[str, typer.Option("--name", help="Source name to propose.")] = "my-log",
    columns: Annotated[str, typer.Option("--columns", help="FIELD=COLUMN,… where the guess is wrong.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Look at a sample of a log and propose the block of hindcast.toml that reads it. Writes nothing."""
    from dataclasses import asdict

    from jobs.impressions.inspection import inspect
    from jobs.impressions.proposal import block

    plain_name(corpus, kind="corpus")
    plain_name(name, kind="source name")
    check_format(form)
    seen = inspect(_absolute(path), form=form, columns=pairs_of(columns))
    finish(asdict(seen), as_json=as_json, text=block(seen, corpus=corpus, name=name))


@command(app, "check", example="hindcast impressions check --config hindcast.toml --day 2026-11-20")
def check_command(
    config: ConfigOption = "", day: DayOption = "", run_key: RunOption = "", as_json: JsonOption = False
) -> None:
    """Decide on the night's data checks: exit code 1 if one of level fail failed. Needs no JVM."""
    with context(config=config, day=day, run=run_key) as ctx:
        finish(quality.decide(ctx), as_json=as_json)


@command(app, "replay", example="hindcast impressions replay --config hindcast.toml --reason no_time_zone")
def replay_command(
    config: ConfigOption = "",
    source: Annotated[str, typer.Option("--source", help="Only rows of this source.")] = "",
    reason: Annotated[str, typer.Option("--reason", help="Only rows refused for this reason code.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Read refused rows again after a mend of the settings. What is accepted leaves quarantine."""
    from jobs.impressions.replay import replay

    with _by_hand_work(settings_of(config), run_id="replay", run_day=None) as work:
        summary = replay(work, source=source, reason=reason)
    finish(summary, as_json=as_json)


@command(app, "forget", example="hindcast impressions forget --config hindcast.toml --user u-4711")
def forget_command(
    config: ConfigOption = "",
    user: Annotated[list[str], typer.Option("--user", help="User id as the log has it; may be repeated.")] = [],  # noqa: B006
    before: Annotated[str, typer.Option("--before", help="Forget every event day before this one.")] = "",
    corpus: CorpusOption = "",
    as_json: JsonOption = False,
) -> None:
    """Remove a user, or everything before a day, from tables, evidence, quarantine and old versions. Logged."""
    from jobs.impressions.forget import Wish, forget

    wish = Wish(users=tuple(user), before=parse_day(before, option="--before") if before else None, corpus=corpus)
    run_id = f"forget-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    with _by_hand_work(settings_of(config), run_id=run_id, run_day=None) as work:
        summary = forget(wish, work=work)
    finish(summary, as_json=as_json)


def run(ctx: Any) -> dict[str, Any]:
    """Ingest every arrival day that the run may see and that is not in the store yet; then check the night's data.

    Returns the ingest result (formats.md) with `expectations`; records it in the run's manifest.
    """
    quality.warm()
    work = Ingestion(
        settings=ctx.settings,
        store=ctx.store,
        spark=ctx.spark,
        salt=salt_of(ctx.store, simulated=ctx.settings.report.simulated),
        run_id=ctx.run.key,
        run_day=ctx.run.as_of,
        latest=max(_end_of(ctx.run.as_of), ctx.now() + timedelta(days=1)),
        say=ctx.progress.say,
    )
    summary = ingest(lambda: _night_requests(ctx), work=work)
    kept = f"{ctx.folder}/impressions/ingest.json"
    if ctx.store.exists(kept):
        summary = together(ctx.store.read_json(kept), summary)
    summary = with_stored(ctx, summary)
    ctx.store.write_json(kept, summary)
    expired = quarantine.expiry(ctx.run.as_of, rejected_days=ctx.settings.privacy.rejected_days)
    summary["expired"] = quarantine.expire(ctx.store, before=expired)
    summary["items"] = items.run(ctx)
    summary["expectations"] = quality.run(ctx, summary)
    return ctx.record("impressions", summary, tables=TABLES)


def ingest_files(settings: Settings, source: Source, *, path: str, day: str = "") -> dict[str, Any]:
    """Read files named by hand into the store of the settings, whether or not they were read before."""
    found = list_table(_absolute(path)) if source.format == "delta" else list_files(_absolute(path))
    files = tuple(dated(found, path=settings.path(source.path)))
    run_day = parse_day(day) if day else None
    with _by_hand_work(settings, run_id=run_id_of(list(files)), run_day=run_day) as work:
        return ingest([Request(source=source, files=files, day=day)], work=work)


@contextmanager
def _by_hand_work(settings: Settings, *, run_id: str, run_day: date | None) -> Iterator[Ingestion]:
    """Work outside of a night, with a Spark session of its own."""
    store = Store(settings.store_uri)
    spark = SparkProvider(settings.spark, store_uri=settings.store_uri)
    try:
        yield Ingestion(
            settings=settings,
            store=store,
            spark=spark,
            salt=salt_of(store, simulated=settings.report.simulated),
            run_id=run_id,
            run_day=run_day,
            latest=utc_now(),
            say=lambda text: typer.echo(text, err=True),
        )
    finally:
        spark.stop()


def _night_requests(ctx: Any) -> list[Request]:
    requests = [_night_request(ctx, s) for s in ctx.settings.sources]
    _mark_empty(ctx, requests)
    return requests


def _night_request(ctx: Any, source: Source) -> Request:
    """New files of the source that the night may read: with `{day}` those of its windows, up to its own arrival day.

    A cold start reads every earlier day too, so that the store begins where the log does.
    """
    files, ledger = _files_of(source, ctx.settings.path(source.path), ctx.spark), Ledger(ctx.store, source.name)
    first, last = ctx.run.evidence.start.isoformat() if ledger.entries else "", ctx.run.as_of.isoformat()
    seen = [f for f in files if f.arrival_day is None or first <= f.arrival_day <= last]
    return Request(source=source, files=tuple(ledger.unread(seen)))


def _files_of(source: Source, path: str, spark: SparkProvider) -> list[InputFile]:
    """Files behind a source's path; of a Delta table (a path, or a name of Spark's catalog) its live files."""
    if source.format != "delta":
        return list_files(path)
    if _CATALOG_NAME.fullmatch(source.path):
        name = ".".join(f"`{part}`" for part in source.path.split("."))
        path = spark.session.sql(f"DESCRIBE DETAIL {name}").first()["location"].removeprefix("file:")
    return list_table(path)


def _mark_empty(ctx: Any, requests: list[Request]) -> None:
    """Remember that the night's arrival day held no files: nothing is deleted, and the report can say so."""
    for request in requests:
        day = ctx.run.as_of.isoformat()
        ledger = Ledger(ctx.store, request.source.name)
        unseen = "{day}" in request.source.path and f"{day}.json" not in ledger.entries
        if unseen and not any(f.arrival_day == day for f in request.files):
            ledger.mark_empty(day, run_id=ctx.run.key)
            ctx.progress.say(f"  source {request.source.name}: no files for arrival day {day}, marked empty")


def utc_now() -> datetime:
    """The latest time that is not yet the future: clocks and zones may be a day ahead."""
    return datetime.now(UTC) + timedelta(days=1)


def _absolute(path: str) -> str:
    return path if "://" in path else os.path.abspath(path)


def _end_of(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1, microseconds=-1)


TASKS = {"ingest": run, "check": quality.decide}
"""Tasks of the flow (schemas.flow) that this step answers."""
