"""Documents of whole searches to canonical impressions: one per (search, item, rank), clicks joined, copies counted.

Pure: the result depends on the set of documents alone, not on files, batches or their order. Everything that depends on
what came first is decided by arrival day, so that a backfill that reads a month at once ends where the nights did.
"""

from dataclasses import dataclass
from datetime import timedelta

import polars as pl

from jobs.impressions import reasons
from jobs.impressions.credit import credited, interaction_points, late_with_click
from jobs.impressions.documents import Kind

PLACE = ["arrived_at", "at", "file", "line"]
"""Order in which documents are believed: what arrived first, then what happened first."""

PLACE_KEY = ["search_id", "item_id", "rank"]
"""What makes an impression."""

SEARCH = ("query_raw", "query", "query_key", "locale", "segment", "ranker", "randomised", "user_key", "session_key",
          "salt_id")  # fmt: skip
"""What an impression takes from its query row."""

LATE = ("late_interaction_days", "late_interaction")
"""What later arrival days added to an interaction, and how many days after the impression's arrival they came."""

ROWS = ["search_id", "item_id", "rank", *SEARCH, "shown_at", "arrived_at", "click_arrived_at", "clicked", "interaction",
        *LATE]  # fmt: skip
"""Columns of canonical rows: those of the impressions table that do not depend on source, day or exclusion."""


@dataclass(frozen=True, kw_only=True)
class Joined:
    """Canonical rows, refused documents (file, line, reason) and the fate of the documents of this ingestion.

    `fate` tells of the documents of the context: file, line, and the reason they are refused for now, or null.

    `doubled` (file) are the documents of this ingestion that repeat another.
    accepted + duplicates + refused.height = number of documents that were not marked as context.
    """

    rows: pl.DataFrame
    refused: pl.DataFrame
    fate: pl.DataFrame
    doubled: pl.DataFrame
    accepted: int
    duplicates: int


def join_documents(
    documents: pl.DataFrame, *, shown: str, lateness_days: int, doubted: pl.DataFrame | None = None
) -> Joined:
    """Canonical impressions of the documents (documents.DOCUMENT plus `context`: seen by an earlier ingestion).

    `doubted` (file, line) are documents whose event id another search contradicts (see contradicting_events).
    `shown`: "listed" takes every hit of the query row, "displayed" only explicit impression events, "auto" displayed
    where events that arrived by the query row's arrival day exist, else listed.
    """
    frame = documents.sort(PLACE).with_row_index("n")
    doubted = _conflicts(frame, doubted)
    kept = frame.join(doubted.select("n"), on="n", how="anti") if doubted.height else frame
    rows, more = _flat(kept.filter(pl.col("kind") == Kind.ROW))
    told = kept.filter(pl.col("kind") != Kind.ROW)
    if told.height:
        copies = _copies(told)
        told = told.join(copies, on="n", how="anti")
        more = pl.concat([more, copies])
    searches = _searches(told)
    events, orphans = _matched(told.filter(pl.col("kind") != Kind.QUERY), searches, doubted, lateness_days)
    shown_rows = _shown(searches, events.filter(pl.col("kind") == Kind.IMPRESSION), shown)
    clicked, strays = _clicked(shown_rows, events.filter(pl.col("kind") != Kind.IMPRESSION))
    rows = pl.concat([rows, clicked.select(ROWS)]) if clicked.height else rows
    return _accounted(frame, rows, pl.concat([doubted.select("n", "reason"), orphans, strays]), more)


def _accounted(frame: pl.DataFrame, rows: pl.DataFrame, refused: pl.DataFrame, more: pl.DataFrame) -> Joined:
    own = frame.filter(~pl.col("context")).select("n", "file", "line", "byte_offset")
    lost = own.join(refused, on="n").select("file", "line", "byte_offset", "reason")
    doubled = own.join(more, on="n", how="semi").select("file")
    fate = frame.filter("context").join(refused, on="n", how="left").select("file", "line", "reason")
    accepted = own.height - doubled.height - lost.height
    return Joined(rows=rows, refused=lost, fate=fate, doubled=doubled, duplicates=doubled.height, accepted=accepted)


def _copies(told: pl.DataFrame) -> pl.DataFrame:
    """Numbers of documents that repeat an earlier one in everything but its own id and its place in the files."""
    key = ["kind", "search_id", "item_id", "rank", "at", "query_raw", "interaction", "user_key", "ranker", "locale"]
    body = told.select("n", *key, pl.col("hits").list.join(","))
    return body.filter(~pl.struct(pl.exclude("n")).is_first_distinct()).select("n")


def _conflicts(frame: pl.DataFrame, told: pl.DataFrame | None) -> pl.DataFrame:
    """Documents (n, search_id, reason) that contradict another: one event id with two contents, one search with two
    queries.

    Among those of the first arrival day nobody can tell which is right, so all go; one that comes on a later day goes
    alone, since what it contradicts has already been used.
    """
    events = with_contents(frame.filter(pl.col("event_key").is_not_null()))
    queries = frame.filter(pl.col("query_key").is_not_null())
    found = [
        contradicting(events, by="event_key", what="contents"),
        contradicting(queries, by="search_id", what="query_key"),
    ]
    if told is not None:
        found.append(frame.join(told, on=["file", "line"], how="semi"))
    numbers = pl.concat([f.select("n", "search_id") for f in found]).unique("n")
    return numbers.with_columns(pl.lit(reasons.CONFLICT).alias("reason"))


