"""`hindcast launch`: a forecast before an A/B launch, frozen, and its sign alignment once the outcome is known."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.core import cli
from jobs.core.context import Context, run_of
from jobs.core.errors import InputError, LeakageError, NotThereError, UsageError
from jobs.core.progress import Progress
from jobs.core.publish import published
from jobs.core.settings import Settings
from jobs.core.spark import SparkProvider
from jobs.core.tables import Store
from jobs.core.windows import Window
from jobs.night import run_flow
from schemas.names import launch_id, plain_name

app = typer.Typer(help="Forecast before an A/B launch, and its outcome.", no_args_is_help=True)

PINNED = ("impressions", "rejected_impressions", "items", "item_keys", "queries", "daily_counts", "daily_users")
"""Tables of the nights that a launch reads, at the versions that the latest published night names."""

IdOption = Annotated[str, typer.Option("--id", help="Launch id: lower-case letters, digits and '-'.")]
StartOption = Annotated[str, typer.Option("--start", help="First day of the launch, YYYY-MM-DD (UTC).")]
PagesAOption = Annotated[str, typer.Option("--pages-a", help="Pages of system a (pages.jsonl).")]
PagesBOption = Annotated[str, typer.Option("--pages-b", help="Pages of system b (pages.jsonl).")]
RankerAOption = Annotated[str, typer.Option("--ranker-a", help="Take system a's pages from the log: this ranker.")]
RankerBOption = Annotated[str, typer.Option("--ranker-b", help="Take system b's pages from the log: this ranker.")]
EvidenceDaysOption = Annotated[int, typer.Option("--evidence-days", help="Evidence window of this launch; 0: setting.")]
GapDaysOption = Annotated[int, typer.Option("--gap-days", help="Gap of this launch; -1: the setting.")]
PagesWindowOption = Annotated[
    str, typer.Option("--pages-window", help="With rankers: days whose pages are sampled, FIRST:END; default: the gap.")
]
OutcomesOption = Annotated[str, typer.Option("--outcomes", help="outcomes.jsonl of the finished A/B test.")]


def register(ctx: Context) -> dict[str, Any]:
    """Pin the tables that the launch reads to those of the latest published night, in the launch's own manifest.

    A launch whose forecast is frozen keeps what it was made from.
    """
    if ctx.store.exists(f"launches/{ctx.run.launch_id}/forecast.json"):
        return ctx.manifest()["steps"]["launch"]
    body = published(ctx)
    if body["latest_night"] is None:
        raise NotThereError(f"{ctx.store.uri} has no published night: run `hindcast night` before a launch")
    tables = body["runs"][body["latest_night"]]["tables"]
    versions = {t: tables[t] for t in PINNED if tables.get(t) is not None}
    return ctx.pin("launch", {"reads_night": body["latest_night"]}, versions=versions)


TASKS = {"register": register}


def save_parameters(store: Store, settings: Settings, *, parameters: dict[str, Any]) -> None:
    """Check and keep a launch's parameters and copies of its pages under launches/ID (kept once, then only equal)."""
    folder = f"launches/{launch_id(parameters['launch_id'])}"
    kept = {k: v for k, v in parameters.items() if k not in ("pages_a", "pages_b")}
    pages = {system: _pages_of(settings, parameters, system) for system in ("a", "b")}
    if store.exists(f"{folder}/forecast.json"):
        _refuse_a_change(store, folder, kept, pages)
        return
    for system, content in pages.items():
        if content is not None:
            store.documents.write_bytes(f"{folder}/pages-{system}.jsonl", content)
    store.write_json(f"{folder}/launch.json", kept)


def _pages_of(settings: Settings, parameters: dict[str, Any], system: str) -> bytes | None:
    """Content of a system's pages file, or None where a ranker's pages come from the log."""
    source, ranker = parameters[f"pages_{system}"], parameters[f"ranker_{system}"]
    if bool(source) == bool(ranker):
        raise UsageError(f"system {system}: give either --pages-{system} or --ranker-{system}")
    if ranker:
        plain_name(ranker, kind="ranker")
        return None
    return _read(_located(settings, source))


def _located(settings: Settings, path: str) -> str:
    """A path as the command line's reader means it: from the working directory, else beside hindcast.toml."""
    return path if Path(path).is_file() else settings.path(path)


def save_outcomes(store: Store, settings: Settings, *, id_: str, outcomes: str) -> None:
    """Keep the outcome of a launch; NotThereError if there was no forecast, InputError if the file is no JSON lines."""
    folder = f"launches/{launch_id(id_)}"
    if not store.exists(f"{folder}/forecast.json"):
        raise NotThereError(f"launch {id_!r} has no frozen forecast: run `hindcast launch forecast --id {id_}` before")
    content = _read(_located(settings, outcomes))
    for number, line in enumerate(content.splitlines(), 1):
        _check_json(line, number, outcomes)
    store.documents.write_bytes(f"{folder}/outcomes.jsonl", content)


