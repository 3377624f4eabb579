"""What is wrong with real logs, planted in a stated share and counted to the row (kinds of dirty rows, and bots)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from jobs.simulate.lines import Actions, Drawn, action_lines, event_ids, event_lines, line_rng, midnight_ms
from jobs.simulate.log import Day
from jobs.simulate.world import World


@dataclass(frozen=True, kw_only=True)
class Dirt:
    """One kind: lines per page, and what a sound ingestion does with each line."""

    share: float
    expected: str


KINDS = {
    "click_of_unknown_search": Dirt(share=0.002, expected="rejected: unknown_search"),
    "click_of_unseen_item": Dirt(share=0.0005, expected="rejected: not_shown"),
    "conflict": Dirt(share=0.001, expected="rejected: conflict"),
    "exact_copy": Dirt(share=0.004, expected="duplicate"),
    "copy_under_fresh_id": Dirt(share=0.004, expected="duplicate"),
    "no_position": Dirt(share=0.001, expected="rejected: missing_rank"),
    "future": Dirt(share=0.0005, expected="rejected: future"),
    "malformed": Dirt(share=0.001, expected="rejected: malformed"),
    "not_utf8": Dirt(share=0.0005, expected="rejected: undecodable"),
    "empty_query": Dirt(share=0.001, expected="rejected: missing_query"),
    "unknown_action": Dirt(share=0.01, expected="ignored"),
    "bot_query": Dirt(share=0.0, expected="accepted, excluded as bot"),
}

NOT_UTF8 = "NOT UTF-8 "
"""Start of a line that the writer encodes as Latin-1."""

_STREAM = 10


def dirty_lines(world: World, drawn: Drawn) -> pl.DataFrame:
    """All dirty lines of a day: columns as of lines.py. The middle day of a log has one of each kind at least."""
    rng = line_rng(world, drawn.day, _STREAM)
    always = world.size.calendar[len(world.size.calendar) // 2]
    frames = []
    for name, make in _MAKERS.items():
        count = max(int(rng.binomial(drawn.day.pages, KINDS[name].share)), int(drawn.day.day == always))
        if count and len(drawn.clicks.page):
            lines = make(world, drawn, rng, count)
            frames.append(lines.with_columns(pl.lit(name).alias("kind"), forms=pl.lit(None, dtype=pl.String)))
    empty = pl.DataFrame(
        schema={"line": pl.String, "kind": pl.String, "arrived": pl.Int64, "forms": pl.String, "late": pl.Boolean}
    )
    return pl.concat([empty, *frames])


def bot_visit(world: World, drawn: Day) -> Day | None:
    """The pages of a bot on the days on which one comes: hundreds within the hour, never a click."""
    size = world.size
    turn = drawn.day.toordinal() % size.bot_every_days
    if turn != list(world.corpora).index(drawn.corpus):
        return None
    rng, n = line_rng(world, drawn, _STREAM + 1), size.bot_pages
    part = world.corpora[drawn.corpus]
    query = rng.integers(0, len(part.intent_of), size=n)
    ranker = np.zeros(n, dtype=np.int64)
    order = part.orders[0, 0, query]
    listed = np.take_along_axis(part.pool_of(query), order.astype(np.int64), axis=1)
    shown = 3_600_000 * 3 + np.sort(rng.integers(0, 3_000_000, size=n))
    return Day(
        corpus=drawn.corpus, day=drawn.day, first_page=drawn.pages, query=query, ranker=ranker,
        randomised=np.zeros(n, dtype=bool), user=np.full(n, size.users + 1), segment=np.zeros(n, dtype=np.int8),
        shown=shown, arrived=shown + 500, listed=listed, items=listed[:, : size.hits],
        clicked=np.zeros((n, size.hits), dtype=bool),
    )  # fmt: skip


def _some_clicks(drawn: Drawn, rng: np.random.Generator, count: int) -> Actions:
    clicks = drawn.clicks
    chosen = rng.choice(len(clicks.page), size=min(count, len(clicks.page)), replace=False)
    return Actions(
        page=clicks.page[chosen], place=clicks.place[chosen], when=clicks.when[chosen], arrived=clicks.arrived[chosen]
    )


def _ids(drawn: Drawn, count: int, mark: str) -> pl.Series:
    return event_ids(drawn.day, count, mark=mark)


def _clicks(world: World, drawn: Drawn, rng: np.random.Generator, count: int, mark: str) -> pl.DataFrame:
    """Copies of real clicks under event ids of their own."""
    some = _some_clicks(drawn, rng, count)
    ids = _ids(drawn, len(some.page), mark)
    return event_lines(world, drawn.day, some, name="click", stream=_STREAM + 2, ids=ids)


def _unknown_search(world: World, drawn: Drawn, rng: np.random.Generator, count: int) -> pl.DataFrame:
    lines = _clicks(world, drawn, rng, count, "u")
    return lines.with_columns(pl.col("line").str.replace('"query_id":"', '"query_id":"lost-', literal=True))


def _unseen_item(world: World, drawn: Drawn, rng: np.random.Generator, count: int) -> pl.DataFrame:
    lines = _clicks(world, drawn, rng, count, "s")
    return lines.with_columns(pl.col("line").str.replace(r'"object_id":[^,]*,', '"object_id":"never-shown",'))


def _conflict(world: World, drawn: Drawn, rng: np.random.Generator, count: int) -> pl.DataFrame:
    """Pairs of clicks with one id, at rank 2 and at rank 5 of a page that shows both and had neither clicked."""
    untouched = np.nonzero(~drawn.day.clicked.any(axis=1) & ~drawn.explicit & (drawn.day.arrival_offset == 0))[0]
    pages = rng.choice(untouched, size=min(count, len(untouched)), replace=False)
    frames = []
    for place in (1, 4):
        when = drawn.day.shown[pages] + 5_000
        actions = Actions(
            page=pages, place=np.full(len(pages), place), when=when, arrived=drawn.day.arrived[pages] + 6_000
        )
        ids = _ids(drawn, len(pages), "x")
        frames.append(event_lines(world, drawn.day, actions, name="click", stream=_STREAM + 3, ids=ids))
    return pl.concat(frames)


def _exact_copy(world: World, drawn: Drawn, rng: np.random.Generator, count: int) -> pl.DataFrame:
    lines = action_lines(world, drawn, name="click")
    return lines[rng.choice(lines.height, size=min(count, lines.height), replace=False)]


def _fresh_copy(world: World, drawn: Drawn, rng: np.random.Generator, count: int) -> pl.DataFrame:
    return _clicks(world, drawn, rng, count, "f")


def _no_position(world: World, drawn: Drawn, rng: np.random.Generator, count: int) -> pl.DataFrame:
    lines = _clicks(world, drawn, rng, count, "p")
    return lines.with_columns(pl.col("line").str.replace(r'"position":\{.*$', '"position":{}}}'))


def _future(world: World, drawn: Drawn, rng: np.random.Generator, count: int) -> pl.DataFrame:
    some = _some_clicks(drawn, rng, count)
    later = Actions(page=some.page, place=some.place, when=some.when + 9 * 86_400_000, arrived=some.arrived)
    ids = _ids(drawn, len(some.page), "z")
    return event_lines(world, drawn.day, later, name="click", stream=_STREAM + 4, ids=ids)


def _malformed(world: World, drawn: Drawn, rng: np.random.Generator, count: int) -> pl.DataFrame:
    return _clicks(world, drawn, rng, count, "m").with_columns(pl.col("line").str.head(-9))


def _not_utf8(world: World, drawn: Drawn, rng: np.random.Generator, count: int) -> pl.DataFrame:
    lines = _clicks(world, drawn, rng, count, "l")
    spoilt = pl.col("line").str.replace('"application":"', '"application":"mú', literal=True)
    return lines.with_columns(pl.concat_str(pl.lit(NOT_UTF8), spoilt).alias("line"))


def _empty_query(world: World, drawn: Drawn, rng: np.random.Generator, count: int) -> pl.DataFrame:
    del world
    arrived = midnight_ms(drawn.day.day) + np.sort(rng.integers(0, 86_000_000, size=count))
    frame = pl.DataFrame({"n": np.arange(count), "arrived": arrived})
    time = pl.col("arrived").cast(pl.Datetime("ms")).dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
    line = pl.concat_str(
        pl.lit(f'{{"application":"music-web","query_id":"empty-{drawn.day.corpus[0]}{drawn.day.day:%y%m%d}-'), "n",
        pl.lit('","client_id":"u1","timestamp":"'), time, pl.lit('","arrived_at":"'), time,
        pl.lit('","user_query":"  ","query_response_hit_ids":[],"query_attributes":{"ranker":"good","locale":"en"}}'),
    )  # fmt: skip
    return frame.select(
        line.alias("line"), pl.lit("").alias("kind"), "arrived", forms=pl.lit(None, pl.String), late=False
    )


def _unknown_action(world: World, drawn: Drawn, rng: np.random.Generator, count: int) -> pl.DataFrame:
    lines = _clicks(world, drawn, rng, count, "a")
    return lines.with_columns(
        pl.col("line").str.replace('"action_name":"click"', '"action_name":"scroll"', literal=True)
    )


_MAKERS: dict[str, Callable[[World, Drawn, np.random.Generator, int], pl.DataFrame]] = {
    "click_of_unknown_search": _unknown_search,
    "click_of_unseen_item": _unseen_item,
    "conflict": _conflict,
    "exact_copy": _exact_copy,
    "copy_under_fresh_id": _fresh_copy,
    "no_position": _no_position,
    "future": _future,
    "malformed": _malformed,
    "not_utf8": _not_utf8,
    "empty_query": _empty_query,
    "unknown_action": _unknown_action,
}
