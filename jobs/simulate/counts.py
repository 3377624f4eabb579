"""Days of a world as daily counts and user sets, in memory: no files, no Spark. Columns as those of the stored
tables.
"""

from collections.abc import Iterable
from datetime import date

import numpy as np
import polars as pl

from jobs.simulate.log import Day, draw_day
from jobs.simulate.world import SEGMENTS, World
from schemas.logs import DAILY_COUNTS, DAILY_USERS

SALT = "simulated"


def daily_counts(world: World, *, corpus: str, days: Iterable[date]) -> pl.DataFrame:
    """Columns of `daily_counts` for these event days; clicks arrive with their pages."""
    frames = [_counts(world, draw_day(world, corpus=corpus, day=day)) for day in days]
    return _typed(pl.concat(frames), DAILY_COUNTS.polars())


def daily_users(world: World, *, corpus: str, days: Iterable[date]) -> pl.DataFrame:
    """Columns of `daily_users` for these event days: every issuer; simulated queries stay below the 1,024 kept."""
    frames = [_users(world, draw_day(world, corpus=corpus, day=day)) for day in days]
    return _typed(pl.concat(frames), DAILY_USERS.polars())


def _counts(world: World, day: Day) -> pl.DataFrame:
    part, hits = world.corpora[day.corpus], day.items.shape[1]
    rows = np.repeat(np.arange(day.pages), hits)
    frame = pl.DataFrame({
        "query": day.query[rows].astype(np.int32),
        "item": day.items.ravel(),
        "rank": np.tile(np.arange(1, hits + 1, dtype=np.int32), day.pages),
        "ranker": day.ranker[rows].astype(np.int8),
        "randomised": day.randomised[rows],
        "segment": day.segment[rows],
        "offset": day.arrival_offset[rows],
        "clicked": day.clicked.ravel(),
    })  # fmt: skip
    keys = ["query", "item", "rank", "ranker", "randomised", "segment", "offset"]
    sums = frame.group_by(keys, maintain_order=True).agg(
        impressions=pl.len().cast(pl.Int64), clicks=pl.col("clicked").cast(pl.Int64).sum()
    )
    names = pl.Series([r.name for r in world.rankers]).gather(sums["ranker"].cast(pl.UInt32))
    return sums.select(
        *_head(part.queries, day, sums),
        part.items["item_key"].gather(sums["item"]),
        "rank",
        names.alias("ranker"),
        "randomised",
        (pl.lit(day.day) + pl.duration(days="offset")).cast(pl.Date).alias("arrival_day"),
        "impressions",
        "clicks",
        (pl.col("clicks") * 1_000_000).alias("interaction"),
        segment=_segment(world, sums),
    )


def _segment(world: World, sums: pl.DataFrame) -> pl.Expr:
    if not world.size.segments:
        return pl.lit(None, dtype=pl.String)
    return pl.lit(pl.Series(list(SEGMENTS)).gather(sums["segment"].cast(pl.UInt32)))


def _users(world: World, day: Day) -> pl.DataFrame:
    part = world.corpora[day.corpus]
    frame = pl.DataFrame({"query": day.query, "user": day.user, "offset": day.arrival_offset})
    sets = frame.unique(maintain_order=True)
    return sets.select(
        *_head(part.queries, day, sets),
        (pl.lit(day.day) + pl.duration(days="offset")).cast(pl.Date).alias("arrival_day"),
        pl.lit(SALT).alias("salt_id"),
        pl.Series("user_hash", user_hashes(sets["user"].to_numpy())),
    )


def _head(queries: pl.DataFrame, day: Day, rows: pl.DataFrame) -> list[pl.Expr | pl.Series]:
    return [
        pl.lit(day.day).alias("event_day"),
        pl.lit(day.corpus).alias("corpus"),
        queries["locale"].gather(rows["query"]),
        queries["query_key"].gather(rows["query"]),
    ]


def user_hashes(users: np.ndarray) -> np.ndarray:
    """Spread 64-bit hashes of user numbers (splitmix64)."""
    with np.errstate(over="ignore"):
        z = users.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))).view(np.int64)


def _typed(frame: pl.DataFrame, schema: dict) -> pl.DataFrame:
    return frame.select([pl.col(name).cast(dtype) for name, dtype in schema.items()])
