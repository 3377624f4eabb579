"""UBI documents (1.3.0, 1.2.0's nested ordinal, OpenSearch's flat mapping and bulk files) to rows as read.

Specification: User Behavior Insights schema 1.3.0; the shapes met are listed in the sources of format "ubi".
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
import polars as pl

from jobs.impressions import reasons
from jobs.impressions.documents import MILLION, READ, Kind
from jobs.impressions.layout import Layout
from jobs.impressions.lines import Line

_BULK = frozenset({"index", "create", "update", "delete"})
_ROW = (
    "line",
    "byte_offset",
    "kind",
    "value",
    "rank",
    "interaction",
    "hits",
    "reason",
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
    "application",
)
_SCHEMA = {name: READ[name] for name in _ROW}


class _Said(NamedTuple):
    """What a document says of items: one of them and its rank, or the listed hits; and why that cannot be used."""

    item: str | None
    rank: int | None
    hits: list[str] | None
    reason: str | None


@dataclass(kw_only=True)
class Tally:
    """What was read: documents, those whose action is declared irrelevant, and every action name seen."""

    documents: int = 0
    ignored: int = 0
    actions: Counter = field(default_factory=Counter)


class UbiReader:
    """Reads lines of one source; keeps the id of a bulk action line for the document after it."""

    def __init__(self, layout: Layout) -> None:
        self._actions = layout.actions
        self._get = {name: getter(path) for name, path in layout.columns.items()}
        self._bulk_id: str | None = None
        self.tally = Tally()

    def read(self, lines: list[Line]) -> pl.DataFrame:
        """Rows as read (documents.READ without the columns that UBI has not); refused ones carry their reason."""
        rows = []
        for line in lines:
            row = self._row(line)
            if row is not None:
                rows.append(row)
        columns = dict(zip(_ROW, zip(*rows, strict=True), strict=True)) if rows else {n: [] for n in _ROW}
        frame = pl.DataFrame(columns, schema=_SCHEMA, strict=False)
        missing = [pl.lit(None, dtype=t).alias(n) for n, t in READ.items() if n not in _SCHEMA]
        return frame.with_columns(missing)

    def _row(self, line: Line) -> tuple | None:
        document, reason = load(line)
        if reason is None and len(document) == 1 and (action := _bulk_action(document)) is not None:
            self._bulk_id = action or None
            return None
        self.tally.documents += 1
        event_id, self._bulk_id = self._bulk_id, None
        if reason is not None:
            return _refused(line, reason)
        document = document.get("_source", document) if "_source" in document else document
        if "action_name" in document:
            return self._event(line, document, event_id)
        if "user_query" in document:
            return self._query(line, document, event_id)
        return _refused(line, _unknown(document))

    def _event(self, line: Line, document: dict, event_id: str | None) -> tuple | None:
        name = document["action_name"]
        role = self._actions.get(name) if isinstance(name, str) else None
        if name is None or name == "":
            return _refused(line, reasons.MISSING_ACTION)
        self.tally.actions[name if isinstance(name, str) else str(name)] += 1
        if role is None:
            self.tally.ignored += 1
            return None
        kind = Kind.IMPRESSION if role == "impression" else Kind.CLICK if role == "click" else Kind.VALUE
        value = round(role * MILLION) if kind is Kind.VALUE else 0
        attributes = document.get("event_attributes")
        attributes = attributes if isinstance(attributes, dict) else {}
        item, item_reason = item_of(self._field("item", document, attributes, "object", "object_id"))
        rank, rank_reason = self._rank(document, attributes)
        if rank is None and rank_reason == reasons.MISSING_RANK and kind is Kind.VALUE:
            rank_reason = None
        said = _Said(item=item, rank=rank, hits=None, reason=item_reason or rank_reason)
        return self._made(line, document, kind, value, said, event_id)

    def _query(self, line: Line, document: dict, event_id: str | None) -> tuple:
        hits, reason = _hits(document.get("query_response_hit_ids"))
        said = _Said(item=None, rank=None, hits=hits, reason=reason)
        return self._made(line, document, Kind.QUERY, 0, said, event_id)

    def _made(self, line: Line, document: dict, kind: Kind, value: int, said: _Said, event_id: str | None) -> tuple:
        get = self._get
        search, _ = item_of(get["page"](document) if "page" in get else document.get("query_id"))
        user = get["user"](document) if "user" in get else document.get("user_id") or document.get("client_id")
        session = get["session"](document) if "session" in get else _session(document)
        query = None
        if kind is Kind.QUERY:
            query = get["query"](document) if "query" in get else document.get("user_query")
        own = get["event"](document) if "event" in get else document.get("event_id")
        time = get["time"](document) if "time" in get else document.get("timestamp")
        arrived = text(get["arrived"](document)) if "arrived" in get else None
        of_query = [self._text(name, document) for name in ("locale", "segment", "ranker", "randomised")]
        place = (line.number, line.offset, int(kind), value, said.rank, None, said.hits, said.reason)
        ids = (text(own) or event_id, search, said.item, text(time), arrived, text(query))
        return (*place, *ids, *of_query, text(user), text(session), text(document.get("application")))

    def _text(self, name: str, document: dict) -> str | None:
        return text(self._get[name](document)) if name in self._get else None

    def _field(self, name: str, document: dict, attributes: dict, outer: str, inner: str) -> Any:
        if name in self._get:
            return self._get[name](document)
        part = attributes.get(outer)
        return part.get(inner) if isinstance(part, dict) else None

    def _rank(self, document: dict, attributes: dict) -> tuple[int | None, str | None]:
        ordinal = self._field("rank", document, attributes, "position", "ordinal")
        if isinstance(ordinal, dict):
            ordinal = ordinal.get("index")
        return whole(ordinal)


def load(line: Line) -> tuple[Any, str | None]:
    """The JSON object of a line, or the reason why there is none."""
    if line.cut:
        return None, reasons.TOO_LONG
    try:
        document = orjson.loads(line.content)
    except orjson.JSONDecodeError:
        return None, _why(line.content)
    return (document, None) if isinstance(document, dict) else (None, reasons.MALFORMED)


def getter(path: str) -> Callable[[dict], Any]:
    """A function that follows a dotted path through objects; None where the path ends early."""
    keys = path.split(".")

    def get(document: dict) -> Any:
        value: Any = document
        for key in keys:
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return value

    return get


def text(value: Any) -> str | None:
    """Text of a scalar (numbers as they are written, booleans as true and false); None for null, empty and nested
    values."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else None


