"""`hindcast launch`: a forecast before an A/B launch, frozen, and its sign alignment once the outcome is known."""

from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.core import cli
from jobs.core.context import Context
from jobs.core.errors import GateFailed, InputError, LeakageError, NotThereError, UsageError
from jobs.core.launch_settings import replaced
from jobs.core.publish import published
from jobs.core.settings import Settings
from jobs.core.storage import filesystem
from jobs.core.tables import Store
from jobs.core.windows import Window
from jobs.headline import headline, headline_text
from jobs.night import run_flow
from schemas.flow import Use
from schemas.names import launch_id, plain_name

app = typer.Typer(help="Forecast before an A/B launch, and its outcome.", no_args_is_help=True)

PINNED = ("impressions", "rejected_impressions", "items", "item_keys", "queries", "daily_counts", "daily_users")
"""Tables of the nights that a launch reads, at the versions that the latest published night names."""

IdOption = Annotated[str, typer.Option("--id", help="Launch id: lower-case letters, digits and '-'.")]
StartOption = Annotated[str, typer.Option("--start", help="First day of the launch, YYYY-MM-DD (UTC).")]
PagesAOption = Annotated[str, typer.Option("--pages-a", help="Pages of system a: pages.jsonl, Parquet, a Delta table.")]
PagesBOption = Annotated[str, typer.Option("--pages-b", help="Pages of system b: pages.jsonl, Parquet, a Delta table.")]
RankerAOption = Annotated[str, typer.Option("--ranker-a", help="Take system a's pages from the log: this ranker.")]
RankerBOption = Annotated[str, typer.Option("--ranker-b", help="Take system b's pages from the log: this ranker.")]
EvidenceDaysOption = Annotated[int, typer.Option("--evidence-days", help="Evidence window of this launch; 0: setting.")]
GapDaysOption = Annotated[int, typer.Option("--gap-days", help="Gap of this launch; -1: the setting.")]
PagesWindowOption = Annotated[
    str, typer.Option("--pages-window", help="With rankers: days whose pages are sampled, FIRST:END; default: the gap.")
]
CorporaOption = Annotated[str, typer.Option("--corpora", help="Only these corpora, with commas; empty: all.")]
VariantsOption = Annotated[str, typer.Option("--variants", help="Variants, with commas; empty: the setting.")]
JudgeOption = Annotated[str, typer.Option("--judge", help="offline-baseline, openai or local; empty: the setting.")]
ModelOption = Annotated[str, typer.Option("--model", help="Model, or several with commas; implies --judge openai.")]
BudgetOption = Annotated[str, typer.Option("--budget-usd", help="Stop before this is spent; off: no limit.")]
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
    from jobs.pages.files import is_table, table_content

    path = _located(settings, source)
    return table_content(path) if is_table(path) else _read(path)


def _located(settings: Settings, path: str) -> str:
    """A path as the command line's reader means it: from the working directory, else beside hindcast.toml."""
    return path if Path(path).exists() else settings.path(path)


def save_outcomes(store: Store, settings: Settings, *, id_: str, outcomes: str) -> None:
    """Keep the outcome of a launch; NotThereError if there was no forecast, InputError if it is no such file."""
    folder = f"launches/{launch_id(id_)}"
    if not store.exists(f"{folder}/forecast.json"):
        raise NotThereError(f"launch {id_!r} has no frozen forecast: run `hindcast launch forecast --id {id_}` before")
    from jobs.reports.files import outcome_frame
    from jobs.reports.given import json_object

    content = _read(_located(settings, outcomes))
    lines = ((f"{outcomes} line {n}", line) for n, line in enumerate(content.split(b"\n"), 1) if line.strip())
    outcome_frame(((where, json_object(line, where)) for where, line in lines), outcomes)
    store.documents.write_bytes(f"{folder}/outcomes.jsonl", content)