@cli.command(
    app,
    "forecast",
    example="hindcast launch forecast --config hindcast.toml --id new-ranker --start 2026-12-01 --pages-a a.jsonl"
    " --pages-b b.jsonl",
)
def forecast(
    config: cli.ConfigOption = "",
    id_: IdOption = "",
    start: StartOption = "",
    pages_a: PagesAOption = "",
    pages_b: PagesBOption = "",
    ranker_a: RankerAOption = "",
    ranker_b: RankerBOption = "",
    evidence_days: EvidenceDaysOption = 0,
    gap_days: GapDaysOption = -1,
    pages_window: PagesWindowOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Build evidence that cannot touch the launch, judge both systems' pages and freeze the forecast."""
    _keep(config, id_, start, pages_a, pages_b, ranker_a, ranker_b, evidence_days, gap_days, pages_window)
    _run(config, id_, "forecast", json_)


@cli.command(
    app, "outcome", example="hindcast launch outcome --config hindcast.toml --id new-ranker --outcomes outcomes.jsonl"
)
def outcome(
    config: cli.ConfigOption = "", id_: IdOption = "", outcomes: OutcomesOption = "", json_: cli.JsonOption = False
) -> None:
    """Join the online outcome with the frozen forecast, publish the alignment and add it to the track record."""
    settings = cli.settings_of(config)
    save_outcomes(Store(settings.store_uri), settings, id_=id_, outcomes=outcomes)
    _run(config, id_, "outcome", json_)


@cli.command(
    app,
    "register",
    example="hindcast launch register --config hindcast.toml --id new-ranker --start 2026-12-01"
    " --pages-a a.jsonl --pages-b b.jsonl",
)
def register_command(
    config: cli.ConfigOption = "",
    id_: IdOption = "",
    start: StartOption = "",
    pages_a: PagesAOption = "",
    pages_b: PagesBOption = "",
    ranker_a: RankerAOption = "",
    ranker_b: RankerBOption = "",
    evidence_days: EvidenceDaysOption = 0,
    gap_days: GapDaysOption = -1,
    pages_window: PagesWindowOption = "",
    outcomes: OutcomesOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """The first task of a launch's flow: keep its parameters (or its outcome) and pin the tables that it reads."""
    if outcomes:
        settings = cli.settings_of(config)
        save_outcomes(Store(settings.store_uri), settings, id_=id_, outcomes=outcomes)
    else:
        _keep(config, id_, start, pages_a, pages_b, ranker_a, ranker_b, evidence_days, gap_days, pages_window)
    with cli.context(config=config, launch=id_) as ctx:
        cli.finish(register(ctx), as_json=json_)


def _keep(
    config: str,
    id_: str,
    start: str,
    pages_a: str,
    pages_b: str,
    ranker_a: str,
    ranker_b: str,
    evidence_days: int,
    gap_days: int,
    pages_window: str,
) -> None:
    settings = cli.settings_of(config)
    windows: dict[str, int] = {"evidence_days": evidence_days} if evidence_days else {}
    windows |= {"gap_days": gap_days} if gap_days >= 0 else {}
    parameters = {
        "launch_id": launch_id(id_),
        "start": cli.parse_day(start, option="--start").isoformat(),
        "windows": windows,
        "pages_a": pages_a,
        "pages_b": pages_b,
        "ranker_a": ranker_a,
        "ranker_b": ranker_b,
    }
    if pages_window:
        parameters["pages_window"] = _days_of(pages_window)
    save_parameters(Store(settings.store_uri), settings, parameters=parameters)


def _days_of(text: str) -> list[str]:
    first, _, end = text.partition(":")
    window = Window(cli.parse_day(first, option="--pages-window"), cli.parse_day(end, option="--pages-window"))
    return [window.start.isoformat(), window.end.isoformat()]


def _run(config: str, id_: str, use: str, json_: bool) -> None:
    settings = cli.settings_of(config)
    store = Store(settings.store_uri)
    spark = SparkProvider(settings.spark, store_uri=settings.store_uri)
    try:
        run = run_of(settings, store, day=None, launch=launch_id(id_))
        ctx = Context(settings=settings, store=store, run=run, spark=spark, progress=Progress())
        run_flow(ctx, use)  # type: ignore[arg-type]
    finally:
        spark.stop()
    report = f"{settings.store_uri}/reports/{run.key}/index.html"
    cli.finish({"launch_id": id_, "run": run.key, "report": report}, as_json=json_)


def _refuse_a_change(store: Store, folder: str, kept: dict[str, Any], pages: dict[str, bytes | None]) -> None:
    """A frozen forecast keeps its start, windows and pages: LeakageError names what differs."""
    before = store.read_json(f"{folder}/launch.json")
    changed = sorted(k for k in before.keys() | kept.keys() if before.get(k) != kept.get(k))
    for system, content in pages.items():
        path = f"{folder}/pages-{system}.jsonl"
        if content is not None and (not store.exists(path) or store.documents.read_bytes(path) != content):
            changed.append(f"pages of system {system}")
    if changed:
        raise LeakageError(
            f"launch {kept['launch_id']} was forecast with other values of {', '.join(changed)}: a frozen forecast"
            " stays as it is; use another id"
        )


def _read(path: str) -> bytes:
    if not path or not Path(path).is_file():
        raise InputError(f"{path or 'no path'}: there is no such file; check the option that names it")
    return Path(path).read_bytes()


def _check_json(line: bytes, number: int, path: str) -> None:
    try:
        json.loads(line)
    except ValueError as error:
        raise InputError(f"{path} line {number}: is no JSON ({error}); mend the line") from None
