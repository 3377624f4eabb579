"""The evidence step: the window's daily counts to one debiased row per corpus, locale, item and historical query."""

from typing import Any

import typer

from jobs.core import cli
from jobs.core.context import Context

app = typer.Typer(help="Debiased Query-Relevance-Impressions rows.", no_args_is_help=True)


def run(ctx: Context) -> dict[str, Any]:
    """Build the evidence of every corpus of the run; returns rows, queries, items and what was left out."""
    from jobs.evidence.build import build

    found = build(ctx)
    for corpus, summary in found.items():
        ctx.progress.say(f"  {corpus}: {summary['rows']:,} rows of {summary['queries']:,} queries, {summary['state']}")
    return ctx.record("evidence", {"corpora": found}, tables=("evidence",))


TASKS = {"build": run}


@app.callback()
def _steps() -> None:
    """Debiased Query-Relevance-Impressions rows."""


@cli.command(app, "build", example="hindcast evidence build --config hindcast.toml --day 2026-11-20")
def build_command(
    config: cli.ConfigOption = "",
    day: cli.DayOption = "",
    launch: cli.LaunchOption = "",
    run_: cli.RunOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Sum the evidence window into debiased rows per item and historical query."""
    with cli.context(config=config, day=day, launch=launch, run=run_, quiet=json_) as ctx:
        cli.finish(run(ctx), as_json=json_)