@cli.command(
    app,
    "register",
    example="hindcast launch register --config hindcast.toml --id new-ranker --start 2026-12-01"
    " --pages-a a.jsonl --pages-b b.jsonl",
)
@cli.command(
    app,
    "forecast",
    example="hindcast launch forecast --config hindcast.toml --id new-ranker --start 2026-12-01 --pages-a a.jsonl"
    " --pages-b b.jsonl",
)
def forecast(
    called: typer.Context,
    config: cli.ConfigOption = "",
    id_: IdOption = "",
    start: StartOption = "",
    pages_a: PagesAOption = "",
    pages_b: PagesBOption = "",
    ranker_a: RankerAOption = "",
    ranker_b: RankerBOption = "",
    pages_window: PagesWindowOption = "",
    corpora: CorporaOption = "",
    evidence_days: EvidenceDaysOption = 0,
    gap_days: GapDaysOption = -1,
    variants: VariantsOption = "",
    judge: JudgeOption = "",
    model: ModelOption = "",
    budget_usd: BudgetOption = "",
    outcomes: OutcomesOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Build evidence that cannot touch the launch, judge both systems' pages and freeze the forecast.

    `register` is the first task of that flow alone: it keeps the launch's parameters (or its outcome) and pins the
    tables that it reads.
    """
    only_register = called.info_name == "register"
    if outcomes and not only_register:
        raise UsageError("--outcomes belongs to the finished test: run `hindcast launch outcome`")
    settings = cli.settings_of(config)
    if outcomes:
        save_outcomes(Store(settings.store_uri), settings, id_=id_, outcomes=outcomes)
    else:
        windows = {"evidence_days": evidence_days} if evidence_days else {}
        windows |= {"gap_days": gap_days} if gap_days >= 0 else {}
        parameters = {"launch_id": launch_id(id_), "start": cli.parse_day(start, option="--start").isoformat()}
        parameters |= {"windows": windows, "pages_a": pages_a, "pages_b": pages_b}
        parameters |= {"ranker_a": ranker_a, "ranker_b": ranker_b}
        judging = _judging(variants=variants, judge=judge, model=model, budget_usd=budget_usd)
        own = {"pages_window": _days_of(pages_window), "corpora": cli.parse_names(corpora), "judging": judging}
        _check_own(settings, own)
        parameters |= {name: value for name, value in own.items() if value}
        save_parameters(Store(settings.store_uri), settings, parameters=parameters)
    if not only_register:
        _run(config, id_, "forecast", json_)
        return
    with cli.context(config=config, launch=id_) as ctx:
        cli.finish(register(ctx), as_json=json_)


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


def _judging(*, variants: str, judge: str, model: str, budget_usd: str) -> dict[str, Any]:
    """The [judging] values that the options replace; --model implies the openai judge, as everywhere."""
    implied = judge or ("openai" if model else "")
    given = {"variants": cli.parse_names(variants), "judge": implied, "model": model, "budget_usd": budget_usd.strip()}
    return {k: v for k, v in given.items() if v}


def _check_own(settings: Settings, own: dict[str, Any]) -> None:
    """Refuse what does not fit before anything is kept; declared names only, so none can be a path."""
    replaced(settings, corpora=own["corpora"], judging=own["judging"])


def _days_of(text: str) -> list[str]:
    if not text:
        return []
    first, _, end = text.partition(":")
    window = Window(cli.parse_day(first, option="--pages-window"), cli.parse_day(end, option="--pages-window"))
    return [window.start.isoformat(), window.end.isoformat()]


def _run(config: str, id_: str, use: Use, json_: bool) -> None:
    short: GateFailed | None = None
    with cli.context(config=config, launch=id_) as ctx:
        try:
            run_flow(ctx, use)
        except GateFailed as error:  # published all the same: say what came out, then fail
            short = error
        found = headline(ctx)
    text = headline_text(ctx.run.key, found)
    cli.finish({"launch_id": id_, "run": ctx.run.key, **found}, as_json=json_, text=text)
    if short:
        raise short


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
    """Content of a local file or an object-store address; InputError if there is none."""
    from pyarrow import fs

    system, inner = filesystem(path) if path else (fs.LocalFileSystem(), "")
    if not path or system.get_file_info(inner).type != fs.FileType.File:
        raise InputError(f"{path or 'no path'}: there is no such file; check the option that names it")
    with system.open_input_stream(inner, compression=None) as stream:
        return stream.read()
