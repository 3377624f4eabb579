"""UBI documents (1.3.0, 1.2.0's nested ordinal, OpenSearch's flat mapping and bulk files) to rows as read.

Specification: User Behavior Insights schema 1.3.0; the shapes met are listed in the sources of format "ubi".
"""

import json
import operator
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import orjson
import polars as pl

from jobs.impressions import reasons
from jobs.impressions.documents import MILLION, READ, Kind
from jobs.impressions.layout import Layout
from jobs.impressions.lines import Line
from jobs.impressions.values import (
    column_getter,
    id_text,
    id_texts_of,
    ids_of,
    item_of,
    lists_of,
    rounded,
    texts_of,
    wholes_of,
)

_BULK = frozenset({"index", "create", "update", "delete"})
_NOTHING: dict = {}
_SLICE = 1_000
"""Documents whose values are gathered at once: their objects then still lie in the processor's cache."""


@dataclass(kw_only=True)
class Tally:
    """What was read: documents, those whose action is declared irrelevant, every action name, and what to warn of."""

    documents: int = 0
    ignored: int = 0
    actions: Counter = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


class _Told(NamedTuple):
    """Documents of one sort with their lines and the ids of the bulk lines before them."""

    lines: list[Line]
    documents: list[dict]
    ids: list[str | None]

    def add(self, line: Line, document: dict, event_id: str | None) -> None:
        """Append one document."""
        lines, documents, ids = self
        lines.append(line)
        documents.append(document)
        ids.append(event_id)


