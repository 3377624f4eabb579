"""The propensity step: examination by rank per corpus (and segment), from daily counts or from a file of
impressions.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.core import cli
from jobs.core.context import Context
from jobs.core.errors import UsageError
from jobs.propensity.curve import Curve, to_file
from jobs.propensity.estimate import Options

app = typer.Typer(help="Examination probability by rank.", no_args_is_help=True)


def run(ctx: Context) -> dict[str, Any]:
    """Fit every corpus of the run, write `propensities` and the curve files, and return what was found."""
    from jobs.propensity.fitting import fit_corpus, rows_of

    found = {}
    for corpus in ctx.corpora:
        curves = fit_corpus(ctx, corpus)
        ctx.store.replace("propensities", rows_of(ctx, corpus, curves), where={"run": ctx.run.key, "corpus": corpus})
        body = {**to_file(curves[0]), "segments": [to_file(curve) for curve in curves[1:]]}
        ctx.store.write_json(f"{ctx.folder}/propensity/{corpus}.json", body)
        found[corpus] = [_short(curve) for curve in curves]
        for curve in curves:
            ctx.progress.say(_sentence(corpus, curve))
    return ctx.record("propensity", {"corpora": found}, tables=("propensities",))


TASKS = {"fit": run}


@app.callback()
def _steps() -> None:
    """Examination probability by rank."""


@cli.command(
    app, "fit", example="hindcast propensity fit --impressions log.csv --columns query=q,item=doc,rank=pos,click=c"
)
def fit_command(
    config: cli.ConfigOption = "",
    day: cli.DayOption = "",
    launch: cli.LaunchOption = "",
    run_: cli.RunOption = "",
    impressions: Annotated[
        list[str] | None, typer.Option("--impressions", help="File of impressions (repeatable).")
    ] = None,
    columns: Annotated[
        str, typer.Option("--columns", help="field=column,… for query, item, rank, click, page, ranker, …")
    ] = "",
    randomised: Annotated[bool, typer.Option("--randomised", help="All rows are traffic with random ranks.")] = False,
    estimator: Annotated[str, typer.Option("--estimator", help="auto, randomised, allpairs, pbm_em, declared.")] = "",
    pairs: Annotated[str, typer.Option("--pairs", help="Ranks that allpairs compares: all or adjacent.")] = "all",
    start: Annotated[float, typer.Option("--start", help="Examination that pbm_em starts from.")] = 0.5,
    eta: Annotated[float, typer.Option("--eta", help="Exponent of the declared curve 1/rank^eta.")] = 1.0,
    max_rank: Annotated[int, typer.Option("--max-rank", help="Deepest rank of the curve.")] = 10,
    bootstrap: Annotated[int, typer.Option("--bootstrap", help="Bootstrap samples for standard errors.")] = 200,
    out: Annotated[str, typer.Option("--out", help="Curve file to write.")] = "",
    json_: cli.JsonOption = False,
) -> None:
    """Fit examination by rank: for a run of the store, or from a file of impressions to a curve file."""
    if not impressions:
        _fit_run(config=config, day=day, launch=launch, run_=run_, estimator=estimator, json_=json_)
        return
    if pairs not in ("all", "adjacent"):
        raise UsageError(f"--pairs {pairs!r} is neither 'all' nor 'adjacent': choose one")
    options = Options(
        estimator=estimator or "auto",
        eta=eta,
        max_rank=max_rank,
        replicates=bootstrap,
        adjacent=pairs == "adjacent",
        start=start,
    )
    curve = _fit_files(impressions, columns=columns, randomised=randomised, options=options)
    if out:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        Path(out).write_text(json.dumps(to_file(curve), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    cli.finish(to_file(curve.without_covariance()), as_json=json_, text=_table(curve))


def _fit_run(*, config: str, day: str, launch: str, run_: str, estimator: str, json_: bool) -> None:
    if estimator:
        raise UsageError("--estimator goes with --impressions: for a run set propensity.estimator in hindcast.toml")
    with cli.context(config=config, day=day, launch=launch, run=run_, quiet=json_) as ctx:
        cli.finish(run(ctx), as_json=json_)


def _fit_files(paths: list[str], *, columns: str, randomised: bool, options: Options) -> Curve:
    from jobs.propensity.estimate import fit
    from jobs.propensity.logfile import read_log

    log = read_log(paths, columns=columns, randomised=randomised)
    curve = fit(log.counts, options=options)
    return replace(curve, warnings=(*curve.warnings, *log.notes))


def _short(curve: Curve) -> dict[str, Any]:
    kept = ("curve_id", "segment", "estimator", "identified", "reason")
    return {name: getattr(curve, name) for name in kept} | {"warnings": list(curve.warnings)}


def _sentence(corpus: str, curve: Curve) -> str:
    where = corpus if curve.segment is None else f"{corpus}, segment {curve.segment}"
    state = "identified" if curve.identified else "NOT identified"
    return "\n".join(
        [f"  {where}: {curve.curve_id}, {state}: {curve.reason}", *(f"  warning: {w}" for w in curve.warnings)]
    )


def _table(curve: Curve) -> str:
    lines = [_sentence("curve", curve).strip(), " rank  examined     raw   error   pairs  impressions  clicks"]
    lines += [
        f"{r.rank:5d}  {r.propensity:8.3f}  {_number(r.raw)}  {_number(r.standard_error)}  {r.pairs:6d}"
        f"  {r.impressions:11d}  {r.clicks:6d}" + ("" if r.source == "estimated" else f"  {r.source}")
        for r in curve.ranks
    ]
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "    -" if value is None else f"{value:5.3f}"
