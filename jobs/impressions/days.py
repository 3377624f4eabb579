"""One event day's impressions to what windows sum: counts and users, without bots. Pure."""

from dataclasses import dataclass

import polars as pl

from jobs.core.keys import FINEST, RANGES, range_bounds, with_item_key
from schemas.logs import DAILY_COUNTS, DAILY_USERS

USERS_KEPT = 1024
"""Smallest user hashes kept per query, event day and arrival day: k-anonymity is exact below, an estimate above
(error 3% at one sigma), and thresholds are far below."""

FINE_ROWS = 8_000
"""Rows of a row group at the least before a day is cut at the finer ranges: smaller ones cost more than they skip."""

BOT_RATE, BOT_QUERIES = "bot_rate", "bot_queries"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Above these a session or user is no reader of result pages; declared per source."""

    impressions_per_session_hour: int
    queries_per_user_day: int


def exclude_bots(rows: pl.DataFrame, *, limits: Limits, bots: pl.DataFrame | None = None) -> pl.DataFrame:
    """Set `excluded` on the rows of sessions and users beyond the limits on this day, null on the others.

    Decided by arrival day: a row is excluded if what had arrived by its own arrival day was beyond the limits, so that
    rows which arrive later never take away what earlier nights counted. `bots` (as `bots_of` gives them) covers the
    whole day where `rows` is a part of it. Rows with neither session nor user cannot be told apart and are never
    excluded.
    """
    found = bots_of(rows, limits=limits) if bots is None else bots
    if not found.height:
        return rows.with_columns(pl.lit(None, pl.String).alias("excluded"))
    frame = rows.with_columns(pl.coalesce("session_key", "user_key").alias("who"))
    for key, reason, name in (
        ("who", BOT_RATE, "fast"),
        ("who", BOT_QUERIES, "busy"),
        ("user_key", BOT_QUERIES, "user"),
    ):
        since = found.filter(pl.col("reason") == reason).select(pl.col("who").alias(key), pl.col("since").alias(name))
        frame = frame.join(since, on=key, how="left", maintain_order="left")
    arrived = pl.col("arrived_at").dt.date()
    busy = (arrived >= pl.col("busy")) | (arrived >= pl.col("user")).fill_null(value=False)
    reason = pl.when(arrived >= pl.col("fast")).then(pl.lit(BOT_RATE)).when(busy).then(pl.lit(BOT_QUERIES))
    return frame.with_columns(reason.alias("excluded")).drop("who", "fast", "busy", "user")


def bots_of(rows: pl.DataFrame, *, limits: Limits) -> pl.DataFrame:
    """Sessions and users beyond the limits: who, reason, since (the arrival day by which they were; date).

    `rows` is a whole day of a source with session_key, user_key, search_id, shown_at and arrived_at.
    """
    seen = rows.select(
        pl.coalesce("session_key", "user_key").alias("who"),
        "user_key",
        "search_id",
        pl.col("shown_at").dt.hour().alias("hour"),
        pl.col("arrived_at").dt.date().alias("day"),
    )
    sessions = seen.filter(pl.col("who").is_not_null()).drop("user_key")
    others = seen.filter(pl.col("user_key").is_not_null() & (pl.col("user_key") != pl.col("who")))
    users = others.select(pl.col("user_key").alias("who"), "search_id", "hour", "day")
    fast = _fast(sessions, limits.impressions_per_session_hour)
    both = pl.concat([sessions, users.select(sessions.columns)], rechunk=True)
    busy = _busy(both, limits.queries_per_user_day)
    return pl.concat([fast, busy])


def _fast(seen: pl.DataFrame, limit: int) -> pl.DataFrame:
    """Those with more impressions in an hour, and the arrival day that brought them beyond it."""
    totals = seen.group_by("who", "hour").len().filter(pl.col("len") > limit)
    daily = seen.join(totals, on=["who", "hour"], how="semi").group_by("who", "hour", "day").len().sort("day")
    beyond = pl.col("len").cum_sum().over("who", "hour") > limit
    return _since(daily.filter(beyond), BOT_RATE)


def _busy(seen: pl.DataFrame, limit: int) -> pl.DataFrame:
    """Those with more searches (counted by hour), each of which counts from its first arrival."""
    rows = seen.group_by("who").len().filter(pl.col("len") > limit)
    searches = seen.join(rows, on="who", how="semi").group_by("who", "hour", "search_id").agg(pl.col("day").min())
    daily = searches.group_by("who", "day").len().sort("day")
    return _since(daily.filter(pl.col("len").cum_sum().over("who") > limit), BOT_QUERIES)


def _since(beyond: pl.DataFrame, reason: str) -> pl.DataFrame:
    return beyond.group_by("who").agg(pl.col("day").min().alias("since")).with_columns(pl.lit(reason).alias("reason"))


def daily_counts(rows: pl.DataFrame) -> pl.DataFrame:
    """Counts of one event day's impressions that are not excluded, as schemas.logs.DAILY_COUNTS, sorted by its columns.

    A click that arrived on another day than its impression counts on its own arrival day, on a row with impressions 0,
    and so does what a later interaction added.
    """
    counted = with_item_key(_counted(rows))
    shown = counted.with_columns(pl.col("arrived_at").dt.date().alias("arrival_day"))
    clicked_on = pl.coalesce("click_arrived_at", "arrived_at").dt.date()
    on_time = clicked_on == pl.col("arrival_day")
    one = shown.select(
        *_IMPLIED,
        *_OWN,
        pl.lit(1, pl.Int64).alias("impressions"),
        (pl.col("clicked") & on_time).cast(pl.Int64).alias("clicks"),
        pl.col("interaction") - pl.col("late_interaction").list.sum().fill_null(0),
    )
    late = [f.select(one.columns) for f in _late(shown, clicked_on, on_time) if f.height]
    sums = pl.concat([one, *late]).group_by(_OWN)
    sums = sums.agg(pl.col(_IMPLIED).first(), pl.col("impressions", "clicks", "interaction").sum())
    return sums.select(DAILY_COUNTS.names).sort(_OWN)


def _counted(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that are not excluded; all of them, without a copy, where none is."""
    return rows if rows["excluded"].null_count() == rows.height else rows.filter(pl.col("excluded").is_null())


