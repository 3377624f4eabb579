"""`hindcast pages`: build the sets of a run, import labels and pages, sample two rankers' pages, show one page."""

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from jobs.core import cli
from jobs.core.context import Context
from jobs.core.errors import NotThereError, UsageError
from jobs.core.windows import Window
from jobs.pages.catalogue import catalogue, fill_titles
from jobs.pages.exclusions import of_pages, told, undeclared_locales
from jobs.pages.files import read_pages, write_pages
from jobs.pages.labelmap import load_map
from jobs.pages.labels import import_labels
from jobs.pages.model import page_dicts, pages_frame
from jobs.pages.show import page_text
from schemas.names import plain_name

app = typer.Typer(help="Pages to judge: the Logs set, human labels, A/B pages, any others.", no_args_is_help=True)

OutOption = Annotated[str, typer.Option("--out", help="File to write: .jsonl or .parquet.")]
LabelsOption = Annotated[str, typer.Option("--labels", help="Human labels: JSON lines, CSV, Parquet, or TREC qrels.")]
PagesOption = Annotated[
    str, typer.Option("--pages", help="Pages without labels, for the set `other`: a file, or a Delta table.")
]
MapOption = Annotated[str, typer.Option("--map", help="TOML that names columns, scale and kind of the labels.")]
LocaleOption = Annotated[str, typer.Option("--locale", help="Locale of rows that name none.")]
RankerAOption = Annotated[str, typer.Option("--ranker-a", help="Ranker id of system a.")]
RankerBOption = Annotated[str, typer.Option("--ranker-b", help="Ranker id of system b.")]
FromOption = Annotated[str, typer.Option("--from", help="First event day of the window, YYYY-MM-DD.")]
ToOption = Annotated[str, typer.Option("--to", help="Day after its last event day.")]
InstancesOption = Annotated[int, typer.Option("--instances", min=1, help="Page views a query and system.")]


def run(ctx: Context) -> dict[str, Any]:
    """Build the sets of the run: `logs` and `human` of a night, `launch` of a launch; each replaced as a whole."""
    from jobs.pages.human_set import human_pages
    from jobs.pages.launch_set import launch_pages
    from jobs.pages.logs_set import logs_pages

    builders = {"launch": launch_pages} if ctx.run.launch_id else {"logs": logs_pages, "human": human_pages}
    summary = {}
    for name, build in builders.items():
        frame, summary[name] = build(ctx)
        ctx.store.replace("pages", frame, where={"run": ctx.run.key, "set": name})
    for line in told(summary):
        ctx.progress.say(line)
    return ctx.record("pages", summary, tables=("pages",))


TASKS = {"build": run}


