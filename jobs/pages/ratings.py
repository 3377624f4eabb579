"""Rows of a label file as ratings: one place reads columns, scales and skipped rows, whatever the file's kind."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from jobs.core.normalise import normalise_query
from jobs.pages.labelmap import LabelMap, as_number


@dataclass(frozen=True, kw_only=True)
class Rating:
    """One row: a page's or an item's label by one rater; `label` is None where the row rates nothing."""

    corpus: str
    locale: str
    query: str
    context: Any
    page: str
    items: tuple[dict[str, Any], ...]
    position: float
    label: float | None
    rater: str

    @property
    def normalised(self) -> str:
        """The normalised query, by which pages are told apart."""
        return normalise_query(self.query, locale=self.locale)


@dataclass(kw_only=True)
class Ratings:
    """Accepted rows, and how many were refused for which reason; rows_in = len(rows) + sum(rejected.values())."""

    rows: list[Rating] = field(default_factory=list)
    rejected: dict[str, int] = field(default_factory=dict)
    skipped: int = 0

    def refuse(self, reason: str) -> None:
        """Count one refused row."""
        self.rejected[reason] = self.rejected.get(reason, 0) + 1


def parse_ratings(rows: Iterable[tuple[int, dict[str, Any] | str]], *, label_map: LabelMap) -> Ratings:
    """Ratings from the numbered rows of a file. Refused are rows without query or item, and labels off the scale."""
    found = Ratings()
    for _, row in rows:
        rating = "no_json" if isinstance(row, str) else _rating(row, label_map)
        if isinstance(rating, str):
            found.refuse(rating)
        else:
            found.rows.append(rating)
            found.skipped += not isinstance(row, str) and _skipped(row, label_map)
    return found


def _rating(row: dict[str, Any], label_map: LabelMap) -> Rating | str:
    names = label_map.columns
    locale = _text(row, names.locale) or label_map.locale
    query = _text(row, names.query)
    items = _items(row, label_map)
    if not normalise_query(query, locale=locale):
        return "no_query"
    if not items:
        return "no_item"
    label = _label(row, label_map)
    if isinstance(label, str):
        return label
    position = as_number(_value(row, names.rank))
    return Rating(
        corpus=_text(row, names.corpus) or label_map.corpus,
        locale=locale,
        query=query,
        context=_value(row, names.context),
        page=_text(row, names.page),
        items=items,
        position=float("inf") if position is None else position,
        label=label,
        rater=_text(row, names.rater),
    )


def _label(row: dict[str, Any], label_map: LabelMap) -> float | str | None:
    written = _value(row, label_map.columns.label)
    if written is None or _skipped(row, label_map):
        return "no_label" if label_map.kind == "pages" else None
    value = label_map.value_of(written)
    return "label_off_scale" if value is None else value


def _skipped(row: dict[str, Any], label_map: LabelMap) -> bool:
    return any(_text(row, skip.column) == skip.value for skip in label_map.skip)


def _items(row: dict[str, Any], label_map: LabelMap) -> tuple[dict[str, Any], ...]:
    names = label_map.columns
    if names.item:
        item_id = _text(row, names.item)
        metadata = {name: _text(row, name) for name in names.metadata if _text(row, name)}
        item = {
            "item_id": item_id,
            "title": _text(row, names.title),
            "type": _text(row, names.type),
            "metadata": metadata,
        }
        return (item,) if item_id else ()
    listed = _value(row, names.items)
    if isinstance(listed, str):
        listed = _split(listed, label_map.separator)
    items = tuple(_item(one) for one in listed if one) if isinstance(listed, list | tuple) else ()
    return items if all(item["item_id"] for item in items) else ()


def _split(text: str, separator: str) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except ValueError:
            return []
    return [part.strip() for part in text.split(separator) if part.strip()]


def _item(one: Any) -> dict[str, Any]:
    body = one if isinstance(one, dict) else {"item_id": one}
    return {**body, "item_id": str(body.get("item_id", ""))}


def _value(row: dict[str, Any], path: str) -> Any:
    """The value at a dotted path, None where it is missing or an empty text; a column of that very name goes first."""
    value = row.get(path) if path in row else _walk(row, path)
    return None if value == "" else value


def _walk(row: dict[str, Any], path: str) -> Any:
    value: Any = row
    for name in path.split(".") if path else [""]:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(row: dict[str, Any], path: str) -> str:
    value = _value(row, path)
    return "" if value is None else str(value)
