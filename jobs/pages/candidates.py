"""One task of the Logs set: what a key range of daily counts offers for pages. Pure polars, plain dicts in and out."""

from typing import Any

import polars as pl

from jobs.core.keys import range_bounds
from jobs.core.sampling import unit_hashes
from jobs.core.storage import rust_uri, storage_options
from jobs.core.tables import DataFile, scan_files
from jobs.core.windows import composes_filter, evaluation_filter
from jobs.evidence.users import distinct_users
from jobs.pages.compose import gets_degraded
from jobs.pages.measure import PAIR, item_relevance
from schemas.logs import DAILY_COUNTS, DAILY_USERS

CURVE = {
    "corpus": pl.String,
    "segment": pl.String,
    "rank": pl.Int32,
    "propensity": pl.Float64,
    "standard_error": pl.Float64,
}
"""Columns of a curve as a task gets it."""


def gather(spec: dict[str, Any]) -> dict[str, Any]:
    """Read one share of the key ranges, keep the queries that can make a page, write their counts.

    spec: counts and users (DataFiles), ranges (first, last), of (how many), run, curve (rows), low and high (users),
    sensitive (query keys), min_impressions (each side), min_relevance, min_items, max_items, degraded_share, limit
    (queries kept), strata, out.
    Returns out, rows (of counts written) and excluded (queries by reason).
    """
    window = _in_ranges(spec) & evaluation_filter(spec["run"])
    users = _read(DAILY_USERS, spec["users"], ["query_key", "salt_id", "user_hash"], window)
    issuers, excluded = eligible(distinct_users(users), spec)
    columns = ["corpus", "locale", *PAIR, "segment", "rank", "impressions", "clicks", "event_day"]
    wanted = window & pl.col("query_key").is_in(issuers["query_key"].implode())
    counts = _read(DAILY_COUNTS, spec["counts"], columns, wanted)
    curve = pl.DataFrame(spec["curve"], schema=CURVE, orient="row")
    named = issuers.join(counts.select("query_key", "corpus", "locale").unique("query_key"), on="query_key")
    found, lacking = offers(by_side(counts), named, curve=curve, spec=spec)
    lacking["too_few_relevant_items"] += issuers.height - named.height
    for name, frame in found.items():
        target = f"{rust_uri(spec['out'])}.{name}.parquet"
        frame.write_parquet(target, storage_options=storage_options(spec["out"]) or None, mkdir=True)
    return {"out": spec["out"], "rows": found["counts"].height, "excluded": excluded | lacking}


def eligible(issuers: pl.DataFrame, spec: dict[str, Any]) -> tuple[pl.DataFrame, dict[str, int]]:
    """Queries whose users lie within [low, high] and that are not sensitive, and how many were left out for what."""
    few, many = pl.col("users_least") < spec["low"], pl.col("users") > spec["high"]
    hidden = pl.col("query_key").is_in(spec["sensitive"])
    kept = issuers.filter(~few & ~many & ~hidden)
    counts = issuers.select(
        sensitive=hidden.sum(), too_few_users=(few & ~hidden).sum(), too_many_users=(many & ~hidden).sum()
    )
    return kept, counts.row(0, named=True)


def by_side(counts: pl.DataFrame) -> pl.DataFrame:
    """Counts of the window by pair, segment, rank and side (`composes`: even event days).

    Grouped by numbers alone: texts take ten times as long.
    """
    no_segments = counts["segment"].null_count() == counts.height
    keys = [*PAIR, *([] if no_segments else ["segment"]), "rank", "composes"]
    sums = counts.with_columns(composes=composes_filter()).group_by(keys).agg(pl.col("impressions", "clicks").sum())
    return sums.with_columns(pl.lit(None, pl.String).alias("segment")) if no_segments else sums


