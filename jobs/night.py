"""`hindcast night`: the flow in one process and one JVM, for one night or several; and `hindcast publish`."""

import importlib
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from typing import Annotated, Any

import typer

from jobs.core import cli
from jobs.core.context import Context
from jobs.core.errors import GateFailed, UsageError
from jobs.core.progress import counts_of
from jobs.core.publish import publish
from jobs.core.settings import Settings
from jobs.core.windows import Run
from jobs.headline import headline, headline_text, rows_of_day
from schemas.flow import FlowTask, Use, flow, qualified

night_app = typer.Typer(help="All steps of a night, in one process.", no_args_is_help=True)
publish_app = typer.Typer(help="Let consumers see a finished run.", no_args_is_help=True)


def function_of(task: FlowTask) -> Callable[..., dict[str, Any]]:
    """The step's function: `TASKS[task.name]` of the module jobs.GROUP.job (launch and publish have modules apart)."""
    module = {"launch": "jobs.launch", "publish": "jobs.night"}.get(task.group, f"jobs.{task.group}.job")
    return importlib.import_module(module).TASKS[task.name]


def run_flow(ctx: Context, use: Use) -> dict[str, Any]:
    """Run the tasks of one use in order and return their summaries by 'step.task'.

    A task that raises ends the run: nothing is published then. GateFailed comes after publishing.
    """
    done: dict[str, Any] = {}
    for task in flow(use):
        with ctx.progress.step(qualified(task)) as counts:
            counts["run"] = ctx.run.key
            done[qualified(task)] = _run_task(ctx, task, done)
            counts.update(counts_of(done[qualified(task)]))
    return done


def _run_task(ctx: Context, task: FlowTask, done: dict[str, Any]) -> Any:
    function = function_of(task)
    if task.mapped == "shard":
        return [function(ctx, shard["index"]) for shard in done["judging.plan"]["shards"]]
    if task.mapped == "corpus":
        with_documents = [c for c in ctx.corpora if ctx.settings.corpora[c].documents]
        return {corpus: function(ctx, corpus) for corpus in with_documents}
    return function(ctx)


def publish_run(ctx: Context) -> dict[str, Any]:
    """Publish the run; GateFailed (exit code 3) afterwards if a report gate failed, naming what fell short.

    A night whose event day has no rows is published and marked the same way, and is not made the latest night.
    """
    gates = ctx.manifest()["steps"].get("reports", {}).get("gates", {})
    no_rows = ctx.run.launch_id is None and rows_of_day(ctx) == 0
    entry = publish(ctx, gates=gates, no_rows=no_rows)
    short = list(gates.get("failed", []))
    if no_rows:
        short.append(f"{ctx.run.day} has no rows, so this is not the latest night: run it again when its log is there")
    if short:
        raise GateFailed(f"{ctx.run.key} is published, marked: {'; '.join(short)}")
    return entry


def complete(settings: Settings) -> Settings:
    """The settings, if a night can be made of them; UsageError names what is missing, before any JVM starts."""
    parts = {"[corpora.NAME]": settings.corpora, "[[sources]]": settings.sources}
    missing = " and no ".join(name for name, there in parts.items() if not there)
    if missing:
        raise UsageError(
            f"the settings have no {missing}: a night has nothing to read; `hindcast impressions inspect FILE`"
            " proposes both"
        )
    return settings


TASKS = {"publish": publish_run}


@cli.command(night_app, "night", example="hindcast night --config hindcast.toml --day 2026-11-20")
def night(
    config: cli.ConfigOption = "",
    day: cli.DayOption = "",
    first: Annotated[str, typer.Option("--from", help="First night of several.")] = "",
    last: Annotated[str, typer.Option("--to", help="Last night of several.")] = "",
    judge: Annotated[bool, typer.Option("--judge", help="Judge every night of a --from --to range.")] = False,
    json_: cli.JsonOption = False,
) -> None:
    """Run every step for one night, or for each night of a range in order (judging off there unless --judge)."""
    days = _days(day, first, last)
    complete(cli.settings_of(config))
    many = len(days) > 1
    results, failed = {}, []
    with cli.context(config=config, day=days[0].isoformat(), backfill=many and not judge) as ctx:
        for which in days:
            lengths = ctx.settings.windows.lengths
            one = replace(ctx, run=Run.night(which, lengths=lengths))
            with _gates_collected(failed):
                run_flow(one, "night")
            results[one.run.key] = headline(one)
    text = "\n".join(headline_text(key, found) for key, found in results.items())
    cli.finish({"nights": results, "gates_failed": failed}, as_json=json_, text=text)
    if failed:
        raise GateFailed("; ".join(failed))


@cli.command(publish_app, "publish", example="hindcast publish --config hindcast.toml --day 2026-11-20")
def publish_command(
    config: cli.ConfigOption = "",
    day: cli.DayOption = "",
    launch: cli.LaunchOption = "",
    run: cli.RunOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Add a finished run to published.json; exit code 3 if one of its report gates failed."""
    with cli.context(config=config, day=day, launch=launch, run=run) as ctx:
        cli.finish(publish_run(ctx), as_json=json_)


def _days(day: str, first: str, last: str) -> list[date]:
    if day and not (first or last):
        return [cli.parse_day(day)]
    if day or not (first and last):
        raise UsageError("name the night with --day, or several with both --from and --to")
    start, end = cli.parse_day(first, option="--from"), cli.parse_day(last, option="--to")
    if end < start:
        raise UsageError(f"--from {first} is after --to {last}: exchange them")
    return [start + timedelta(days=i) for i in range((end - start).days + 1)]


@contextmanager
def _gates_collected(failed: list[str]):
    try:
        yield
    except GateFailed as error:
        typer.echo(f"hindcast: {error}", err=True)
        failed.append(str(error))
