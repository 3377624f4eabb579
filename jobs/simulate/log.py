"""What happens on the simulated service in one day: pages drawn, looked at and clicked by the position-based model.

Everything is arrays; a day of millions of impressions takes a second. A day depends on the seed, the corpus and its
date alone, so days can be drawn in any order.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime

import numpy as np
import polars as pl

from jobs.simulate.world import PHONE_SHARE, SEGMENTS, World, corpus_seed

LATE_SHARE = 0.01
"""Pages whose rows reach the log store a day or two after they were shown."""

_HOURLY = np.array([3, 2, 1, 1, 1, 2, 4, 6, 7, 7, 7, 8, 9, 8, 8, 8, 9, 11, 13, 14, 14, 12, 9, 5], dtype=np.float64)
_MILLIS = 86_400_000


@dataclass(frozen=True, kw_only=True)
class Day:
    """One corpus and event day. By page [n]: query, ranker, randomised, user, segment, shown (ms of the day), arrived
    (ms after midnight of the event day). By page and rank [n, hits]: items (indices) and clicked. `listed` [n, POOL]:
    the whole list that the ranker made, of which the page shows the head.
    """

    corpus: str
    day: date
    first_page: int
    query: np.ndarray
    ranker: np.ndarray
    randomised: np.ndarray
    user: np.ndarray
    segment: np.ndarray
    shown: np.ndarray
    arrived: np.ndarray
    listed: np.ndarray
    items: np.ndarray
    clicked: np.ndarray

    @property
    def pages(self) -> int:
        """Number of pages."""
        return len(self.query)

    @property
    def arrival_offset(self) -> np.ndarray:
        """Days between event day and arrival day, by page."""
        return (self.arrived // _MILLIS).astype(np.int32)


def draw_day(world: World, *, corpus: str, day: date) -> Day:
    """All pages of one corpus and day, in the order in which they were shown."""
    rng = np.random.default_rng([*corpus_seed(world.seed, corpus), 2, day.toordinal()])
    part, n = world.corpora[corpus], world.size.pages_on(day, corpus=corpus)
    query = np.searchsorted(np.cumsum(part.weights), rng.random(n), side="right").clip(0, len(part.weights) - 1)
    ranker = np.searchsorted(np.cumsum([r.share for r in world.rankers]), rng.random(n)).clip(0, len(world.rankers) - 1)
    randomised = rng.random(n) < np.array([r.randomised for r in world.rankers])[ranker]
    order = part.orders[ranker, rng.integers(part.orders.shape[1], size=n), query]
    order[randomised] = rng.permuted(order[randomised], axis=1)
    segment = (rng.random(n) < PHONE_SHARE).astype(np.int8) if world.size.segments else np.zeros(n, dtype=np.int8)
    shown = _times(rng, n)
    places = order[:, : world.size.hits].astype(np.int64)
    chance = np.take_along_axis(part.relevance[query], places, axis=1) * part.examination[segment]
    listed = np.take_along_axis(part.pool_of(query), order.astype(np.int64), axis=1)
    return Day(
        corpus=corpus, day=day, first_page=0, query=query, ranker=ranker, randomised=randomised,
        user=_users(rng, n, world.size.users), segment=segment, shown=shown, arrived=_arrivals(rng, shown),
        listed=listed, items=listed[:, : world.size.hits],
        clicked=rng.random(chance.shape, dtype=np.float32) < chance,
    )  # fmt: skip


def day_log(world: World, day: date, *, corpora: tuple[str, ...] | None = None) -> pl.DataFrame:
    """Impressions of one day as a frame (columns of `impressions_frame`), corpora one after the other."""
    names = corpora or tuple(world.corpora)
    return pl.concat([impressions_frame(world, draw_day(world, corpus=name, day=day)) for name in names])


def impressions_frame(world: World, drawn: Day, *, rows: np.ndarray | None = None) -> pl.DataFrame:
    """One row per shown item: search_id, corpus, locale, query, item_id, rank, ranker, randomised, segment, user_id,
    session_id, clicked, shown_at, arrived_at (UTC). `rows` picks pages by index; default all.
    """
    rows = np.arange(drawn.pages) if rows is None else rows
    part, hits = world.corpora[drawn.corpus], drawn.items.shape[1]
    pages = pages_frame(world, drawn, rows=rows)
    items = part.items["item_id"].gather(drawn.items[rows].ravel())
    return pages[np.repeat(np.arange(len(rows)), hits)].with_columns(
        items.alias("item_id"),
        pl.Series("rank", np.tile(np.arange(1, hits + 1, dtype=np.int32), len(rows))),
        pl.Series("clicked", drawn.clicked[rows].ravel()),
    )


def pages_frame(world: World, drawn: Day, *, rows: np.ndarray) -> pl.DataFrame:
    """The page's own columns, one row per page of `rows`."""
    part = world.corpora[drawn.corpus]
    texts = part.queries.select("locale", "query")[drawn.query[rows]]
    users = pl.Series("user", drawn.user[rows])
    segments = pl.Series("segment", list(SEGMENTS)).gather(drawn.segment[rows].astype(np.uint32))
    return texts.select(
        search_ids(drawn, rows=rows),
        pl.lit(drawn.corpus).alias("corpus"),
        "locale",
        "query",
        pl.Series("ranker", [r.name for r in world.rankers]).gather(drawn.ranker[rows].astype(np.uint32)),
        pl.Series("randomised", drawn.randomised[rows]),
        segments if world.size.segments else pl.lit(None, dtype=pl.String).alias("segment"),
        user_ids(users).alias("user_id"),
        session_ids(users, drawn.day).alias("session_id"),
        at(drawn.day, drawn.shown[rows]).alias("shown_at"),
        at(drawn.day, drawn.arrived[rows]).alias("arrived_at"),
    )