_OWN = ["query_key", "item_key", "segment", "rank", "ranker", "randomised", "arrival_day"]
_IMPLIED = ["event_day", "corpus", "locale"]
"""Alike in all rows of a query on one day: a query key is a hash of corpus, locale and query."""


def _late(shown: pl.DataFrame, clicked_on: pl.Expr, on_time: pl.Expr) -> list[pl.DataFrame]:
    """Clicks and increases of interactions that arrived after their impressions, on rows of their own day."""
    nothing = pl.lit(0, pl.Int64)
    clicks = shown.filter(~on_time).with_columns(
        clicked_on.alias("arrival_day"), nothing.alias("impressions"), pl.col("clicked").cast(pl.Int64).alias("clicks"),
        nothing.alias("interaction"),
    )  # fmt: skip
    gains = shown.filter(pl.col("late_interaction").is_not_null()).explode("late_interaction_days", "late_interaction")
    gains = gains.with_columns(
        (pl.col("arrival_day") + pl.duration(days="late_interaction_days")).alias("arrival_day"),
        nothing.alias("impressions"), nothing.alias("clicks"), pl.col("late_interaction").alias("interaction"),
    )  # fmt: skip
    return [clicks, gains]


def daily_users(rows: pl.DataFrame) -> pl.DataFrame:
    """The smallest user hashes per query and arrival day of impressions that are not excluded (DAILY_USERS)."""
    counted = _counted(rows).filter(pl.col("user_key").is_not_null())
    group = ["query_key", "salt_id", "arrival_day"]
    arrival, user = pl.col("arrived_at").dt.date().alias("arrival_day"), pl.col("user_key").alias("user_hash")
    users = counted.select(*_IMPLIED, "query_key", "salt_id", arrival, user).unique([*group, "user_hash"])
    ordered = users.sort("query_key", "user_hash", "salt_id", "arrival_day")
    big = ordered.group_by(group).len().filter(pl.col("len") > USERS_KEPT)
    if big.height:
        place = pl.int_range(pl.len()).over(group)
        ordered = ordered.filter(place < USERS_KEPT)
    return ordered.select(DAILY_USERS.names)


def range_cuts(keys: pl.Series) -> list[int]:
    """Row numbers at which sorted query keys enter the next of the equal key ranges: row groups are cut there."""
    ranges = FINEST if len(keys) >= FINEST * FINE_ROWS else RANGES
    starts = pl.Series([low for low, _ in range_bounds(ranges=ranges)][1:], dtype=pl.Int64)
    places = keys.search_sorted(starts, side="left")
    return sorted({int(p) for p in places if 0 < p < len(keys)})