def with_contents(events: pl.DataFrame) -> pl.DataFrame:
    """Documents with a hash of what an event says, its ids and places apart, and its arrival day."""
    said = pl.struct("kind", "search_id", "item_id", "rank", "at", "query_key", "interaction")
    return events.with_columns(said.hash().alias("contents"))


def contradicting(frame: pl.DataFrame, *, by: str, what: str) -> pl.DataFrame:
    """Rows whose `by` has several values of `what`: all of the first arrival day's if these differ among themselves,
    else only later ones that differ from them."""
    spread = frame.group_by(by).agg(pl.col(what).min().alias("low"), pl.col(what).max().alias("high"))
    doubtful = spread.filter(pl.col("low") != pl.col("high"))
    told = frame.join(doubtful, on=by, how="semi").with_columns(pl.col("arrived_at").dt.date().alias("arrival_day"))
    told = told.with_columns((pl.col("arrival_day") > pl.col("arrival_day").min().over(by)).alias("late"))
    early = pl.col(what).filter(~pl.col("late"))
    split = early.n_unique().over(by) > 1
    other = pl.col(what) != early.first().over(by)
    return told.filter(split | (pl.col("late") & other))


def _flat(frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows that say all: merged by (search, item, rank); a later copy adds its click. The numbers of copies come
    second."""
    if not frame.height:
        return _no_rows(), frame.select("n")
    frame = frame.rename({"at": "shown_at"}).with_columns(late_with_click())
    first = pl.struct("search_id", "item_id", "rank").is_first_distinct()
    more = frame.filter(~first).select("n")
    rows = frame.select(ROWS)
    return (_with_copies(frame, more) if more.height else rows), more


def _with_copies(frame: pl.DataFrame, more: pl.DataFrame) -> pl.DataFrame:
    """Merge only the keys that stand more than once: they are few."""
    key = ["search_id", "item_id", "rank"]
    doubled = frame.join(more, on="n", how="semi").select(key).unique()
    single = frame.join(doubled, on=key, how="anti").select(ROWS)
    return pl.concat([single, merge_rows(frame.join(doubled, on=key, how="semi").select(ROWS))])


def merge_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per (search, item, rank) of canonical rows in the order of belief: the first row's contents, any click.

    A click is known when the first row that tells of it arrived, never before its impression; so is each increase of
    the interaction.
    """
    first = [pl.col(c).first() for c in ROWS if c not in (*PLACE_KEY, "clicked", "interaction", "click_arrived_at",
                                                         *LATE)]  # fmt: skip
    clicked = pl.col("clicked")
    merged = rows.group_by(PLACE_KEY, maintain_order=True).agg(
        *first, clicked.any(), pl.col("click_arrived_at").filter(clicked).min()
    )
    known = pl.max_horizontal("click_arrived_at", "arrived_at")
    merged = merged.with_columns(pl.when(pl.col("clicked")).then(known).alias("click_arrived_at"))
    first = merged.select(*PLACE_KEY, pl.col("arrived_at").dt.date().alias("first"))
    values = credited(interaction_points(rows, by=PLACE_KEY).join(first, on=PLACE_KEY), by=PLACE_KEY)
    return merged.join(values, on=PLACE_KEY, how="left", maintain_order="left").select(ROWS)


def _no_rows() -> pl.DataFrame:
    return pl.DataFrame(schema=_kinds(ROWS))


def _kinds(names: list[str]) -> dict:
    from schemas.logs import IMPRESSIONS

    kinds = IMPRESSIONS.polars()
    return {n: kinds[n] for n in names}


def _searches(frame: pl.DataFrame) -> pl.DataFrame:
    """One row per search with a query row: the first one's fields, and the first non-empty list of hits."""
    queries = frame.filter(pl.col("kind") == Kind.QUERY)
    known = pl.col("hits").filter(pl.col("hits").list.len() > 0)
    return queries.group_by("search_id", maintain_order=True).agg(
        *[pl.col(c).first() for c in SEARCH],
        pl.col("at").first().alias("searched_at"),
        pl.col("arrived_at").first().alias("search_arrived_at"),
        known.first().alias("hits"),
        pl.col("arrived_at").filter(pl.col("hits").list.len() > 0).first().alias("hits_arrived_at"),
    )


def _matched(
    events: pl.DataFrame, searches: pl.DataFrame, doubted: pl.DataFrame, lateness_days: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Events with their search's fields, and (n, reason) of those without a (clear) search, or too late for it."""
    own = ["n", "kind", "search_id", "item_id", "rank", "at", "arrived_at", "interaction"]
    joined = events.select(own).join(searches, on="search_id", how="left", maintain_order="left")
    known = pl.col("searched_at").is_not_null()
    allowed = timedelta(days=lateness_days)
    apart = (pl.col("arrived_at").dt.date() - pl.col("search_arrived_at").dt.date()).abs() > allowed
    unclear = pl.col("search_id").is_in(doubted["search_id"].unique().implode())
    reason = (
        pl.when(~known & unclear)
        .then(pl.lit(reasons.CONFLICT))
        .when(~known)
        .then(pl.lit(reasons.UNKNOWN_SEARCH))
        .when(apart)
        .then(pl.lit(reasons.TOO_LATE))
        .alias("reason")
    )
    joined = joined.with_columns(reason)
    orphans = joined.filter(pl.col("reason").is_not_null()).select("n", "reason")
    return joined.filter(pl.col("reason").is_null()).drop("reason"), orphans


def _shown(searches: pl.DataFrame, events: pl.DataFrame, shown: str) -> pl.DataFrame:
    """Impressions: listed hits of the searches that count as listed, and the explicit events of the others."""
    told = _told(events)
    if shown == "displayed":
        return told
    if not told.height:
        return _listed(searches)
    if shown == "auto":
        early = events.filter(pl.col("arrived_at").dt.date() <= pl.col("hits_arrived_at").dt.date())
        listed = _listed(searches.join(early.select("search_id").unique(), on="search_id", how="anti"))
        near = listed.join(told.select("search_id").unique(), on="search_id", how="semi")
        added = told.join(near.select("search_id", "item_id").unique(), on=["search_id", "item_id"], how="anti")
        return pl.concat([listed, added])
    listed = _listed(searches)
    since = searches.select("search_id", pl.col("hits_arrived_at").dt.date().alias("since"))
    before = told.join(since, on="search_id", maintain_order="left").filter(
        pl.col("since").is_null() | (pl.col("arrived_at").dt.date() < pl.col("since"))
    )
    before = before.drop("since")
    return pl.concat([before, listed.join(before.select(PLACE_KEY), on=PLACE_KEY, how="anti")])


def _listed(searches: pl.DataFrame) -> pl.DataFrame:
    lists = searches.filter(pl.col("hits").list.len() > 0)
    rank = pl.int_ranges(1, pl.col("hits").list.len() + 1, dtype=pl.Int32).alias("rank")
    rows = lists.with_columns(rank).explode("hits", "rank").rename({"hits": "item_id", "searched_at": "shown_at"})
    rows = rows.with_columns(pl.max_horizontal("hits_arrived_at", "shown_at").alias("arrived_at"))
    return rows.filter(pl.col("rank") <= 1000).select("search_id", "item_id", "rank", *SEARCH, "shown_at", "arrived_at")


def _told(events: pl.DataFrame) -> pl.DataFrame:
    """Explicit impressions, one per (search, item, rank); known once both the event and its query row arrived."""
    known = pl.max_horizontal("arrived_at", "search_arrived_at")
    rows = events.with_columns(pl.col("at").alias("shown_at"), known.alias("arrived_at"))
    rows = rows.select("search_id", "item_id", "rank", *SEARCH, "shown_at", "arrived_at")
    return rows.unique(["search_id", "item_id", "rank"], keep="first", maintain_order=True)


def _clicked(rows: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Impressions with their clicks and strongest interaction, and (n, reason) of events on items that were not shown.

    An event names its rank; where that is not among the item's ranks (or is missing), the item's first place takes it.
    Only places that were known on the event's arrival day count (the first ones known, where none was): a place that
    arrives later moves no click away from where earlier nights saw it.
    """
    rows = rows.with_row_index("row")
    places = rows.select("search_id", "item_id", "row", pl.col("rank").alias("place"), known_at="arrived_at")
    pairs = events.select("n", "kind", "search_id", "item_id", "rank", "arrived_at", "interaction")
    pairs = pairs.join(places, on=["search_id", "item_id"], how="left")
    known, told = pl.col("known_at").dt.date(), pl.col("arrived_at").dt.date()
    pairs = pairs.with_columns(known.min().over("n").alias("first_known"))
    in_time = known <= pl.max_horizontal(told, "first_known")
    pairs = pairs.filter(in_time | pl.col("place").is_null())
    exact = (pl.col("rank") == pl.col("place")).fill_null(value=False)
    pairs = pairs.sort(~exact, "place").unique("n", keep="first", maintain_order=True)
    strays = pairs.filter(pl.col("place").is_null()).select("n", pl.lit(reasons.NOT_SHOWN).alias("reason"))
    pairs = pairs.filter(pl.col("place").is_not_null())
    click = pl.col("kind") == Kind.CLICK
    sums = pairs.group_by("row").agg(
        click.any().alias("clicked"),
        pl.max_horizontal("arrived_at", "known_at").filter(click).min().alias("click_arrived_at"),
    )
    points = pairs.filter(pl.col("interaction") > 0).select(
        "row", told.alias("day"), pl.col("interaction").alias("value"), known.alias("first")
    )
    sums = sums.join(credited(points, by=["row"]), on="row", how="left")
    joined = rows.join(sums, on="row", how="left", maintain_order="left").drop("row")
    return joined.with_columns(pl.col("clicked").fill_null(value=False), pl.col("interaction").fill_null(0)), strays
