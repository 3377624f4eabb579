"""`hindcast reports`: figures, HTML and exports of a run, or of judgments made elsewhere."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.core import cli
from jobs.core.context import Context
from jobs.core.errors import GateFailed, InputError, NotThereError, UsageError
from jobs.core.storage import Files

SHOWN_FLIPS = 5  # page ids in a line for people; all of them are in --json
LEAST_SAMPLES = 100  # as report.bootstrap: 2.5% of fewer is hardly a sample

app = typer.Typer(help="Figures, HTML and exports.", no_args_is_help=True)

JudgmentsOption = Annotated[str, typer.Option("--judgments", help="judgments.jsonl of any tool, instead of a run.")]
TruthOption = Annotated[str, typer.Option("--truth", help='Truth: {"page_id","query_key","truth"} a line.')]
OutcomesOption = Annotated[str, typer.Option("--outcomes", help="outcomes.jsonl of an A/B test.")]
PagesOption = Annotated[str, typer.Option("--pages", help="pages.jsonl, for the explorer.")]
CardsOption = Annotated[str, typer.Option("--cards", help="cards.jsonl, for the explorer.")]
OutOption = Annotated[str, typer.Option("--out", help="Folder to write to (of a run: a copy of the site).")]
BeforeOption = Annotated[str, typer.Option("--before", help="Folder of an earlier report to compare with.")]
SamplesOption = Annotated[int, typer.Option("--samples", min=0, help="Bootstrap samples; 0: the setting, or 2000.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of the resamples.")]
SpearmanOption = Annotated[float, typer.Option("--min-spearman", help="Gate: exit code 3 below it; -2: none.")]
UnscoredOption = Annotated[float, typer.Option("--max-unscored", help="Gate: exit code 3 above it; -1: none.")]


def run(ctx: Context) -> dict[str, Any]:
    """Build the run's report under reports/RUN, its metrics rows, and the site; records gates and verdict."""
    from jobs.reports.explorer import explorer_data
    from jobs.reports.output import Rows, write_report
    from jobs.reports.rows import metric_rows
    from jobs.reports.site import build_site
    from jobs.reports.store import dropped_counts

    data, report = report_of(ctx)
    explorer = explorer_data(
        run=ctx.run.key, pages=data.pages, judgments=data.judgments, cards=data.cards, dropped=dropped_counts(ctx)
    )
    ctx.store.replace("metrics", metric_rows(report, run=ctx.run.key), where={"run": ctx.run.key})
    folder = f"reports/{ctx.run.key}"
    write_report(ctx.store.documents, folder, report, explorer, Rows.of(data))
    site = build_site(ctx.store.documents)
    if site and ctx.settings.report.site:
        copy_site(ctx.store.documents, Path(ctx.settings.path(ctx.settings.report.site)))
    tables = ("metrics", "launches") if ctx.run.launch_id else ("metrics",)
    return ctx.record("reports", {**summary(report, folder), "site": site}, tables=tables)


def report_of(ctx: Context) -> tuple[Any, dict[str, Any]]:
    """The run's report and the data behind it, from the versions that its manifest names; nothing is published.

    A launch whose forecast is not frozen yet freezes it here.
    """
    from jobs.reports import launch_store
    from jobs.reports.build import build
    from jobs.reports.store import from_store, options_of, shuffled_labels

    data, options = from_store(ctx), options_of(ctx)
    if ctx.run.launch_id:
        data = launch_store.with_frozen_forecast(ctx, data, options)
    data = replace(data, control_labels=shuffled_labels(ctx, data))
    report = build(data, options)
    return data, launch_store.with_track_record(ctx, report) if ctx.run.launch_id else report


def outcome(ctx: Context) -> dict[str, Any]:
    """Join the launch's outcome with its frozen forecast and judgments, and keep it in the launches table."""
    from jobs.reports import launch_store
    from jobs.reports.store import from_store, options_of

    return launch_store.join_outcome(ctx, from_store(ctx), options_of(ctx))


TASKS = {"build": run, "outcome": outcome}


def summary(report: dict[str, Any], folder: str) -> dict[str, Any]:
    """What the manifest and the command's last line say of a report."""
    return {
        "report": f"{folder}/index.html",
        "verdict": report["verdict"],
        "gates": report["gates"],
        "n_pages": {part: report[part]["n_pages"] for part in ("logs", "human")},
        "problems": report["run"]["problems"],
    }