class UbiReader:
    """Reads lines of one source, column by column; keeps the id of a bulk action line for the document after it."""

    def __init__(self, layout: Layout) -> None:
        self._actions = layout.actions
        self._get = {name: column_getter(path) for name, path in layout.columns.items()}
        self._bulk_id: str | None = None
        self.tally = Tally()

    def read(self, lines: list[Line]) -> pl.DataFrame:
        """Rows as read (documents.READ); refused ones carry their reason."""
        events: dict[str, list] = defaultdict(list)
        queries: dict[str, list] = defaultdict(list)
        refused: list[tuple[Line, str]] = []
        for start in range(0, len(lines), _SLICE):
            told, asked = self._sorted(lines[start : start + _SLICE], refused)
            self._gather_events(told, events)
            self._gather_queries(asked, queries)
        frames = [_refused(refused)]
        if events["line"]:
            frames.append(_event_rows(events))
        if queries["line"]:
            frames.append(_query_rows(queries))
        whole = pl.concat(frames, how="diagonal").sort("line", maintain_order=True)
        missing = [pl.lit(None, dtype=t).alias(n) for n, t in READ.items() if n not in whole.columns]
        return whole.with_columns(missing)

    def _sorted(self, lines: list[Line], refused: list[tuple[Line, str]]) -> tuple[_Told, _Told]:
        """Events of declared actions and query rows; other documents are refused, bulk action lines are none."""
        events, queries = _Told([], [], []), _Told([], [], [])
        actions, names, bulk_id, seen = self._actions, [], self._bulk_id, 0
        for line in lines:
            document = _parsed(line)
            if type(document) is dict and len(document) == 1 and (action := _bulk_action(document)) is not None:
                bulk_id = action or None
                continue
            seen += 1
            event_id, bulk_id = bulk_id, None
            if type(document) is not dict:
                refused.append((line, _why_none(line)))
                continue
            if "_source" in document:
                document = document["_source"] if isinstance(document["_source"], dict) else document
            name = document.get("action_name")
            if type(name) is str and name in actions:
                names.append(name)
                events.add(line, document, event_id)
            elif "action_name" in document:
                self._set_aside(line, name, refused)
            elif "user_query" in document:
                queries.add(line, document, event_id)
            else:
                refused.append((line, _unknown(document)))
        self._bulk_id = bulk_id
        self.tally.documents += seen
        self.tally.actions.update(names)
        return events, queries

    def _set_aside(self, line: Line, name: Any, refused: list[tuple[Line, str]]) -> None:
        """Refuse an event without an action; count one whose action is declared irrelevant or unknown."""
        if name is None or name == "":
            refused.append((line, reasons.MISSING_ACTION))
            return
        self.tally.actions[name if isinstance(name, str) else str(name)] += 1
        self.tally.ignored += 1

    def _gather_events(self, told: _Told, into: dict[str, list]) -> None:
        documents = told.documents
        attributes = [a if type(a := d.get("event_attributes")) is dict else _NOTHING for d in documents]
        places = self._values("rank", documents) or [_inner(a, "position", "ordinal") for a in attributes]
        into["role"] += [self._actions[d["action_name"]] for d in documents]
        items = self._values("item", documents) or [_inner(a, "object", "object_id") for a in attributes]
        into["item"] += self._exact("item", items, told)
        if "interaction" in self._get:
            into["interaction"] += [_amount(v) for v in self._values("interaction", documents)]
        into["place"] += [p.get("index") if type(p) is dict else p for p in places]
        self._gather(told, into)

    def _gather_queries(self, told: _Told, into: dict[str, list]) -> None:
        into["hits"] += [
            _HITS(exact_document(n.content)) if type(hits) is list and float in set(map(type, hits)) else hits
            for n, hits in zip(told.lines, map(_HITS, told.documents), strict=True)
        ]
        into["query"] += self._values("query", told.documents) or [d.get("user_query") for d in told.documents]
        self._gather(told, into)

    def _gather(self, told: _Told, into: dict[str, list]) -> None:
        """Values of the columns that queries and events share."""
        documents = told.documents
        into["line"] += [n.number for n in told.lines]
        into["byte_offset"] += [n.offset for n in told.lines]
        into["bulk_id"] += told.ids
        for name, column in (("page", "search_id"), ("user", "user"), ("session", "session"), ("event", "event_id")):
            values = self._values(name, documents) or _OWN[name](documents)
            into[column] += self._exact(name, values, told)
        into["time"] += self._values("time", documents) or [d.get("timestamp") for d in documents]
        into["application"] += [d.get("application") for d in documents]
        for name in ("arrived", "locale", "segment", "ranker", "randomised"):
            if name in self._get:
                into[name] += self._values(name, documents)

    def _exact(self, name: str, values: list, told: _Told) -> list:
        """Ids whose numbers a float rounds, read again digit by digit."""
        if float not in set(map(type, values)):
            return values
        get = self._get.get(name) or _OWN[name]
        exact = ([exact_document(n.content)] if rounded(v) else None for n, v in zip(told.lines, values, strict=True))
        return [get(d)[0] if d else v for d, v in zip(exact, values, strict=True)]

    def _values(self, name: str, documents: list[dict]) -> list:
        """Values of a mapped column; an empty list where the source maps none."""
        get = self._get.get(name)
        return get(documents) if get else []


_KINDS = {"impression": Kind.IMPRESSION, "click": Kind.CLICK}
_SHARED = ("time", "application", "arrived", "locale", "segment", "ranker", "randomised")


def _event_rows(columns: dict[str, list]) -> pl.DataFrame:
    roles = columns["role"]
    item, item_reason = ids_of(columns["item"])
    rank, rank_reason = wholes_of(columns["place"])
    frame = _shared_rows(columns).with_columns(
        pl.Series("kind", [int(_KINDS.get(role, Kind.VALUE)) for role in roles], dtype=pl.Int8),
        pl.Series("value", [round(r * MILLION) if type(r) is not str else 0 for r in roles], dtype=pl.Int64),
        item.alias("item_id"),
        rank.alias("rank"),
    )
    if columns["interaction"]:
        frame = frame.with_columns(pl.Series("interaction", columns["interaction"], dtype=pl.Float64))
    needless = (pl.col("kind") == Kind.VALUE) & (rank_reason == reasons.MISSING_RANK)
    why = pl.coalesce(item_reason, pl.when(~needless.fill_null(value=False)).then(rank_reason))
    return frame.with_columns(why.alias("reason"))


