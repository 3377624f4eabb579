"""The Logs set of a night: tasks gather what the evaluation window offers; then pages are composed, sampled, scored."""

import math
from itertools import pairwise
from typing import Any

import polars as pl

from jobs.core.context import Context
from jobs.core.errors import InputError
from jobs.core.keys import RANGES
from jobs.core.sensitive import is_sensitive, sensitive_patterns
from jobs.core.spark import run_tasks
from jobs.core.tables import scan_uris
from jobs.pages.candidates import CURVE, gather
from jobs.pages.catalogue import catalogue
from jobs.pages.compose import Composition, compose_pages
from jobs.pages.logs_rows import page_rows, with_page_ids
from jobs.pages.measure import PAIR, item_relevance
from jobs.pages.sample import sample_queries
from jobs.pages.truth import TRUTH, page_truth

ROWS_A_TASK = (
    2_000_000  # some 100 MiB in a task; fewer tasks on small stores, where starting one costs more than its work
)
SLACK = 2  # queries and items that tasks offer for each one wanted: items without a catalogue entry may cost some
FEW = 50  # beyond a task's even share of the queries: keys are hashes, so its true share differs by a few roots of it

_QUERIES = {"query_key": pl.Int64, "corpus": pl.String, "locale": pl.String, "users": pl.Int64}
_COUNTS = {
    "corpus": pl.String,
    "locale": pl.String,
    "query_key": pl.Int64,
    "item_key": pl.Int64,
    "segment": pl.String,
    "rank": pl.Int32,
    "composes": pl.Boolean,
    "impressions": pl.Int64,
    "clicks": pl.Int64,
}
_MEASURED = {"impressions": pl.Int64, "relevance": pl.Float64}