@cli.command(
    app, "build", example="hindcast reports build --judgments judgments.jsonl --truth truth.jsonl --out report/"
)
def build_command(
    judgments: JudgmentsOption = "",
    truth: TruthOption = "",
    outcomes: OutcomesOption = "",
    pages: PagesOption = "",
    cards: CardsOption = "",
    out: OutOption = "",
    before: BeforeOption = "",
    samples: SamplesOption = 0,
    seed: SeedOption = 0,
    min_spearman: SpearmanOption = -2,
    max_unscored: UnscoredOption = -1,
    config: cli.ConfigOption = "",
    day: cli.DayOption = "",
    launch: cli.LaunchOption = "",
    run_key: cli.RunOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Report on a run of the store, or on files: judgments and labels made elsewhere."""
    paths = {"judgments": judgments, "truth": truth, "outcomes": outcomes, "pages": pages, "cards": cards}
    of_files = {**paths, "before": before}
    of_run = {"config": config if day or launch or run_key else "", "day": day, "launch": launch, "run": run_key}
    check_options({k: v for k, v in of_files.items() if v}, {k: v for k, v in of_run.items() if v})
    if judgments:
        options = file_options(samples=samples, seed=seed, min_spearman=min_spearman, max_unscored=max_unscored)
        given = {k: Path(v) if v else None for k, v in paths.items()}
        done = build_files(given, out=out, before=before, options=options)
        for problem in done["problems"]:
            typer.echo(f"hindcast: {problem}", err=True)
    else:
        with cli.context(config=config, day=day, launch=launch, run=run_key) as ctx:
            done = run(ctx)
            if out:
                copy_site(ctx.store.documents, Path(out))
    cli.finish(done, as_json=json_, text=f"{done['verdict']['sentence']}\n{done['report']}")
    if judgments and done["gates"]["failed"]:
        raise GateFailed("; ".join(done["gates"]["failed"]))


def check_options(files: dict[str, str], run: dict[str, str]) -> None:
    """UsageError where options of both kinds of report are mixed, or the file of judgments is missing."""
    if not files:
        return
    named = ", ".join(f"--{name}" for name in files)
    if "judgments" not in files:
        raise UsageError(f"{named} given without --judgments: name the file of judgments to report on")
    if run:
        others = ", ".join(f"--{name}" for name in run)
        raise UsageError(f"{named} report on files, {others} on a run of a store: give one or the other")


def file_options(*, samples: int, seed: int, min_spearman: float, max_unscored: float) -> Any:
    """Options of a report on files; UsageError for a gate that no figure can meet or miss."""
    from jobs.reports.data import Options

    if not -1 <= min_spearman <= 1 and min_spearman != -2:
        raise UsageError(f"--min-spearman {min_spearman}: a correlation lies in [-1, 1]; -2: no gate")
    if not 0 <= max_unscored <= 1 and max_unscored != -1:
        raise UsageError(f"--max-unscored {max_unscored}: a share lies in [0, 1]; -1: no gate")
    if 0 < samples < LEAST_SAMPLES:
        raise UsageError(f"--samples {samples}: an interval needs {LEAST_SAMPLES} or more; 0: 2000")
    return Options(
        samples=samples or 2000,
        seed=seed,
        min_spearman=None if min_spearman < -1 else min_spearman,
        max_unscored=None if max_unscored < 0 else max_unscored,
    )


def build_files(paths: dict[str, Path | None], *, out: str, before: str, options: Any) -> dict[str, Any]:
    """Report on files; returns its summary. InputError where the ids of the files do not match at all."""
    from jobs.reports.build import build
    from jobs.reports.explorer import explorer_data
    from jobs.reports.files import from_files
    from jobs.reports.output import Rows, write_report

    if not out:
        raise UsageError("--out is missing: name the folder that the report goes to")
    if not paths["truth"] and not paths["outcomes"]:
        raise UsageError("nothing to compare with: give --truth, --outcomes or both")
    if Path(out).exists() and not Path(out).is_dir():
        raise UsageError(f"--out {out} is a file: name the folder that the report goes to")
    data = from_files(**{k: v for k, v in paths.items() if v or k == "truth"})
    if before:
        data = replace(data, previous=read_report(before), previous_labels=read_labels(before))
    report = build(data, options)
    explorer = explorer_data(run="files", pages=data.pages, judgments=data.judgments, cards=data.cards)
    Path(out).mkdir(parents=True, exist_ok=True)
    write_report(Files(str(Path(out).absolute())), "", report, explorer, Rows.of(data))
    return summary(report, out.rstrip("/"))


@cli.command(app, "outcome", example="hindcast reports outcome --config hindcast.toml --launch new-ranker")
def outcome_command(
    config: cli.ConfigOption = "",
    launch: cli.LaunchOption = "",
    run_key: cli.RunOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Join a launch's outcome with its frozen forecast (the file stands in the store: `hindcast launch outcome`)."""
    with cli.context(config=config, launch=launch, run=run_key) as ctx:
        cli.finish(outcome(ctx), as_json=json_)


@cli.command(app, "site", example="hindcast reports site --config hindcast.toml --out out/report")
def site_command(config: cli.ConfigOption = "", out: OutOption = "", json_: cli.JsonOption = False) -> None:
    """Copy the site (the latest night's report with the latest launch in it) into a folder."""
    if not out:
        raise UsageError("--out is missing: name the folder that the site goes to")
    files = Files(cli.settings_of(config).store_uri)
    if not files.exists("site/report.json"):
        raise NotThereError(f"{files.root} has no report yet: run `hindcast night` first")
    copy_site(files, Path(out))
    cli.finish({"report": f"{out.rstrip('/')}/index.html"}, as_json=json_)


def copy_site(files: Files, out: Path) -> None:
    """Copy site/ of a store into a local folder, files that are gone removed."""
    import shutil

    shutil.rmtree(out / "figures", ignore_errors=True)
    target = Files(str(out.absolute()))
    for name in files.list("site"):
        if name == "figures":
            for figure in files.list("site/figures"):
                target.write_bytes(f"figures/{figure}", files.read_bytes(f"site/figures/{figure}"))
        else:
            target.write_bytes(name, files.read_bytes(f"site/{name}"))


@cli.command(app, "agreement", example="hindcast reports agreement anna.json ben.json --json")
def agreement_command(
    marks: Annotated[list[Path], typer.Argument(help="Files of marks that the explorer exported.")],
    json_: cli.JsonOption = False,
) -> None:
    """Agreement of reviewers' marks: Cohen's kappa by pairs, Krippendorff's alpha over all."""
    from jobs.reports.agreement import agree

    cli.finish(agree(marks), as_json=json_)


@cli.command(app, "compare", example="hindcast reports compare out/last out/now --json")
def compare_command(
    before: Annotated[str, typer.Argument(help="Folder of the earlier report.")],
    after: Annotated[str, typer.Argument(help="Folder of the later report.")],
    json_: cli.JsonOption = False,
) -> None:
    """What changed from one report to another, by how much, whether it is more than noise, and which pages flipped."""
    from jobs.reports.compare import compare

    done = compare(read_report(before), read_report(after), pages=(read_labels(before), read_labels(after)))
    cli.finish(done, as_json=json_, text=compare_text(done))


def compare_text(done: dict[str, Any]) -> str:
    """The comparison as lines for people."""
    from jobs.reports.verdict import short

    lines = [f"{done['before']['run'] or 'before'} -> {done['after']['run'] or 'after'}"]
    for f in done["figures"]:
        if f["statistic"] == "spearman":
            noise = "within noise" if f["within_noise"] else "more than noise"
            change = f"{short(f['change'])} ({short(f['low'])} to {short(f['high'])}, {noise})"
            lines.append(f"  {f['set']:6}{f['variant']:16}{short(f['before'])} -> {short(f['after'])}  {change}")
    for variant, flips in done["pages"]["flips"].items():
        pages = f" ({', '.join(flips['page_ids'][:SHOWN_FLIPS])})" if flips["page_ids"] else ""
        lines.append(f"  {variant}: {flips['flipped']} of {flips['n']} labels of common pages changed{pages}")
    if len(lines) == 1:
        lines.append("  no variant and no page stands in both reports: there is nothing to compare")
    return "\n".join(lines)


def read_report(folder: str) -> dict[str, Any]:
    """report.json of a local folder; InputError if there is none, or if it is no report."""
    path = Path(folder) / "report.json"
    try:
        found = json.loads(path.read_text("utf-8"))
        if not all(isinstance(found[part], dict) for part in ("run", "leakage")):
            raise ValueError("it lacks the parts of a report")
        if not all(isinstance(found[part]["variants"], dict) for part in ("logs", "human")):
            raise ValueError("it lacks the parts of a report")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read ({error}): name the folder of a report") from None
    return found


def read_labels(folder: str) -> dict[str, dict[str, float | None]]:
    """Labels of every page of a report in a local folder; InputError if its explorer data cannot be read."""
    from jobs.reports.explorer import page_labels
    from jobs.reports.output import read_explorer

    try:
        return page_labels(read_explorer(Files(str(Path(folder).absolute())), ""))
    except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError) as error:
        path = Path(folder) / "explorer.json.gz"
        raise InputError(f"{path} cannot be read ({error!s:.80}): name the folder of a report") from None
