"""A day as UBI 1.3.0 documents: query rows with their listed hits, clicks, and explicit impression events of some
traffic.

Documents are built as text, column by column, since a day may hold a million of them. A frame of lines has columns
line, kind (what it is), arrived (ms since 1970: when it reached the log store), forms (unusual but valid shape, or
null) and late (it arrives on a later day).
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime

import numpy as np
import orjson
import polars as pl

from jobs.simulate.log import Day, pages_frame
from jobs.simulate.world import World, corpus_seed

APPLICATIONS = ("music-app", "music-web")
RANK_BASE = {"music-app": 0, "music-web": 1, "default": 1}
"""Ordinals of the app count from 0, those of the web page from 1."""

EXPLICIT_SHARE = 0.04
"""Traffic whose client reports what was displayed: 16 hits are listed, the first places of them come into view."""

DISPLAYED = 8
LATE_CLICK_SHARE = 0.01
FORM_SHARES = {"time_epoch_ms": 0.02, "time_plus_0000": 0.02, "time_without_offset": 0.02}
NESTED_SHARE = 0.05
PERSONAL_SHARE = 0.0005
TYPED_SHARES = (0.85, 0.1, 0.05)  # as normalised, capitalised, with odd blanks
_DAY_MS = 86_400_000
_LATEST_OFFSET = 3


@dataclass(frozen=True, kw_only=True)
class Actions:
    """Clicks and explicit impressions of a day, one row each: page (index into the day), place (0-based), when and
    arrival.
    """

    page: np.ndarray
    place: np.ndarray
    when: np.ndarray
    arrived: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A day with what its clients add: pages that report what they display, and actions (ms of the day)."""

    day: Day
    explicit: np.ndarray
    clicks: Actions
    impressions: Actions