def _query_rows(columns: dict[str, list]) -> pl.DataFrame:
    found = [_hits(value) for value in columns["hits"]]
    return _shared_rows(columns).with_columns(
        pl.lit(int(Kind.QUERY), pl.Int8).alias("kind"),
        pl.lit(0, pl.Int64).alias("value"),
        texts_of(columns["query"]).alias("query"),
        lists_of([hits for hits, _ in found]).alias("hits"),
        pl.Series("reason", [reason for _, reason in found], dtype=pl.String),
    )


def _amount(value: Any) -> float | None:
    """A number as it is; what is neither number nor null becomes -1, which the checks refuse."""
    if value is None:
        return None
    return float(value) if type(value) in (int, float) else -1.0


def _shared_rows(columns: dict[str, list]) -> pl.DataFrame:
    numbers = {n: pl.Series(columns[n], dtype=pl.Int64) for n in ("line", "byte_offset")}
    texts = {n: texts_of(columns[n]) for n in _SHARED if columns.get(n)}
    texts |= {n: id_texts_of(columns[n]) for n in ("user", "session")}
    search, _ = ids_of(columns["search_id"])
    event = pl.coalesce(id_texts_of(columns["event_id"]), pl.Series(columns["bulk_id"], dtype=pl.String))
    return pl.DataFrame({**numbers, "search_id": search, **texts}).with_columns(event.alias("event_id"))


def load(line: Line) -> tuple[Any, str | None]:
    """The JSON object of a line, or the reason why there is none."""
    document = _parsed(line)
    return (document, None) if isinstance(document, dict) else (None, _why_none(line))


def _parsed(line: Line) -> Any:
    """What a line holds; None where it is no whole JSON text."""
    try:
        return None if line.cut else orjson.loads(line.content)
    except orjson.JSONDecodeError:
        return None


def _why_none(line: Line) -> str:
    """Why a line holds no JSON object."""
    return reasons.TOO_LONG if line.cut else _why(line.content)


def exact_document(content: bytes) -> dict:
    """The object of a line that could be read, with numbers of any length as they are written."""
    document = json.loads(content, parse_float=Decimal)
    inner = document.get("_source")
    return inner if isinstance(inner, dict) else document


def _inner(attributes: dict, outer: str, name: str) -> Any:
    part = attributes.get(outer)
    return part.get(name) if type(part) is dict else None


def _hits(value: Any) -> tuple[list[str] | None, str | None]:
    if value is None:
        return None, None
    if not isinstance(value, list):
        return None, reasons.BAD_ITEM
    if set(map(type, value)) <= _TEXT and "" not in value:
        return value, None
    made = [item_of(v)[0] for v in value]
    return (None, reasons.BAD_ITEM) if None in made else (made, None)


def _session(document: dict) -> Any:
    found = document.get("session_id")
    if found:
        return found
    attributes = document.get("event_attributes")
    return attributes.get("session_id") if isinstance(attributes, dict) else None


_TEXT = frozenset({str})
_HITS = operator.methodcaller("get", "query_response_hit_ids")
_OWN: dict[str, Callable[[list[dict]], list]] = {
    "page": column_getter("query_id"),
    "user": lambda documents: [d.get("user_id") or d.get("client_id") for d in documents],
    "session": lambda documents: [d.get("session_id") or _session(d) for d in documents],
    "event": column_getter("event_id"),
    "item": column_getter("event_attributes.object.object_id"),
}
"""Where UBI keeps the ids of a document."""


def _bulk_action(document: dict) -> str | None:
    """The _id of a bulk action line ("" without one); None if this is no action line."""
    (name, body), *_ = document.items()
    if name not in _BULK or not isinstance(body, dict):
        return None
    return id_text(body.get("_id")) or ""


def _unknown(document: dict) -> str:
    event = "event_attributes" in document or "message_type" in document
    return reasons.MISSING_ACTION if event else reasons.UNKNOWN_DOCUMENT


def _why(content: bytes) -> str:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return reasons.UNDECODABLE
    return reasons.MALFORMED


def _refused(lines: list[tuple[Line, str]]) -> pl.DataFrame:
    body = {
        "line": [n.number for n, _ in lines],
        "byte_offset": [n.offset for n, _ in lines],
        "reason": [r for _, r in lines],
    }
    return pl.DataFrame(body, schema={n: READ[n] for n in body})
