"""Pages as two rankers really showed them, sampled from the impression log by a hash of the page view."""

from datetime import date, timedelta
from typing import Any

import polars as pl

from jobs.core.context import Context
from jobs.core.errors import InputError, NotThereError, UsageError
from jobs.core.keys import key_hex, key_of
from jobs.core.spark import run_tasks
from jobs.core.storage import rust_uri, storage_options
from jobs.core.tables import DataFile, scan_files, scan_uris
from jobs.core.windows import Window
from jobs.evidence.users import distinct_users
from schemas.logs import DAILY_USERS, IMPRESSIONS

COLUMNS = ["corpus", "locale", "search_id", "item_id", "rank", "query", "query_key", "ranker"]
FILES_A_TASK = 16


def sampled_pages(
    ctx: Context, *, rankers: dict[str, str], window: Window, instances: int
) -> tuple[list[dict[str, Any]], int]:
    """Lines of pages.jsonl, up to `instances` page views per query and system; and how many rare queries were left out.

    Rare is a query that fewer than evidence.min_users people issued from the evidence window on: its text goes nowhere.
    rankers: system ("a", "b") to ranker id; InputError names one that showed nothing within `window`. The views with
    the smallest hashes are taken, so that a second call draws the same. Rows that arrived after as_of are not seen.
    """
    if window.end > ctx.run.as_of + timedelta(days=1):
        raise UsageError(f"window {window} reaches beyond {ctx.run.as_of}, the last day that {ctx.run.key} may see")
    if len(set(rankers.values())) < len(rankers):
        raise UsageError(f"both systems are ranker {rankers['a']!r}: name two that differ")
    specs = _specs(ctx, rankers, window, instances)
    results = run_tasks(ctx.spark, views_of_files, specs, label="pages: page views of two rankers")
    views = smallest(scan_uris([result["out"] for result in results]).collect(), instances=instances)
    ctx.store.documents.delete(f"{ctx.folder}/pages/views")
    there = {name for result in results for name in result["rankers"]}
    lacking = sorted(set(rankers.values()) - set(views["ranker"]))
    if lacking:
        raise InputError(
            f"ranker {lacking[0]!r} showed no page within {window} (there: {', '.join(sorted(there)) or 'none'}):"
            " correct its id or declare another window"
        )
    systems = {ranker: system for system, ranker in rankers.items()}
    common = views.join(_common(ctx, views["query_key"].unique()), on="query_key", how="semi", maintain_order="left")
    rare = views["query_key"].n_unique() - common["query_key"].n_unique()
    return [_page(row, systems[row["ranker"]]) for row in common.iter_rows(named=True)], rare


def launch_window(ctx: Context, parameters: dict[str, Any]) -> Window:
    """Where a launch's pages are sampled: its declared `pages_window`, else its gap, which no evidence day touches."""
    declared = parameters.get("pages_window")
    if declared:
        return Window(date.fromisoformat(declared[0]), date.fromisoformat(declared[1]))
    window = Window(ctx.run.evidence.end, ctx.run.cut)
    if not window.days:
        raise UsageError("this launch has no gap to sample pages from: give its pages as files, or a gap of some days")
    return window


def views_of_files(spec: dict[str, Any]) -> dict[str, Any]:
    """One task: page views of the wanted rankers in some files, `instances` per query and ranker, as a Parquet file."""
    rows = scan_files(IMPRESSIONS, spec["files"], columns=[*COLUMNS, "arrived_at", "excluded"])
    seen = pl.col("arrived_at").dt.date() <= spec["as_of"]
    shown = rows.filter(pl.col("excluded").is_null() & seen)
    there = shown.select(pl.col("ranker").unique()).collect()["ranker"].drop_nulls().to_list()
    wanted = shown.filter(pl.col("ranker").is_in(spec["rankers"])).select(COLUMNS).collect()
    found = smallest(page_views(wanted), instances=spec["instances"])
    found.write_parquet(rust_uri(spec["out"]), storage_options=storage_options(spec["out"]) or None, mkdir=True)
    return {"out": spec["out"], "rankers": there}