def midnight_ms(day: date) -> int:
    """Milliseconds since 1970 of the first moment of a UTC day."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)


def line_rng(world: World, drawn: Day, stream: int) -> np.random.Generator:
    """The random stream of one purpose, corpus and day."""
    return np.random.default_rng([*corpus_seed(world.seed, drawn.corpus), stream, drawn.day.toordinal()])


def with_actions(world: World, drawn: Day) -> Drawn:
    """Decide what the clients of a day report."""
    rng = line_rng(world, drawn, 3)
    explicit = rng.random(drawn.pages) < EXPLICIT_SHARE
    seen = drawn.clicked & ~(explicit[:, None] & (np.arange(drawn.clicked.shape[1]) >= DISPLAYED))
    page, place = np.nonzero(seen)
    when = drawn.shown[page] + rng.integers(2_000, 90_000, size=len(page))
    late = (rng.random(len(page)) < LATE_CLICK_SHARE) & (drawn.arrival_offset[page] < _LATEST_OFFSET)
    arrived = np.maximum(drawn.arrived[page], when) + rng.integers(200, 5_000, size=len(page)) + late * _DAY_MS
    return Drawn(
        day=drawn,
        explicit=explicit,
        clicks=Actions(page=page, place=place, when=when, arrived=arrived),
        impressions=_displayed(rng, drawn, np.nonzero(explicit)[0]),
    )


def silent(drawn: Day) -> Drawn:
    """A day none of whose clients reports a click or a display."""
    none = np.zeros(0, dtype=np.int64)
    nothing = Actions(page=none, place=none, when=none, arrived=none)
    return Drawn(day=drawn, explicit=np.zeros(drawn.pages, dtype=bool), clicks=nothing, impressions=nothing)


def _displayed(rng: np.random.Generator, drawn: Day, pages: np.ndarray) -> Actions:
    page = np.repeat(pages, min(DISPLAYED, drawn.items.shape[1]))
    place = np.tile(np.arange(min(DISPLAYED, drawn.items.shape[1])), len(pages))
    when = drawn.shown[page] + 50 + 150 * place
    return Actions(page=page, place=place, when=when, arrived=np.maximum(drawn.arrived[page], when) + 5)


def query_lines(world: World, drawn: Drawn) -> pl.DataFrame:
    """One document per page."""
    day, rng = drawn.day, line_rng(world, drawn.day, 4)
    pages = pages_frame(world, day, rows=np.arange(day.pages))
    typed, personal = _typed(world, day, rng)
    when, form = _times(midnight_ms(day.day) + day.shown, rng)
    frame = pages.with_columns(
        typed, when, _hits(world, day, drawn.explicit), application(day.user), form,
        pl.Series("arrived", midnight_ms(day.day) + day.arrived),
    )  # fmt: skip
    device = pl.concat_str(pl.lit(',"device":"'), "segment", pl.lit('"')) if world.size.segments else pl.lit("")
    line = pl.concat_str(
        pl.lit('{"application":"'), "application", pl.lit('","query_id":"'), "search_id",
        pl.lit('","client_id":"'), "user_id", pl.lit('","session_id":"'), "session_id",
        pl.lit('","timestamp":'), "when", pl.lit(',"arrived_at":"'), iso("arrived"),
        pl.lit('","user_query":'), "typed", pl.lit(',"query_response_id":"r-'), "search_id",
        pl.lit('","query_response_hit_ids":['), "hits",
        pl.lit('],"query_attributes":{"ranker":"'), "ranker", pl.lit('","locale":"'), "locale",
        pl.lit('","randomised":'), pl.col("randomised").cast(pl.String), device, pl.lit("}}"),
    )  # fmt: skip
    forms = pl.when(pl.Series("personal", personal)).then(pl.lit("personal_data_in_query")).otherwise("form")
    late = pl.col("arrived") >= midnight_ms(day.day) + _DAY_MS
    kind = pl.when(pl.Series(drawn.explicit)).then(pl.lit("query_displayed")).otherwise(pl.lit("query"))
    return frame.select(line.alias("line"), kind.alias("kind"), "arrived", forms=forms, late=late)


def action_lines(world: World, drawn: Drawn, *, name: str) -> pl.DataFrame:
    """One document per click or explicit impression (`name`)."""
    actions = drawn.clicks if name == "click" else drawn.impressions
    return event_lines(world, drawn.day, actions, name=name, stream=5 if name == "click" else 6)


def event_lines(
    world: World, day: Day, actions: Actions, *, name: str, stream: int, ids: pl.Series | None = None
) -> pl.DataFrame:
    """Event documents of actions; `ids` are their event ids, unique by default."""
    rng = line_rng(world, day, stream)
    nested = rng.random(len(actions.page)) < NESTED_SHARE
    when, form = _times(midnight_ms(day.day) + actions.when, rng)
    pages = pages_frame(world, day, rows=actions.page)
    frame = pages.select("search_id", "user_id", "session_id").with_columns(
        when,
        application(day.user[actions.page]),
        pl.Series("arrived", midnight_ms(day.day) + actions.arrived),
        _objects(world, day, actions, rng),
        event_ids(day, len(actions.page), mark=name[0]) if ids is None else ids,
        position(actions.place, day.user[actions.page], nested),
    )
    line = pl.concat_str(event_parts(name))
    forms = pl.when(pl.Series(nested)).then(pl.lit("position_nested")).otherwise(form)
    late = pl.col("arrived") >= midnight_ms(day.day) + _DAY_MS
    return frame.select(line.alias("line"), pl.lit(name).alias("kind"), "arrived", forms=forms, late=late)


def event_parts(name: str) -> list[pl.Expr]:
    """The text of an event document from columns application, event_id, search_id, user_id, session_id, when, arrived,
    object and position.
    """
    return [
        pl.lit(f'{{"action_name":"{name}","application":"'), pl.col("application"),
        pl.lit('","event_id":"'), pl.col("event_id"), pl.lit('","query_id":"'), pl.col("search_id"),
        pl.lit('","client_id":"'), pl.col("user_id"), pl.lit('","session_id":"'), pl.col("session_id"),
        pl.lit('","timestamp":'), pl.col("when"), pl.lit(',"arrived_at":"'), iso("arrived"),
        pl.lit('","event_attributes":{"object":{"object_id":'), pl.col("object"),
        pl.lit(',"object_id_field":"item_id"},"position":'), pl.col("position"), pl.lit("}}"),
    ]  # fmt: skip


def iso(column: str) -> pl.Expr:
    """ISO 8601 in UTC with milliseconds from ms since 1970."""
    return pl.col(column).cast(pl.Datetime("ms")).dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")


def application(user: np.ndarray) -> pl.Series:
    """Two in three users sit at the web page, the others at the app."""
    return pl.Series("application", list(APPLICATIONS)).gather((user % 3 > 0).astype(np.uint32))


def position(place: np.ndarray, user: np.ndarray, nested: np.ndarray) -> pl.Series:
    """UBI 1.3.0's flat ordinal, or the nested one of 1.2.0; counted from the application's own base."""
    base = np.array([RANK_BASE[name] for name in APPLICATIONS])[(user % 3 > 0).astype(int)]
    frame = pl.DataFrame({"ordinal": place + base, "nested": nested})
    number = pl.col("ordinal").cast(pl.String)
    deep = pl.concat_str(pl.lit('{"ordinal":{"index":'), number, pl.lit("}}"))
    flat = pl.concat_str(pl.lit('{"ordinal":'), number, pl.lit("}"))
    return frame.select(pl.when("nested").then(deep).otherwise(flat).alias("position")).to_series()


def event_ids(day: Day, n: int, *, mark: str) -> pl.Series:
    """Ids of events, unique over all days, corpora and marks."""
    name = f"e{mark}{day.corpus[0]}{day.day:%y%m%d}-"
    return pl.Series("event_id", np.arange(n)).cast(pl.String).str.replace("^", name)


def id_texts(world: World, corpus: str, *, bare: bool) -> pl.Series:
    """Item ids as JSON: quoted, or (where they are numbers and `bare`) as JSON numbers, as careless clients send
    them.
    """
    ids = world.corpora[corpus].items["item_id"].to_list()
    return pl.Series("object", [i if bare and i.isdigit() else f'"{i}"' for i in ids], dtype=pl.String)


def _objects(world: World, day: Day, actions: Actions, rng: np.random.Generator) -> pl.Series:
    items = day.listed[actions.page, actions.place]
    numbers = rng.random(len(items)) < 0.5
    quoted = id_texts(world, day.corpus, bare=False).gather(items)
    bare = id_texts(world, day.corpus, bare=True).gather(items)
    return (
        pl.DataFrame([quoted.alias("q"), bare.alias("b")])
        .select(pl.when(pl.Series(numbers)).then("b").otherwise("q").alias("object"))
        .to_series()
    )


def _hits(world: World, day: Day, explicit: np.ndarray) -> pl.Series:
    """The listed ids of each page as the inside of a JSON list: the whole list where displays are reported, else the
    page.
    """
    ids = id_texts(world, day.corpus, bare=False)
    shown = [ids.gather(day.listed[:, k]).alias(f"h{k}") for k in range(day.listed.shape[1])]
    hits = day.items.shape[1]
    frame = pl.DataFrame(shown)
    whole = pl.concat_str(frame.columns, separator=",")
    head = pl.concat_str(frame.columns[:hits], separator=",")
    return frame.select(pl.when(pl.Series(explicit)).then(whole).otherwise(head).alias("hits")).to_series()


def _typed(world: World, day: Day, rng: np.random.Generator) -> tuple[pl.Series, np.ndarray]:
    """Query texts as typed, as JSON; and which of them hold an address."""
    texts = world.corpora[day.corpus].queries["query"].to_list()
    forms = [pl.Series([orjson.dumps(f).decode() for f in same]) for same in zip(*map(_spellings, texts), strict=True)]
    chosen = np.searchsorted(np.cumsum(TYPED_SHARES), rng.random(day.pages)).clip(0, 2)
    personal = rng.random(day.pages) < PERSONAL_SHARE
    gathered = [form.gather(day.query).alias(f"f{n}") for n, form in enumerate(forms)]
    frame = pl.DataFrame(gathered).with_columns(pl.Series("chosen", chosen), pl.Series("personal", personal))
    address = pl.concat_str(pl.col("f0").str.head(-1), pl.lit(' for sam.reader@example.org"'))
    typed = (
        pl.when("personal").then(address).when(pl.col("chosen") == 1).then("f1").when(pl.col("chosen") == 2).then("f2")
    )
    return frame.select(typed.otherwise("f0").alias("typed")).to_series(), personal


def _spellings(text: str) -> tuple[str, str, str]:
    """All three normalise to the query itself."""
    return text, text[0].upper() + text[1:], f" {text.replace(' ', '  ', 1)} "


def _times(millis: np.ndarray, rng: np.random.Generator) -> tuple[pl.Series, pl.Series]:
    """Timestamps as JSON values, and the name of the form where it is not the usual one."""
    edges = np.cumsum([*FORM_SHARES.values()])
    form = np.searchsorted(edges, rng.random(len(millis)), side="right")
    frame = pl.DataFrame({"ms": millis.astype(np.int64), "form": form})
    naive = pl.col("ms").cast(pl.Datetime("ms")).dt.strftime("%Y-%m-%dT%H:%M:%S%.3f")
    when = (
        pl.when(pl.col("form") == 0).then(pl.col("ms").cast(pl.String))
        .when(pl.col("form") == 1).then(pl.concat_str(pl.lit('"'), naive, pl.lit('+0000"')))
        .when(pl.col("form") == 2).then(pl.concat_str(pl.lit('"'), naive, pl.lit('"')))
        .otherwise(pl.concat_str(pl.lit('"'), naive, pl.lit('Z"')))
    )  # fmt: skip
    names = pl.Series("form", [*FORM_SHARES, None]).gather(form.astype(np.uint32))
    return frame.select(when.alias("when")).to_series(), names
