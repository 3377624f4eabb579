"""`hindcast cards`: evidence cards of a run's pages, the leakage audit, explanations, and threshold calibration."""

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from jobs.cards import audit
from jobs.cards.inputs import items_of, share_specs
from jobs.cards.share import build_share
from jobs.cards.thresholds import keep_calibration, thresholds
from jobs.core import cli
from jobs.core.context import Context
from jobs.core.embedding import PACKAGED, Embedder, embedder_for
from jobs.core.errors import UsageError
from jobs.core.settings import Settings
from jobs.core.spark import run_tasks
from jobs.core.tables import Store, scan_files
from jobs.propensity.sample import LOWEST
from schemas.logs import QUERIES

MOST_QUERIES = 200_000  # of a store, that pairs are planted in; a locale needs 400

app = typer.Typer(help="Evidence cards of each page's items, and the leakage audit.", no_args_is_help=True)


def run(ctx: Context) -> dict[str, Any]:
    """Build the cards of every page of the run; records rows, what was dropped for which reason, and thresholds."""
    page_items = items_of(ctx.read("pages", run=ctx.run.key))
    evidence = ctx.store.files("evidence", version=ctx.table_version("evidence"), where={"run": ctx.run.key})
    embedder = embedder_for(ctx.settings, say=ctx.progress.say)
    limits = thresholds(ctx.store, model=embedder.name, revision=embedder.revision, settings=ctx.settings.evidence)
    specs = share_specs(ctx, page_items, evidence, embedder, limits)
    results = run_tasks(ctx.spark, build_share, specs, label="cards: closest historical queries")
    own = {"launch"} if ctx.run.launch_id else {"logs", "human"}
    sets = sorted(own | set(page_items["set"]))
    staged = [file for result in results for file in result["staged"]]
    ctx.store.commit_files("cards", staged, replaced=[{"run": ctx.run.key, "set": name} for name in sets])
    ctx.store.documents.delete(f"{ctx.folder}/cards/staged")
    summary = {
        "page_items": page_items.height,
        **_added([result["counts"] for result in results]),
        **limits.summary(page_items["locale"].unique().sort().to_list()),
        "embedded": embedder.embedded,
    }
    if summary["locales_unknown_to_model"]:
        ctx.progress.say(
            f"  warning: {embedder.name} names no language of locale {', '.join(summary['locales_unknown_to_model'])}:"
            " similarities there are unsure; take a model that knows it, or `hindcast cards calibrate-threshold --save`"
        )
    return ctx.record("cards", summary, tables=("cards",))


