"""Pages and cards as judges take them, read from files (formats.md) or from the rows of their tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from jobs.core.errors import InputError
from jobs.core.keys import key_hex, query_key
from jobs.core.normalise import normalise_query
from schemas.pages import CONFIGURATIONS, SETS


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One result of a page; ranks are 1-based."""

    item_id: str
    rank: int
    title: str
    type: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """One result page: what is judged, and what a judgment repeats of it. `query_key` is 16 hexadecimal digits."""

    page_id: str
    query: str
    items: tuple[Item, ...]
    set: str = "other"
    corpus: str = "default"
    locale: str = ""
    query_key: str = ""
    context: Any = None
    system: str | None = None
    instance: int = 0
    configuration: str = "shown"


@dataclass(frozen=True, kw_only=True, slots=True)
class CardRow:
    """One historical query of one item. `row` and `row_unfiltered` are its places in the two cards, or None."""

    item_id: str
    query: str
    similarity: float
    impressions: int
    ctr: float
    relevance: float
    row: int | None
    row_unfiltered: int | None


def page_from(body: Mapping[str, Any]) -> Page:
    """A page from a line of pages.jsonl or a row of the pages table (where items and context are JSON text).

    Only page_id, query and items are needed. Raises InputError naming the page and what is wrong with it.
    """
    name = body.get("page_id")
    if not isinstance(name, str) or not name:
        raise InputError(f"page_id {name!r} of a page is no text: give every page a page_id")
    if not isinstance(body.get("query"), str):
        raise InputError(f"page {name!r}: query is {body.get('query')!r}, give it as text")
    items = _items(name, body.get("items"))
    corpus, locale = body.get("corpus") or "default", body.get("locale") or ""
    return Page(
        page_id=name,
        query=body["query"],
        items=items,
        set=_one_of(name, "set", body.get("set") or "other", SETS),
        corpus=corpus,
        locale=locale,
        query_key=_key(body.get("query_key"), corpus=corpus, locale=locale, query=body["query"]),
        context=_context(body.get("context")),
        system=body.get("system"),
        instance=int(body.get("instance") or 0),
        configuration=_one_of(name, "configuration", body.get("configuration") or "shown", CONFIGURATIONS),
    )


def rows_from(card: Mapping[str, Any], *, top_k: int) -> list[CardRow]:
    """The rows of one line of cards.jsonl, most similar first, with their places in both cards.

    `near_duplicate` rows stand in the unfiltered card only; each card keeps the `top_k` most similar. Rows that give
    no similarity keep their order.
    """
    given = card.get("rows")
    if not isinstance(given, list):
        raise InputError(f"card of item {card.get('item_id')!r}: rows is {given!r:.60}, give a list")
    similarity = [_number(row, "similarity", card) for row in given]
    order = sorted(range(len(given)), key=similarity.__getitem__, reverse=True)
    rows, filtered = [], 0
    for place, n in enumerate(order, start=1):
        row = given[n]
        keeps = not row.get("near_duplicate") and filtered < top_k
        filtered += keeps
        rows.append(
            CardRow(
                item_id=str(card.get("item_id")),
                query=str(row.get("query", "")),
                similarity=similarity[n],
                impressions=int(_number(row, "impressions", card)),
                ctr=_ctr(row, card),
                relevance=_number(row, "relevance", card),
                row=filtered if keeps else None,
                row_unfiltered=place if place <= top_k else None,
            )
        )
    return rows


def row_from_table(row: Mapping[str, Any]) -> CardRow:
    """A card row from a row of the cards table."""
    return CardRow(**{name: row[name] for name in CARD_COLUMNS})


CARD_COLUMNS = ("item_id", "query", "similarity", "impressions", "ctr", "relevance", "row", "row_unfiltered")


def qri_count(rows: Iterable[CardRow]) -> int:
    """Rows of the filtered cards of a page (formats.md)."""
    return sum(row.row is not None for row in rows)


def _items(page: str, given: Any) -> tuple[Item, ...]:
    given = orjson.loads(given) if isinstance(given, str) else given
    if not isinstance(given, list | tuple) or not given:
        raise InputError(f"page {page!r}: items is {given!r:.60}, give a list with at least one item")
    items = [_item(page, place, body) for place, body in enumerate(given, start=1)]
    ids = [item.item_id for item in items]
    if len(set(ids)) != len(ids):
        raise InputError(f"page {page!r} shows an item twice ({ids}): give each item once")
    return tuple(sorted(items, key=lambda item: item.rank))


def _item(page: str, place: int, body: Mapping[str, Any]) -> Item:
    if not isinstance(body, Mapping) or body.get("item_id") is None:
        raise InputError(f"page {page!r}: item {place} is {body!r:.60}, give it an item_id")
    rank = body.get("rank") or place
    if not isinstance(rank, int) or rank < 1:
        raise InputError(f"page {page!r}: rank {rank!r} of item {body['item_id']!r} is no number from 1 on")
    return Item(
        item_id=str(body["item_id"]),
        rank=rank,
        title=str(body.get("title") or ""),
        type=str(body.get("type") or ""),
        metadata=body.get("metadata") or {},
    )


def _context(given: Any) -> Any:
    """Contexts are JSON in the table and plain values in files; text that is no JSON is itself."""
    if isinstance(given, str):
        try:
            return orjson.loads(given)
        except orjson.JSONDecodeError:
            return given
    return given


def _key(given: Any, *, corpus: str, locale: str, query: str) -> str:
    if isinstance(given, int):
        return key_hex(given)
    return given or key_hex(query_key(corpus, locale, normalise_query(query, locale=locale)))


def _one_of(page: str, name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise InputError(f"page {page!r}: {name} {value!r} is not one of {', '.join(allowed)}")
    return value


def _number(row: Mapping[str, Any], name: str, card: Mapping[str, Any]) -> float:
    value = row.get(name)
    if value.__class__ is float or value.__class__ is int:
        return value
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"card of page {card.get('page_id')!r}, item {card.get('item_id')!r}: {name} is {value!r}")
    return value


def _ctr(row: Mapping[str, Any], card: Mapping[str, Any]) -> float:
    if row.get("ctr") is not None:
        return _number(row, "ctr", card)
    impressions = _number(row, "impressions", card)
    return _number(row, "clicks", card) / impressions if impressions else 0.0
