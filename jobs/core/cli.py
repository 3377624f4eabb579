"""Conventions of the command line: shared options, one place for errors and exit codes, JSON as the last line.

Exit codes (formats.md): 0 done; 1 failed, nothing published; 2 wrong use; 3 a report gate failed.
"""

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, datetime
from typing import Annotated, Any

import typer

from jobs.core.errors import HindcastError, UsageError
from jobs.core.mishaps import told
from jobs.core.progress import Progress, counts_of, step_line
from jobs.core.settings import Settings, load_settings
from schemas.flow import FLOW, qualified
from schemas.names import BadName, launch_id, run_key

ConfigOption = Annotated[str, typer.Option("--config", help="Path of hindcast.toml.", envvar="HINDCAST_CONFIG")]
DayOption = Annotated[str, typer.Option("--day", help="Night: event day, YYYY-MM-DD (UTC).")]
LaunchOption = Annotated[str, typer.Option("--launch", help="Launch id, instead of --day.")]
RunOption = Annotated[str, typer.Option("--run", help="Run key, such as night-2026-11-20, instead of --day.")]
CorpusOption = Annotated[str, typer.Option("--corpus", help="Only this corpus.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object as the last line of stdout.")]


def command(app: typer.Typer, name: str, *, example: str) -> Callable:
    """Register a verb: its errors become one line on stderr and an exit code, its help ends with an example."""

    def register(function: Callable) -> Callable:
        @functools.wraps(function)
        def guarded(*args: Any, **options: Any) -> None:
            with exits(), _as_step(_FLOW.get(_words(function.__module__, name), ""), options):
                function(*args, **options)

        app.command(name, epilog=f"Example: {example}")(guarded)
        return function

    return register


_RUNNING: ContextVar[dict[str, Any] | None] = ContextVar("step", default=None)
_FLOW = {task.command: qualified(task) for task in FLOW}


def _words(module: str, verb: str) -> tuple[str, ...]:
    """How the flow spells a command: the verbs of jobs.night stand alone, the others follow their step's word."""
    step = module.split(".")[1] if module.startswith("jobs.") else ""
    return (verb,) if step == "night" else (step, verb)


@contextmanager
def _as_step(step: str, options: dict[str, Any]) -> Iterator[None]:
    """While a task of the flow runs as a command: its one structured line comes from `finish`, or tells the error."""
    named = [f"{kind}-{options[name]}" for kind, name in (("night", "day"), ("launch", "launch")) if options.get(name)]
    run = next((options[name] for name in ("run", "run_", "run_key") if options.get(name)), "".join(named))
    token = _RUNNING.set({"step": step, "begun": time.monotonic(), "run": run} if step else None)
    try:
        yield
    except Exception as error:
        _tell({"error": type(error).__name__})
        raise
    finally:
        _RUNNING.reset(token)


def _tell(counts: dict[str, Any]) -> None:
    running = _RUNNING.get()
    if running and not running.get("told"):
        typer.echo(step_line(running["step"], running["begun"], {"run": running["run"], **counts}), err=True)
        running["told"] = True


@contextmanager
def exits() -> Iterator[None]:
    """Turn expected errors into a line on stderr and the exit code of formats.md."""
    try:
        yield
    except HindcastError as error:
        typer.echo(f"hindcast: {error}", err=True)
        raise SystemExit(error.exit_code) from None
    except BadName as error:
        typer.echo(f"hindcast: {error}", err=True)
        raise SystemExit(2) from None
    except BrokenPipeError:  # the reader of stdout has seen enough
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  Python flushes it once more at its end
        raise SystemExit(1) from None
    except Exception as error:
        sentence = told(error)
        if sentence is None:
            raise
        typer.echo(f"hindcast: {sentence}", err=True)
        raise SystemExit(1) from None


def finish(summary: dict[str, Any], *, as_json: bool, text: str = "") -> None:
    """Print the outcome of a command: one JSON object, or the readable text (else `key: value` lines).

    A task of the flow first says its one structured line with counts and seconds, on stderr.
    """
    _tell(counts_of(summary))
    if as_json:
        typer.echo(json.dumps(summary, ensure_ascii=False, default=str, allow_nan=False))
    else:
        typer.echo(text or "\n".join(f"{k}: {_short(v)}" for k, v in summary.items()))


def parse_names(text: str) -> list[str]:
    """Names with commas between them; UsageError where something is given and nothing named."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if text and not names:
        raise UsageError(f"{text!r} names nothing: give names with commas between them")
    return names


def parse_day(text: str, *, option: str = "--day") -> date:
    """An ISO date; UsageError names the value."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise UsageError(f"{option} {text!r} is no calendar date: write it as YYYY-MM-DD") from None


@contextmanager
def context(
    *, config: str, day: str = "", launch: str = "", run: str = "", backfill: bool = False, quiet: bool = False
) -> Iterator[Any]:
    """A Context for one command: settings, store, run; its Spark session, if one was started, is stopped at the end."""
    from jobs.core.context import Context, run_of
    from jobs.core.launch_settings import for_launch
    from jobs.core.spark import SparkProvider
    from jobs.core.tables import Store

    settings = settings_of(config)
    which_day, which_launch = _which(day=day, launch=launch, run=run)
    store = Store(settings.store_uri)
    settings = for_launch(settings, store, which_launch)
    spark = SparkProvider(settings.spark, store_uri=settings.store_uri)
    try:
        chosen = run_of(settings, store, day=which_day, launch=which_launch)
        progress = Progress(None if quiet else sys.stderr)
        yield Context(settings=settings, store=store, run=chosen, spark=spark, progress=progress, backfill=backfill)
    finally:
        spark.stop()


def settings_of(config: str) -> Settings:
    """Settings of a --config value; UsageError where the command needs one and none was given."""
    if not config:
        raise UsageError("no configuration: pass --config hindcast.toml or set HINDCAST_CONFIG")
    return load_settings(config)


def _which(*, day: str, launch: str, run: str) -> tuple[date | None, str | None]:
    given = [name for name, value in (("--day", day), ("--launch", launch), ("--run", run)) if value]
    if len(given) != 1:
        raise UsageError(f"{' and '.join(given) or 'nothing'} given: name one of --day, --launch and --run")
    if run:
        key = run_key(run)
        if key.startswith("night-"):
            return parse_day(key.removeprefix("night-"), option="--run"), None
        return None, key.removeprefix("launch-")
    return (parse_day(day), None) if day else (None, launch_id(launch))


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else str(value)