def _added(counts: list[dict[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for one in counts for name in one)
    return {name: sum(one.get(name, 0) for one in counts) for name in names}


TASKS = {"build": run, "audit": audit.run}


@cli.command(app, "build", example="hindcast cards build --config hindcast.toml --day 2026-11-20")
def build(
    config: cli.ConfigOption = "",
    day: cli.DayOption = "",
    launch: cli.LaunchOption = "",
    run_key: cli.RunOption = "",
    pages: Annotated[str, typer.Option("--pages", help="Without a store: pages.jsonl.")] = "",
    evidence: Annotated[str, typer.Option("--evidence", help="Without a store: evidence rows (see help).")] = "",
    out: Annotated[str, typer.Option("--out", help="Without a store: cards.jsonl to write.")] = "",
    json_: cli.JsonOption = False,
) -> None:
    """Build the cards of a run's pages from its evidence, or of a file of pages from a file of evidence.

    A file of evidence (JSON lines, CSV or Parquet) has item_id, query, impressions and relevance; corpus, locale,
    clicks and users where known.
    """
    if pages or evidence or out:
        _build_from_files(pages, evidence, out, config, json_)
        return
    with cli.context(config=config, day=day, launch=launch, run=run_key) as ctx:
        cli.finish(run(ctx), as_json=json_)


@cli.command(app, "audit", example="hindcast cards audit --config hindcast.toml --day 2026-11-20")
def audit_command(
    config: cli.ConfigOption = "",
    day: cli.DayOption = "",
    launch: cli.LaunchOption = "",
    run_key: cli.RunOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Search a run's cards for leaks, from the daily tables up; exit code 1 if one is found."""
    with cli.context(config=config, day=day, launch=launch, run=run_key) as ctx:
        cli.finish(audit.run(ctx), as_json=json_)


@cli.command(
    app,
    "explain",
    example='hindcast cards explain --item track-17 --query "rainy jazz" --config hindcast.toml --day 2026-11-20',
)
def explain_command(
    item: Annotated[str, typer.Option("--item", help="Id of the item.")],
    query: Annotated[str, typer.Option("--query", help="The page's query.")],
    corpus: cli.CorpusOption = "",
    locale: Annotated[
        str, typer.Option("--locale", help="Locale of the page; may be left out where only one is possible.")
    ] = "",
    config: cli.ConfigOption = "",
    day: cli.DayOption = "",
    launch: cli.LaunchOption = "",
    run_key: cli.RunOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Print an item's card for a query: each number's counts by rank, and what was dropped and why."""
    from jobs.cards.explain import explain, explained_text, possible_locales

    with cli.context(config=config, day=day, launch=launch, run=run_key, quiet=True) as ctx:
        which = corpus or _only(ctx.corpora, "--corpus")
        where = locale or _only(possible_locales(ctx, corpus=which, item_id=item, query=query), "--locale")
        card = explain(ctx, corpus=which, locale=where, item_id=item, query=query)
    cli.finish(card, as_json=json_, text=explained_text(card))


@cli.command(
    app,
    "calibrate-threshold",
    example="hindcast cards calibrate-threshold --pairs pairs.jsonl --config hindcast.toml --save",
)
def calibrate_command(
    pairs: Annotated[str, typer.Option("--pairs", help="Labelled pairs: a, b, near_duplicate, locale.")] = "",
    model: Annotated[str, typer.Option("--model", help="Embedding model; default: that of the settings.")] = "",
    save: Annotated[
        bool, typer.Option("--save", help="Keep the thresholds in the store; cards then use them.")
    ] = False,
    config: cli.ConfigOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Find a model's near-duplicate threshold and its error rates, by locale and for all together.

    With --pairs from labelled pairs; without, from pairs planted among the store's own queries.
    """
    if not (pairs or config):
        raise UsageError("give --pairs, or --config of a store whose queries pairs are planted in")
    if save and not config:
        raise UsageError("--save needs --config: it says which store keeps the thresholds")
    settings = cli.settings_of(config) if config else None
    if settings is None:
        encoder = Embedder(model or PACKAGED)
    else:
        evidence = settings.evidence.model_copy(update={"embedding_model": model or settings.evidence.embedding_model})
        encoder = embedder_for(settings.model_copy(update={"evidence": evidence}))
    store = Store(settings.store_uri) if settings else None
    found, few = _calibrations(Path(pairs) if pairs else None, store, encoder)
    if save and store is not None:
        for locale, result in found.items():
            keep_calibration(store, model=encoder.name, revision=encoder.revision, locale=locale, result=result)
    known = thresholds(store, model=encoder.name, revision=encoder.revision, settings=(settings or Settings()).evidence)
    summary = {
        "model": encoder.name,
        "revision": encoder.revision,
        "saved": save,
        "locales": found,
        "too_few_pairs": few,
        "locales_unknown_to_model": known.unknown([*found, *few]),
    }
    cli.finish(summary, as_json=json_)


def _calibrations(pairs: Path | None, store: Store | None, encoder: Embedder) -> tuple[dict[str, Any], list[str]]:
    """Locale to calibration, and the locales with too few pairs for one of their own; "" is all pairs together."""
    from jobs.cards.calibrate import calibrate, has_enough, planted_pairs, read_pairs

    if pairs is not None or store is None:
        known = read_pairs(pairs)
    else:
        by_locale = _some_queries(store).group_by("locale").agg("query").sort("locale").iter_rows()
        known = [pair for locale, texts in by_locale for pair in planted_pairs(texts, locale=locale)]
    groups = {one: [p for p in known if p.locale == one] for one in sorted({p.locale for p in known} - {""})}
    enough = {"": known} | {one: some for one, some in groups.items() if has_enough(some)}
    return {one: calibrate(some, encoder=encoder) for one, some in enough.items()}, sorted(groups.keys() - enough)


def _some_queries(store: Store) -> pl.DataFrame:
    """Columns locale and query of at most about MOST_QUERIES queries, a stable sample: keys are hashes."""
    files = store.files("queries")
    share = min(1.0, MOST_QUERIES / max(1, sum(file.rows for file in files)))
    rows = scan_files(QUERIES, files, columns=["locale", "query", "query_key"])
    return rows.filter(pl.col("query_key") <= LOWEST + round(share * 2**64) - 1).select("locale", "query").collect()


def _build_from_files(pages: str, evidence: str, out: str, config: str, json_: bool) -> None:
    from jobs.cards.from_files import build_from_files

    if not (pages and evidence and out):
        raise UsageError("without a store, cards need --pages, --evidence and --out")
    settings = cli.settings_of(config) if config else None
    cli.finish(build_from_files(Path(pages), Path(evidence), Path(out), settings=settings), as_json=json_)


def _only(values: list[str], option: str) -> str:
    if len(values) != 1:
        raise UsageError(f"{option} is needed: it may be {' or '.join(values)}")
    return values[0]