def logs_pages(ctx: Context) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Rows of the table `pages` for the set `logs`, and the summary with what was excluded and why."""
    composition = _composition(ctx)
    results = run_tasks(ctx.spark, gather, _specs(ctx, composition), label="pages: what the evaluation window offers")
    _check_size(ctx, results)
    counts, queries = _staged(results, "counts"), _staged(results, "queries")
    ctx.store.documents.delete(f"{ctx.folder}/pages/staged")
    items = catalogue(ctx, corpora=ctx.corpora)
    known = _known_items(counts, items)
    curves = _curves(ctx)
    composed = compose_pages(_even_relevance(known, curves), titles=_titles(items), composition=composition)
    possible = queries.join(composed.layout.select("query_key").unique(), on="query_key", how="semi")
    chosen = sample_queries(possible, size=ctx.settings.pages.queries, strata=ctx.settings.pages.strata)
    layout = with_page_ids(composed.layout.join(chosen, on="query_key", how="semi"))
    truths = _truths(layout, known, curves)
    frame = page_rows(ctx, layout=layout, truths=truths, changes=composed.changes, queries=chosen, items=items)
    late = {"not_sampled": possible.height - chosen.height, "too_few_relevant_items": queries.height - possible.height}
    excluded = _added([*(result["excluded"] for result in results), late])
    return frame, _summary(frame, chosen, excluded, known.height < counts.height)


def _composition(ctx: Context) -> Composition:
    pages = ctx.settings.pages
    return Composition(
        min_item_relevance=pages.min_item_relevance,
        min_item_impressions=math.ceil(pages.min_item_impressions / 2),
        degraded_share=pages.degraded_share,
    )


def _specs(ctx: Context, composition: Composition) -> list[dict[str, Any]]:
    pages, where = ctx.settings.pages, _evaluation_days(ctx)
    counts = ctx.store.files("daily_counts", version=ctx.table_version("daily_counts"), where=where)
    users = ctx.store.files("daily_users", version=ctx.table_version("daily_users"), where=where)
    shares = _shares(sum(file.rows for file in counts + users))
    common = {
        "counts": counts,
        "users": users,
        "of": RANGES,
        "run": ctx.run,
        "curve": _curves(ctx).rows(),
        "low": pages.users[0],
        "high": pages.users[1],
        "sensitive": _sensitive_keys(ctx),
        "min_impressions": composition.min_item_impressions,
        "min_relevance": composition.min_item_relevance,
        "min_items": composition.min_items,
        "max_items": SLACK * composition.max_items,
        "degraded_share": composition.degraded_share,
        "limit": math.ceil(SLACK * pages.queries / len(shares)) + FEW,
        "strata": list(pages.strata),
    }
    folder = ctx.store.documents.uri(f"{ctx.folder}/pages/staged")
    return [{**common, "ranges": share, "out": f"{folder}/{n}"} for n, share in enumerate(shares)] if counts else []


def _shares(rows: int) -> list[tuple[int, int]]:
    """Inclusive groups of the key ranges, as many as the rows need."""
    tasks = min(RANGES, max(1, math.ceil(rows / ROWS_A_TASK)))
    edges = [round(i * RANGES / tasks) for i in range(tasks + 1)]
    return [(low, high - 1) for low, high in pairwise(edges)]


def _evaluation_days(ctx: Context) -> dict[str, Any]:
    days = [day.isoformat() for day in ctx.run.evaluation.each_day()]
    return {"event_day": days, "corpus": ctx.corpora}


def _curves(ctx: Context) -> pl.DataFrame:
    return ctx.read("propensities", run=ctx.run.key).select(list(CURVE)).cast(CURVE)


def _sensitive_keys(ctx: Context) -> list[int]:
    patterns = sensitive_patterns(ctx.settings)
    if not patterns:
        return []
    queries = ctx.store.read("queries", version=ctx.table_version("queries"), where={"corpus": ctx.corpora})
    return queries.filter(is_sensitive(patterns))["query_key"].to_list()


def _check_size(ctx: Context, results: list[dict]) -> None:
    rows, most = sum(r["rows"] for r in results), ctx.settings.spark.max_collected_rows
    if rows > most:
        raise InputError(
            f"pages of {ctx.run.key} would gather {rows:,} rows at once, more than spark.max_collected_rows = {most:,}:"
            " lower pages.queries or raise that setting"
        )


def _staged(results: list[dict], name: str) -> pl.DataFrame:
    kinds = {"counts": _COUNTS, "queries": _QUERIES}[name]
    frames = [pl.DataFrame(schema=kinds)]
    for result in results:
        frames.append(scan_uris([f"{result['out']}.{name}.parquet"]).collect())
    return pl.concat([frame.select(pl.col(n).cast(t) for n, t in kinds.items()) for frame in frames])


def _known_items(counts: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    """Counts of items that a judge can be shown: those of the catalogue, in each corpus that has one."""
    listed = counts["corpus"].is_in(items["corpus"].unique().implode())
    titled = counts["item_key"].is_in(items["item_key"].implode())
    return counts.filter(~listed | titled)


def _titles(items: pl.DataFrame) -> pl.DataFrame:
    return items.select("item_key", "title").unique("item_key")


def _by_corpus(counts: pl.DataFrame, curves: pl.DataFrame):
    for corpus in counts["corpus"].unique().sort():
        yield counts.filter(pl.col("corpus") == corpus), curves.filter(pl.col("corpus") == corpus)


def _even_relevance(counts: pl.DataFrame, curves: pl.DataFrame) -> pl.DataFrame:
    even = [item_relevance(part.filter("composes"), curve=curve) for part, curve in _by_corpus(counts, curves)]
    return pl.concat(even) if even else pl.DataFrame(schema={**dict.fromkeys(PAIR, pl.Int64), **_MEASURED})


def _truths(layout: pl.DataFrame, counts: pl.DataFrame, curves: pl.DataFrame) -> pl.DataFrame:
    scored = [
        page_truth(layout.join(part.select("query_key").unique(), on="query_key", how="semi"), counts=part, curve=curve)
        for part, curve in _by_corpus(counts, curves)
    ]
    return pl.concat(scored) if scored else pl.DataFrame(schema=TRUTH)


def _added(counts: list[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for name, n in one.items():
            total[name] = total.get(name, 0) + n
    return total


def _summary(frame: pl.DataFrame, chosen: pl.DataFrame, excluded: dict[str, int], uncatalogued: bool) -> dict[str, Any]:
    kinds = frame.group_by("configuration").len().sort("configuration").rows()
    return {
        "pages": frame.height,
        "queries": chosen.height,
        "configurations": dict(kinds),
        "without_truth": frame["truth"].null_count(),
        "excluded_queries": excluded,
        "items_without_catalogue_left_out": uncatalogued,
    }
