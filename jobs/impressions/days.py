"""One event day's impressions to what windows sum: counts and users, without bots. Pure."""

from dataclasses import dataclass

import polars as pl

from jobs.core.keys import RANGES, range_bounds, with_item_key
from schemas.logs import DAILY_COUNTS, DAILY_USERS

USERS_KEPT = 1024
"""Smallest user hashes kept per query, event day and arrival day: k-anonymity is exact below, an estimate above
(error 3% at one sigma), and thresholds are far below."""

BOT_RATE, BOT_QUERIES = "bot_rate", "bot_queries"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Above these a session or user is no reader of result pages; declared per source."""

    impressions_per_session_hour: int
    queries_per_user_day: int


def exclude_bots(rows: pl.DataFrame, *, limits: Limits, activity: pl.DataFrame | None = None) -> pl.DataFrame:
    """Set `excluded` on every row of a session or user beyond the limits on this day, null on the others.

    `activity` (columns as `activity_of`) covers the whole day where `rows` is a part of it. Rows with neither session
    nor user cannot be told apart and are never excluded.
    """
    seen = activity_of(rows) if activity is None else activity
    fast = seen.filter(pl.col("impressions") > limits.impressions_per_session_hour).select("who").unique()
    busy = seen.group_by("who").agg(pl.col("searches").sum())
    busy = busy.filter(pl.col("searches") > limits.queries_per_user_day).select("who")
    who = pl.coalesce("session_key", "user_key")
    by_user = pl.col("user_key").is_in(busy["who"].implode())
    reason = (
        pl.when(who.is_in(fast["who"].implode()))
        .then(pl.lit(BOT_RATE))
        .when(by_user | who.is_in(busy["who"].implode()))
        .then(pl.lit(BOT_QUERIES))
    )
    return rows.with_columns(reason.cast(pl.String).alias("excluded"))


def activity_of(rows: pl.DataFrame) -> pl.DataFrame:
    """Impressions and searches per hour of each session (or user): columns who, hour, impressions, searches."""
    who = rows.select(
        pl.coalesce("session_key", "user_key").alias("who"),
        "user_key",
        "search_id",
        pl.col("shown_at").dt.hour().alias("hour"),
    )
    sessions = _activity(who.filter(pl.col("who").is_not_null()))
    others = who.filter(pl.col("user_key").is_not_null() & (pl.col("user_key") != pl.col("who")))
    users = _activity(others.with_columns(pl.col("user_key").alias("who")))
    return pl.concat([sessions, users.with_columns(pl.lit(0, pl.UInt32).alias("impressions"))])


def _activity(rows: pl.DataFrame) -> pl.DataFrame:
    counts = [pl.len().cast(pl.UInt32).alias("impressions"), pl.col("search_id").n_unique().alias("searches")]
    return rows.group_by("who", "hour").agg(counts)


def daily_counts(rows: pl.DataFrame) -> pl.DataFrame:
    """Counts of impressions that are not excluded, as schemas.logs.DAILY_COUNTS, sorted by its sort columns.

    A click that arrived on another day than its impression counts on its own arrival day, on a row with impressions 0.
    """
    counted = with_item_key(rows.filter(pl.col("excluded").is_null()))
    key = [
        "event_day",
        "corpus",
        "locale",
        "segment",
        "query_key",
        "item_key",
        "rank",
        "ranker",
        "randomised",
        "arrival_day",
    ]
    shown = counted.with_columns(pl.col("arrived_at").dt.date().alias("arrival_day"))
    acted_on = pl.coalesce("click_arrived_at", "arrived_at").dt.date()
    on_time = acted_on == pl.col("arrival_day")
    sums = shown.group_by(key).agg(
        pl.len().cast(pl.Int64).alias("impressions"),
        (pl.col("clicked") & on_time).sum().cast(pl.Int64).alias("clicks"),
        pl.col("interaction").filter(on_time).sum().alias("interaction"),
    )
    late = shown.filter(~on_time).with_columns(acted_on.alias("arrival_day"))
    if late.height:
        sums = pl.concat([sums, late.group_by(key).agg(*_late_counts())])
        sums = sums.group_by(key).agg(pl.col("impressions", "clicks", "interaction").sum())
    return sums.select(DAILY_COUNTS.names).sort("query_key", "item_key", *_REST)


_REST = ["locale", "segment", "rank", "ranker", "randomised", "arrival_day"]


def _late_counts() -> list[pl.Expr]:
    return [
        pl.lit(0, pl.Int64).alias("impressions"),
        pl.col("clicked").sum().cast(pl.Int64).alias("clicks"),
        pl.col("interaction").sum(),
    ]


def daily_users(rows: pl.DataFrame) -> pl.DataFrame:
    """The smallest user hashes per query and arrival day of impressions that are not excluded (DAILY_USERS)."""
    counted = rows.filter(pl.col("excluded").is_null() & pl.col("user_key").is_not_null())
    key = ["event_day", "corpus", "locale", "query_key", "salt_id"]
    users = counted.select(
        *key, pl.col("arrived_at").dt.date().alias("arrival_day"), pl.col("user_key").alias("user_hash")
    ).unique()
    ordered = users.sort("query_key", "user_hash", "locale", "salt_id", "arrival_day")
    group = [*key, "arrival_day"]
    big = ordered.group_by(group).len().filter(pl.col("len") > USERS_KEPT)
    if big.height:
        place = pl.int_range(pl.len()).over(group)
        ordered = ordered.filter(place < USERS_KEPT)
    return ordered.select(DAILY_USERS.names)


def range_cuts(keys: pl.Series) -> list[int]:
    """Row numbers at which sorted query keys enter the next of the equal key ranges: row groups are cut there."""
    starts = pl.Series([low for low, _ in range_bounds(ranges=RANGES)][1:], dtype=pl.Int64)
    places = keys.search_sorted(starts, side="left")
    return sorted({int(p) for p in places if 0 < p < len(keys)})
