"""The two frames between a raw file and the canonical impressions: rows as read, and documents that passed the
checks."""

from enum import IntEnum

import polars as pl


class Kind(IntEnum):
    """What a document is: a row of a table that says all, or a UBI query row, impression, click or valued action."""

    ROW = 0
    QUERY = 1
    IMPRESSION = 2
    CLICK = 3
    VALUE = 4


TEXTS = (
    "event_id",
    "search_id",
    "item_id",
    "time",
    "arrived",
    "query",
    "locale",
    "segment",
    "ranker",
    "randomised",
    "user",
    "session",
    "clicked",
    "click_arrived",
    "application",
)

READ = {
    "line": pl.Int64,
    "byte_offset": pl.Int64,
    "kind": pl.Int8,
    "value": pl.Int64,
    "rank": pl.Int64,
    "interaction": pl.Float64,
    "hits": pl.List(pl.String),
    "reason": pl.String,
    **dict.fromkeys(TEXTS, pl.String),
}
"""Rows as read. `rank` counts from the source's own base, `reason` names what the reader already refused. Tables with
typed columns keep Datetime, Boolean and numbers in time, arrived, randomised and clicked."""

_UTC = pl.Datetime("us", "UTC")

DOCUMENT = {
    "file": pl.Int64,
    "line": pl.Int64,
    "byte_offset": pl.Int64,
    "kind": pl.Int8,
    "value": pl.Int64,
    "event_key": pl.Int64,
    "search_id": pl.String,
    "item_id": pl.String,
    "rank": pl.Int32,
    "at": _UTC,
    "arrived_at": _UTC,
    "query_raw": pl.String,
    "query": pl.String,
    "query_key": pl.Int64,
    "locale": pl.String,
    "segment": pl.String,
    "ranker": pl.String,
    "randomised": pl.Boolean,
    "user_key": pl.Int64,
    "session_key": pl.Int64,
    "salt_id": pl.String,
    "clicked": pl.Boolean,
    "click_arrived_at": _UTC,
    "interaction": pl.Int64,
    "hits": pl.List(pl.String),
}
"""A checked document: times in UTC, 1-based ranks, masked and normalised queries, hashed ids, interaction in
millionths.
`file` is the key of the file's URI (keys.key_of), the same in every ingestion."""

REFUSED = {"file": pl.Int64, "line": pl.Int64, "byte_offset": pl.Int64, "reason": pl.String, "detail": pl.String,
           "raw": pl.String}  # fmt: skip
"""A refused row before it gets its run and source."""

PLACE = {"file": pl.Int64, "line": pl.Int64}
"""Where a document stands."""

EVENT = {"event_key": pl.Int64, "contents": pl.UInt64, "arrived_at": _UTC, **PLACE}
"""What an event with an id says, as a hash, for finding ids that stand for two things."""

MILLION = 1_000_000


def empty_documents() -> pl.DataFrame:
    """A frame without rows that has every document column."""
    return pl.DataFrame(schema=DOCUMENT)