def search_ids(drawn: Day, *, rows: np.ndarray) -> pl.Series:
    """Ids of pages, unique over all days and corpora."""
    name = f"{drawn.corpus[0]}{drawn.day:%y%m%d}-"
    return (pl.Series("search_id", rows + drawn.first_page).cast(pl.String).str.zfill(7)).str.replace("^", name)


def user_ids(users: pl.Series) -> pl.Series:
    """Ids of users by number."""
    return users.cast(pl.String).str.replace("^", "u")


def session_ids(users: pl.Series, day: date) -> pl.Series:
    """A user's searches of one day are one session."""
    return user_ids(users) + f"-{day:%y%m%d}"


def at(day: date, millis: np.ndarray) -> pl.Series:
    """UTC times from milliseconds after midnight of `day`."""
    midnight = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
    return pl.Series("at", millis.astype(np.int64) + midnight).cast(pl.Datetime("ms", "UTC"))


def _times(rng: np.random.Generator, n: int) -> np.ndarray:
    """Sorted times of day in ms, by the hourly profile of an evening service."""
    edges = np.concatenate([[0.0], np.cumsum(_HOURLY) / _HOURLY.sum()])
    hours = np.interp(rng.random(n), edges, np.arange(25.0))
    return np.sort((hours / 24 * _MILLIS).astype(np.int64).clip(0, _MILLIS - 1))


def _arrivals(rng: np.random.Generator, shown: np.ndarray) -> np.ndarray:
    prompt = shown + rng.integers(200, 60_000, size=len(shown))
    late = rng.random(len(shown)) < LATE_SHARE
    return prompt + np.where(late, rng.integers(1, 3, size=len(shown)), 0) * _MILLIS


def _users(rng: np.random.Generator, n: int, population: int) -> np.ndarray:
    """Users are unequally active: the busiest tenth makes a fifth of the searches."""
    return (rng.random(n) ** 1.45 * population).astype(np.int64)