def item_of(value: Any) -> tuple[str | None, str | None]:
    """An id as text: 12345 and "12345" are one item; the reason where it is neither text nor a whole number."""
    if isinstance(value, str):
        return (value, None) if value else (None, None)
    if value is None:
        return None, None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        return None, reasons.BAD_ITEM
    return str(int(value)), None


def whole(value: Any) -> tuple[int | None, str | None]:
    """A place on the page as a whole number, or the reason why it is none."""
    if value is None or value == "":
        return None, reasons.MISSING_RANK
    if isinstance(value, bool):
        return None, reasons.BAD_RANK
    if isinstance(value, float) and value == value and abs(value) < 1e9 and value == int(value):
        return int(value), None
    if isinstance(value, int) and abs(value) < 1e9:
        return value, None
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 10:
        return int(value), None
    return None, reasons.BAD_RANK


def _hits(value: Any) -> tuple[list[str] | None, str | None]:
    if value is None:
        return None, None
    if not isinstance(value, list):
        return None, reasons.BAD_ITEM
    if all(type(v) is str and v for v in value):
        return value, None
    made = [item_of(v)[0] for v in value]
    return (None, reasons.BAD_ITEM) if None in made else (made, None)


def _session(document: dict) -> Any:
    found = document.get("session_id")
    if found:
        return found
    attributes = document.get("event_attributes")
    return attributes.get("session_id") if isinstance(attributes, dict) else None


def _bulk_action(document: dict) -> str | None:
    """The _id of a bulk action line ("" without one); None if this is no action line."""
    (name, body), *_ = document.items()
    if name not in _BULK or not isinstance(body, dict):
        return None
    return text(body.get("_id")) or ""


def _unknown(document: dict) -> str:
    event = "event_attributes" in document or "message_type" in document
    return reasons.MISSING_ACTION if event else reasons.UNKNOWN_DOCUMENT


def _why(content: bytes) -> str:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return reasons.UNDECODABLE
    return reasons.MALFORMED


def _refused(line: Line, reason: str) -> tuple:
    return (line.number, line.offset, None, None, None, None, None, reason, *[None] * 13)