def offers(
    counts: pl.DataFrame, issuers: pl.DataFrame, *, curve: pl.DataFrame, spec: dict[str, Any]
) -> tuple[dict[str, pl.DataFrame], dict[str, int]]:
    """Frames `counts` (pairs that a page may show) and `queries` (those with enough relevant items).

    counts: `by_side`. issuers: query_key, corpus, locale, users. Counts come sorted, so that sums of floating-point
    numbers are the same in every run.
    At most `limit` queries are kept, by the same hash that samples them: no more can reach the sample of a store.
    Returns also how many queries were left out for what.
    """
    seen = counts.join(_seen_on_both_sides(counts, spec["min_impressions"]), on=PAIR, how="semi")
    placed = seen.join(issuers.select("query_key", "corpus", "locale"), on="query_key")
    relevance = _even_relevance(placed, curve)
    possible = issuers.join(_queries_with(relevance, spec), on="query_key").sort("query_key")
    kept = possible if spec["strata"] else _first_drawn(possible, spec["limit"])
    lacking = {
        "too_few_relevant_items": issuers.height - possible.height,
        "not_sampled": possible.height - kept.height,
    }
    wanted = _of_a_page(relevance.join(kept, on="query_key", how="semi"), spec)
    chosen = placed.join(wanted, on=PAIR, how="semi").sort(*PAIR, "segment", "rank", "composes")
    return {"counts": chosen, "queries": kept}, lacking


def _of_a_page(relevance: pl.DataFrame, spec: dict[str, Any]) -> pl.DataFrame:
    """Pairs that a page may show: the best relevant items; of queries that get a degraded page all, as stand-ins."""
    degraded = pl.Series(gets_degraded(relevance["query_key"], share=spec["degraded_share"]))
    place = pl.col("relevance").rank("ordinal", descending=True).over("query_key")
    best = (pl.col("relevance") >= spec["min_relevance"]) & (place <= spec["max_items"])
    return relevance.filter(degraded | best).select(PAIR)


def _even_relevance(seen: pl.DataFrame, curve: pl.DataFrame) -> pl.DataFrame:
    mine = pl.col("corpus")
    parts = [
        item_relevance(seen.filter(mine == corpus, "composes"), curve=curve.filter(mine == corpus))
        for corpus in seen["corpus"].unique().sort()
    ]
    return (
        pl.concat(parts) if parts else pl.DataFrame(schema={**dict.fromkeys(PAIR, pl.Int64), "relevance": pl.Float64})
    )


def _first_drawn(queries: pl.DataFrame, limit: int) -> pl.DataFrame:
    draw = unit_hashes(queries["query_key"].to_numpy())
    return queries[sorted(draw.argsort()[:limit])]


def _read(table: Any, files: list[DataFile], columns: list[str], keep: pl.Expr) -> pl.DataFrame:
    needed = list(dict.fromkeys([*columns, "query_key", "event_day", "arrival_day"]))
    return scan_files(table, files, columns=needed).filter(keep).select(columns).collect()


def _in_ranges(spec: dict[str, Any]) -> pl.Expr:
    bounds = range_bounds(ranges=spec["of"])
    low, high = bounds[spec["ranges"][0]][0], bounds[spec["ranges"][1]][1]
    return (pl.col("query_key") >= low) & (pl.col("query_key") <= high)


def _seen_on_both_sides(counts: pl.DataFrame, least: int) -> pl.DataFrame:
    sides = counts.group_by(PAIR).agg(
        even=pl.col("impressions").filter("composes").sum(), odd=pl.col("impressions").filter(~pl.col("composes")).sum()
    )
    return sides.filter((pl.col("even") >= least) & (pl.col("odd") >= least)).select(PAIR)


def _queries_with(relevance: pl.DataFrame, spec: dict[str, Any]) -> pl.DataFrame:
    relevant = relevance.filter(pl.col("relevance") >= spec["min_relevance"])
    return relevant.group_by("query_key").len().filter(pl.col("len") >= spec["min_items"]).select("query_key")