@cli.command(app, "build", example="hindcast pages build --config hindcast.toml --day 2026-11-20")
def build(
    config: cli.ConfigOption = "",
    day: cli.DayOption = "",
    launch: cli.LaunchOption = "",
    run_key: cli.RunOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Build the pages of a night (Logs and human sets) or of a launch (both systems)."""
    with cli.context(config=config, day=day, launch=launch, run=run_key) as ctx:
        cli.finish(run(ctx), as_json=json_)


@cli.command(
    app, "import", example="hindcast pages import --labels ratings.csv.gz --map ratings.toml --out pages.jsonl --json"
)
def import_(
    labels: LabelsOption = "",
    pages: PagesOption = "",
    map_: MapOption = "",
    corpus: cli.CorpusOption = "",
    locale: LocaleOption = "",
    out: OutOption = "",
    config: cli.ConfigOption = "",
    day: cli.DayOption = "",
    run_key: cli.RunOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Read labels or plain pages into a file (--out), or into a run of the store (--config and --day)."""
    if bool(labels) == bool(pages):
        raise UsageError("give either --labels or --pages")
    if bool(out) == bool(config):
        raise UsageError("say where the pages go: --out FILE, or --config with --day")
    rows, summary = _labelled(labels, map_, corpus, locale) if labels else _plain(pages, corpus, locale)
    if out:
        write_pages(rows, Path(out))
    else:
        summary |= _into_store(rows, "human" if labels else "other", config, day, run_key)
    cli.finish(summary, as_json=json_)


@cli.command(
    app,
    "sample",
    example="hindcast pages sample --config hindcast.toml --day 2026-11-20 --ranker-a old --ranker-b new"
    " --from 2026-11-14 --to 2026-11-21 --out pages",
)
def sample(
    ranker_a: RankerAOption,
    ranker_b: RankerBOption,
    first: FromOption,
    end: ToOption,
    out: Annotated[str, typer.Option("--out", help="Folder for pages-a.jsonl and pages-b.jsonl.")],
    instances: InstancesOption = 3,
    config: cli.ConfigOption = "",
    day: cli.DayOption = "",
    run_key: cli.RunOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Sample page views of two rankers from the log of a night, as the two systems of a launch."""
    from jobs.pages.human_set import without_sensitive
    from jobs.pages.shown import coverage, sampled_pages

    rankers = {"a": plain_name(ranker_a, kind="ranker"), "b": plain_name(ranker_b, kind="ranker")}
    window = Window(cli.parse_day(first, option="--from"), cli.parse_day(end, option="--to"))
    with cli.context(config=config, day=day, run=run_key) as ctx:
        found, rare = sampled_pages(ctx, rankers=rankers, window=window, instances=instances)
        kept, sensitive = without_sensitive(ctx.settings, found)
        pages, untitled = fill_titles(kept, catalogue(ctx, corpora=ctx.corpora))
    for system in rankers:
        write_pages([page for page in pages if page["system"] == system], Path(out) / f"pages-{system}.jsonl")
    left_out = {"sensitive": sensitive, "rare_queries": rare, "items_without_title": untitled}
    cli.finish({"pages": len(pages), **left_out, **coverage(pages)}, as_json=json_)


@cli.command(
    app, "show", example="hindcast pages show logs-3f1c52a09d8e7b64-good --config hindcast.toml --day 2026-11-20"
)
def show(
    page_id: Annotated[str, typer.Argument(help="Id of the page.")],
    config: cli.ConfigOption = "",
    day: cli.DayOption = "",
    launch: cli.LaunchOption = "",
    run_key: cli.RunOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Print a page, its truth with its interval, and how both were made."""
    with cli.context(config=config, day=day, launch=launch, run=run_key, quiet=True) as ctx:
        found = ctx.read("pages", run=ctx.run.key).filter(pl.col("page_id") == page_id)
    if not found.height:
        raise NotThereError(f"page {page_id!r} is not in run {ctx.run.key}: look for its id in the report")
    page = page_dicts(found)[0]
    cli.finish(page, as_json=json_, text=page_text(page))


def _labelled(labels: str, map_: str, corpus: str, locale: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    path = Path(map_) if map_ else None
    label_map = load_map(path)
    given = {name: value for name, value in (("corpus", corpus), ("locale", locale)) if value}
    imported = import_labels(
        Path(labels), label_map=label_map.model_copy(update=given), folder=(path or Path(labels)).parent
    )
    return imported.pages, imported.summary


def _plain(pages: str, corpus: str, locale: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    read = read_pages(pages, defaults={"set": "other", "corpus": corpus, "locale": locale})
    return [{**page, "set": "other"} for page in read.pages], read.summary


def _into_store(rows: list[dict[str, Any]], set_name: str, config: str, day: str, run_key: str) -> dict[str, Any]:
    """Replace the run's set with the imported pages, titles filled from the catalogue; returns what was left out."""
    from jobs.pages.human_set import without_sensitive

    with cli.context(config=config, day=day, run=run_key) as ctx:
        only = ctx.corpora[0] if len(ctx.corpora) == 1 else ""
        named = [{**page, "corpus": page["corpus"] or only} for page in rows]
        kept, sensitive = without_sensitive(ctx.settings, named)
        pages, untitled = fill_titles(kept, catalogue(ctx, corpora=ctx.corpora))
        frame = pages_frame(pages, run=ctx.run.key, set_name=set_name)
        ctx.store.replace("pages", frame, where={"run": ctx.run.key, "set": set_name})
        strange = undeclared_locales(ctx.settings, pages)
        counts = {"sensitive": sensitive, "items_without_title": untitled, "undeclared_locales": strange}
        summary = {"set": set_name, **counts}
        for line in of_pages(f"the set {set_name}", counts):
            ctx.progress.say(f"pages: {line}")
        ctx.record(f"pages_{set_name}", summary, tables=("pages",))
    return summary
