"""Human labels as pages of the set `human`: raters are averaged, item labels become page labels."""

import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from jobs.core.errors import InputError, SettingsError
from jobs.core.keys import key_hex, query_key
from jobs.pages.agreement import agreement
from jobs.pages.files import read_rows
from jobs.pages.labelmap import LabelMap
from jobs.pages.model import content_id
from jobs.pages.ratings import Rating, Ratings, parse_ratings
from jobs.pages.trec import trec_rows


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Pages as lines of pages.jsonl, and a JSON-able summary of what was read, refused and left without a label."""

    pages: list[dict[str, Any]]
    summary: dict[str, Any]


def import_labels(path: Path, *, label_map: LabelMap, folder: Path) -> Imported:
    """Read page or item labels, or TREC qrels with a run; `folder` is where the map's own paths start from.

    Raises InputError if no row can be used.
    """
    if label_map.kind == "trec":
        label_map, rows = _trec(path, label_map, folder)
    else:
        rows = read_rows(path, form=label_map.format)
    ratings = parse_ratings(rows, label_map=label_map)
    if not ratings.rows:
        raise InputError(
            f"{path}: no label could be read (refused: {ratings.rejected}); check the map's columns and scale"
        )
    by_item = bool(label_map.columns.item)
    groups = _grouped(ratings.rows, by_item=by_item)
    pages = [_item_page(rows, label_map) if by_item else _whole_page(rows) for rows in groups]
    return Imported(pages=pages, summary=_summary(ratings, groups, pages, label_map))


def derived_label(items: list[tuple[int, float | None]], *, min_rated_share: float) -> tuple[float | None, float]:
    """A page's label from (rank, label or None) of its items: DCG-weighted mean over the rated ones.

    Returns (label, rated share of the page's weight); the label is None where the share is under `min_rated_share`.
    """
    weights = [(1 / math.log2(rank + 1), label) for rank, label in items]
    total = sum(weight for weight, _ in weights)
    rated = sum(weight for weight, label in weights if label is not None)
    share = rated / total if total else 0.0
    if rated == 0 or share < min_rated_share:
        return None, share
    return sum(weight * label for weight, label in weights if label is not None) / rated, share


def _trec(path: Path, label_map: LabelMap, folder: Path) -> tuple[LabelMap, Any]:
    if not label_map.ranking or not label_map.queries:
        raise SettingsError("a map of kind trec needs `ranking` (a TREC run) and `queries` (texts of the topics)")
    run, topics = folder / label_map.ranking, folder / label_map.queries
    columns = label_map.columns.model_copy(update={"item": "item", "rank": "rank", "label": "label"})
    rows = trec_rows(qrels=path, run=run, topics=topics, depth=label_map.max_items)
    return label_map.model_copy(update={"columns": columns}), rows


def _grouped(rows: list[Rating], *, by_item: bool) -> list[list[Rating]]:
    """Ratings of one page each, in the order of the file."""
    groups: dict[tuple, list[Rating]] = {}
    for row in rows:
        shown = row.page if by_item else _identity(row)
        groups.setdefault((row.corpus, row.locale, row.normalised, shown), []).append(row)
    return list(groups.values())


def _identity(row: Rating) -> str:
    ids = [item["item_id"] for item in _in_rank_order(row.items)]
    return json.dumps([row.page, row.context, ids], sort_keys=True, ensure_ascii=False)


def _item_page(rows: list[Rating], label_map: LabelMap) -> dict[str, Any]:
    """One page from item ratings: ordered by position, then by first place in the file; an item stands once."""
    ordered = sorted(enumerate(rows), key=lambda pair: (pair[1].position, pair[0]))
    first: dict[str, dict[str, Any]] = {}
    for _, row in ordered:
        first.setdefault(row.items[0]["item_id"], row.items[0])
    items = _numbered(list(first.values())[: label_map.max_items or None])
    labels = _item_labels(rows)
    rated = [(item["rank"], labels.get(item["item_id"])) for item in items]
    label, share = derived_label(rated, min_rated_share=label_map.min_rated_share)
    made = {
        "from": "item labels",
        "rated_items": sum(value is not None for _, value in rated),
        "rated_share": round(share, 6),
        "raters": len({row.rater for row in rows if row.label is not None}),
        "item_labels": {item: round(value, 6) for item, value in labels.items() if item in first},
    }
    return _page(rows, items, label, "derived", made)


def _whole_page(rows: list[Rating]) -> dict[str, Any]:
    items = _numbered(_once(_in_rank_order(rows[0].items)))
    by_rater = _means_by(rows, lambda row: row.rater)
    made = {"from": "page labels", "raters": len(by_rater), "labels": by_rater}
    return _page(rows, items, fmean(by_rater.values()), "page", made)


def _page(rows: list[Rating], items: list[dict], label: float | None, source: str, made: dict) -> dict[str, Any]:
    first = rows[0]
    context = next((row.context for row in rows if row.context is not None), None)
    key = key_hex(query_key(first.corpus, first.locale, first.normalised))
    return {
        "page_id": f"human-{key}-{content_id([item['item_id'] for item in items], context, first.page)}",
        "set": "human",
        "corpus": first.corpus,
        "locale": first.locale,
        "query_key": key,
        "query": first.query,
        "context": context,
        "system": None,
        "instance": 0,
        "configuration": "shown",
        "items": items,
        "truth": None,
        "truth_standard_error": None,
        "human_label": label,
        "human_label_source": None if label is None else source,
        "made": made,
    }


def _item_labels(rows: list[Rating]) -> dict[str, float]:
    """Item to the mean over its raters (each rater's own labels averaged first)."""
    by_item: dict[str, list[Rating]] = {}
    for row in rows:
        if row.label is not None:
            by_item.setdefault(row.items[0]["item_id"], []).append(row)
    return {item: fmean(_means_by(found, lambda row: row.rater).values()) for item, found in by_item.items()}


def _means_by(rows: list[Rating], key: Any) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for row in rows:
        if row.label is not None:
            found.setdefault(key(row), []).append(row.label)
    return {name: fmean(values) for name, values in found.items()}


def _in_rank_order(items: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    return [
        item for _, item in sorted(enumerate(items), key=lambda pair: (pair[1].get("rank") or pair[0] + 1, pair[0]))
    ]


def _once(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    first: dict[str, dict[str, Any]] = {}
    for item in items:
        first.setdefault(item["item_id"], item)
    return list(first.values())


def _numbered(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "item_id": item["item_id"],
            "rank": rank,
            "title": str(item.get("title") or ""),
            "type": str(item.get("type") or ""),
            "metadata": {str(k): v for k, v in (item.get("metadata") or {}).items()},
        }
        for rank, item in enumerate(items, start=1)
    ]


def _summary(ratings: Ratings, groups: list[list[Rating]], pages: list[dict], label_map: LabelMap) -> dict[str, Any]:
    units = [unit for rows in groups for unit in _units(rows, by_item=bool(label_map.columns.item))]
    pairs = {(i, item["item_id"]) for i, rows in enumerate(groups) for row in rows for item in row.items}
    unlabelled = Counter("too_little_rated" for page in pages if page["human_label"] is None)
    return {
        "rows_in": len(ratings.rows) + sum(ratings.rejected.values()),
        "rejected": ratings.rejected,
        "skipped_ratings": ratings.skipped,
        "ratings": sum(row.label is not None for row in ratings.rows),
        "pairs": len(pairs),
        "rated_units": len(units),
        "pages": len(pages),
        "queries": len({page["query_key"] for page in pages}),
        "labelled": len(pages) - sum(unlabelled.values()),
        "unlabelled": dict(unlabelled),
        "raters": len({row.rater for row in ratings.rows if row.label is not None}),
        "agreement": agreement(units),
    }


def _units(rows: list[Rating], *, by_item: bool) -> list[list[float]]:
    """The labels of each rated thing (item or page), one a rater."""
    if not by_item:
        return [list(_means_by(rows, lambda row: row.rater).values())]
    found: dict[str, list[Rating]] = {}
    for row in rows:
        if row.label is not None:
            found.setdefault(row.items[0]["item_id"], []).append(row)
    return [list(_means_by(some, lambda row: row.rater).values()) for some in found.values()]