def page_views(rows: pl.DataFrame) -> pl.DataFrame:
    """One row a page view: corpus, locale, query, query_key, ranker, search_id, draw, items (ids in rank order)."""
    keys = ["corpus", "locale", "query", "query_key", "ranker", "search_id"]
    views = (
        rows.sort("search_id", "rank")
        .group_by(keys, maintain_order=True)
        .agg(items=pl.col("item_id").unique(maintain_order=True))
    )
    draws = [key_of(search_id) for search_id in views["search_id"]]
    return views.with_columns(draw=pl.Series(draws, dtype=pl.Int64))


def smallest(views: pl.DataFrame, *, instances: int) -> pl.DataFrame:
    """The `instances` views with the smallest draw of each query and ranker, numbered from 0 in that order."""
    ordered = views.sort("query_key", "ranker", "draw", "search_id").drop("instance", strict=False)
    place = pl.int_range(pl.len(), dtype=pl.Int32).over("query_key", "ranker")
    return ordered.with_columns(instance=place).filter(pl.col("instance") < instances)


def coverage(pages: list[dict[str, Any]]) -> dict[str, Any]:
    """How evenly two systems are covered: queries of both and of one, and pages per query as {instances: queries}."""
    counted: dict[str, dict[str, int]] = {"a": {}, "b": {}}
    for page in pages:
        mine = counted[page["system"]]
        mine[page["query_key"]] = mine.get(page["query_key"], 0) + 1
    a, b = set(counted["a"]), set(counted["b"])
    return {
        "queries_both": len(a & b),
        "queries_a_only": len(a - b),
        "queries_b_only": len(b - a),
        "pages": {system: sum(mine.values()) for system, mine in counted.items()},
        "instances": {system: _histogram(mine) for system, mine in counted.items()},
    }


def _histogram(counts: dict[str, int]) -> dict[str, int]:
    values = sorted(counts.values())
    return {str(n): values.count(n) for n in dict.fromkeys(values)}


def _specs(ctx: Context, rankers: dict[str, str], window: Window, instances: int) -> tuple[list[dict[str, Any]], int]:
    days = [day.isoformat() for day in window.each_day()]
    where = {"event_day": days, "corpus": ctx.corpora}
    files = ctx.store.files("impressions", version=ctx.table_version("impressions"), where=where)
    if not files:
        raise NotThereError(f"no impressions of {window} are in the store: ingest those days first")
    chunks: list[list[DataFile]] = [files[i : i + FILES_A_TASK] for i in range(0, len(files), FILES_A_TASK)]
    folder = ctx.store.documents.uri(f"{ctx.folder}/pages/views")
    common = {"rankers": sorted(rankers.values()), "instances": instances, "as_of": ctx.run.as_of}
    return [{**common, "files": chunk, "out": f"{folder}/{n}.parquet"} for n, chunk in enumerate(chunks)]


def _common(ctx: Context, keys: pl.Series) -> pl.DataFrame:
    """Those of the queries (query_key) that at least min_users people issued from the evidence window to as_of."""
    days = [day.isoformat() for day in ctx.run.history.each_day()]
    where = {"event_day": days, "corpus": ctx.corpora}
    files = ctx.store.files("daily_users", version=ctx.table_version("daily_users"), where=where)
    rows = scan_files(DAILY_USERS, files, columns=["query_key", "salt_id", "user_hash", "arrival_day"])
    mine = pl.col("query_key").is_in(keys.implode()) & (pl.col("arrival_day") <= ctx.run.as_of)
    counted = distinct_users(rows.filter(mine).select("query_key", "salt_id", "user_hash").collect())
    return counted.filter(pl.col("users_least") >= ctx.settings.evidence.min_users).select("query_key")


def _page(row: dict[str, Any], system: str) -> dict[str, Any]:
    key = key_hex(row["query_key"])
    return {
        "page_id": f"launch-{key}-{system}-{row['instance']}",
        "set": "launch",
        "corpus": row["corpus"],
        "locale": row["locale"],
        "query_key": key,
        "query": row["query"],
        "context": None,
        "system": system,
        "instance": row["instance"],
        "configuration": "shown",
        "items": [
            {"item_id": item, "rank": rank, "title": "", "type": "", "metadata": {}}
            for rank, item in enumerate(row["items"], start=1)
        ],
        "truth": None,
        "truth_standard_error": None,
        "human_label": None,
        "human_label_source": None,
        "made": {"from": "log", "ranker": row["ranker"], "search_id": row["search_id"]},
    }
