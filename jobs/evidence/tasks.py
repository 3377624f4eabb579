"""What a Spark task of the evidence step does: one key range from daily counts to a staged file of evidence rows."""

from typing import Any

import polars as pl

from jobs.core.sensitive import is_sensitive
from jobs.core.tables import scan_files, stage
from jobs.evidence.relevance import Prior
from jobs.evidence.sums import CurveErrors, CurveValues, pair_sums
from jobs.evidence.users import distinct_users
from jobs.evidence.window import How, prior_of, with_relevance
from jobs.propensity.reading import collected
from schemas.catalog import table

_COUNTS = ["query_key", "item_key", "rank", "event_day", "impressions", "clicks", "interaction"]
_USERS = ["query_key", "salt_id", "user_hash"]


def fit_prior_range(spec: dict[str, Any]) -> dict[str, Any]:
    """Spark task: the shrinkage prior, from the queries of one key range (keys are hashes, so a range is a sample)."""
    rows, _ = kept_rows(spec)
    return vars(prior_of(rows, kind=spec["how"].prior_kind))


def build_range(spec: dict[str, Any]) -> dict[str, Any]:
    """Spark task: sum one key range, keep queries with enough users, debias, add texts, write one file below the table.

    Returns the staged file (null where nothing was kept) and counts of what was kept and what was left out.
    """
    rows, dropped = kept_rows(spec)
    prior = Prior(**spec["prior"]) if spec["prior"] else prior_of(rows, kind=spec["how"].prior_kind)
    ready = with_texts(with_relevance(rows, prior=prior, how=spec["how"]), spec)
    partition = {"run": spec["run"].key, "corpus": spec["corpus"]}
    staged = stage(spec["table_uri"], table("evidence"), ready, partition=partition) if ready.height else None
    counts = {"rows": ready.height, "queries": ready["query_key"].n_unique(), "impressions": ready["impressions"].sum()}
    return {"staged": staged.as_dict() if staged else None, "prior": vars(prior), **counts, **dropped}


def kept_rows(spec: dict[str, Any]) -> tuple[pl.DataFrame, dict[str, int]]:
    """Sums of the range's queries that may be shown, with their users, and how many queries were left out and why.

    Rare queries (fewer than `min_users` issuers for sure) and sensitive ones are only counted.
    """
    curve, errors = curve_maps(spec["curve"])
    how: How = spec["how"]
    segmented = how.by_segment or any(segment is not None for segment, _ in curve)
    columns = [*_COUNTS, *(["segment"] if segmented else [])]
    counts = collected(spec, "daily_counts", columns=columns)
    sums = pair_sums(
        counts, curve=curve, errors=errors, by_segment=how.by_segment, inverse=how.inverse, floor=how.floor
    )
    users = distinct_users(collected(spec, "daily_users", columns=_USERS))
    enough = users.filter(pl.col("users_least") >= how.min_users).drop("users_least")
    texts = query_texts(spec).filter(is_sensitive(tuple(spec["sensitive"]))).select("query_key")
    known = sums.join(enough, on="query_key", how="inner", maintain_order="left")
    rows = known.join(texts, on="query_key", how="anti", maintain_order="left") if texts.height else known
    seen = sums["query_key"].n_unique()
    kept, open_ = known["query_key"].n_unique(), rows["query_key"].n_unique()
    return rows, {"dropped_rare": seen - kept, "dropped_sensitive": kept - open_, "count_rows": counts.height}


def curve_maps(entries: list[tuple]) -> tuple[CurveValues, CurveErrors]:
    """(segment, rank, examination, error factors) rows as the two lookups of the window sum."""
    values = {(segment, rank): p for segment, rank, p, _ in entries}
    return values, {(segment, rank): tuple(factors) for segment, rank, _, factors in entries if any(factors)}


def query_texts(spec: dict[str, Any]) -> pl.DataFrame:
    """(query_key, locale, query) of the range."""
    low, high = spec["range"]
    rows = scan_files(table("queries"), spec["queries"], columns=["query_key", "locale", "query"])
    return rows.filter(pl.col("query_key").is_between(low, high)).unique("query_key").collect()


def with_texts(rows: pl.DataFrame, spec: dict[str, Any]) -> pl.DataFrame:
    """The rows with query and item texts, window and curve: the columns of the evidence table in their order."""
    items = scan_files(table("item_keys"), spec["item_keys"], columns=["item_key", "item_id"])
    needed = rows.select(pl.col("item_key").unique())
    items = items.join(needed.lazy(), on="item_key", how="semi").unique("item_key").collect()
    run = spec["run"]
    return (
        rows.join(query_texts(spec), on="query_key", how="left", maintain_order="left")
        .join(items, on="item_key", how="left", maintain_order="left")
        .with_columns(
            pl.lit(run.key).alias("run"),
            pl.lit(spec["corpus"]).alias("corpus"),
            pl.lit(spec["window_start"]).alias("window_start"),
            pl.lit(run.evidence.end).alias("window_end"),
            pl.lit(spec["curve_id"]).alias("curve_id"),
        )
        .select(table("evidence").names)
    )
