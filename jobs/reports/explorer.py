"""Every page down to its evidence, as compact data for the explorer inside index.html (and explorer.json beside it).

Texts are listed once and named by number; rows are lists in the order of the `columns` that the data itself states.
"""

import json
from typing import Any

import polars as pl

from jobs.reports.distributions import MAX_LEVELS
from jobs.reports.effects import EFFECTS
from jobs.reports.judged import ordered_variants, with_value

PAGE = (
    "page_id",
    "run",
    "set",
    "corpus",
    "locale",
    "query",
    "context",
    "system",
    "instance",
    "configuration",
    "qri_count",
    "truth",
    "truth_standard_error",
    "human_label",
    "human_label_source",
    "made",
    "items",
    "labels",
    "dropped",
)
CARD = (
    "query",
    "similarity",
    "impressions",
    "clicks",
    "examined",
    "relevance",
    "low",
    "high",
    "users",
    "row",
    "row_unfiltered",
    "dropped",
    "last_shown_day",
)
LABEL = ("label", "expected_label", "reason", "rationale", "cited", "cited_invented", "reused_from_plain", "model")
DROPPED = ("near_duplicate", "exact_match", "beyond_k")
RATIONALE = 600
"""Characters of a rationale that are shown; longer ones end with an ellipsis (all of it is in the Parquet export)."""


class _Texts:
    """Distinct values by number."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def __call__(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def listed(self) -> list[Any]:
        return list(self.numbers)


def explorer_data(
    *,
    run: str | None,
    pages: pl.DataFrame,
    judgments: pl.DataFrame,
    cards: pl.DataFrame,
    dropped: dict[str, dict[str, int]] | None = None,
) -> dict[str, Any]:
    """Columns, texts and pages (judged ones only, by set and page id).

    `cards` holds the rows to show (in either card, or dropped as near-duplicate or exact match); `dropped` counts per
    page by reason all that was left out, rare and sensitive queries included, which never appear as text.
    """
    texts, items, models = _Texts(), _Texts(), _Texts()
    rows = with_value(judgments)
    variants = ordered_variants(rows["variant"].unique().to_list())
    by_page = _labels(rows, variants, texts, models)
    by_item = _cards(cards, texts)
    counts = dict(rows.group_by("page_id").agg(pl.col("qri_count").max()).iter_rows())
    shown = pages.filter(pl.col("page_id").is_in(list(by_page))).sort("set", "page_id")
    listed = [
        _page(
            {**p, "qri_count": counts[p["page_id"]]}, run, by_page[p["page_id"]], by_item, texts, items, dropped or {}
        )
        for p in shown.iter_rows(named=True)
    ]
    return {
        "format": 1,
        "variants": variants,
        "columns": {"page": PAGE, "card": CARD, "label": LABEL, "dropped": DROPPED},
        "effects": {c: e for e, kinds in EFFECTS.items() for c in kinds},
        "max_levels": MAX_LEVELS,
        "texts": texts.listed(),
        "items": [json.loads(i) for i in items.listed()],
        "models": models.listed(),
        "pages": listed,
    }


def _labels(rows: pl.DataFrame, variants: list[str], texts: _Texts, models: _Texts) -> dict[str, list]:
    place = {v: i for i, v in enumerate(variants)}
    found: dict[str, list] = {}
    names = (
        "page_id",
        "variant",
        "label",
        "expected_label",
        "reason",
        "rationale",
        "cited",
        "cited_invented",
        "reused_from_plain",
        "model",
    )
    for page, variant, label, expected, reason, why, cited, invented, reused, model in rows.select(names).iter_rows():
        why = why if len(why) <= RATIONALE else why[:RATIONALE] + "…"
        cell = [
            label,
            _round(expected, 3),
            reason,
            texts(why) if why else None,
            cited or [],
            invented,
            int(reused),
            models(model),
        ]
        found.setdefault(page, [None] * len(variants))[place[variant]] = cell
    return found


def _cards(cards: pl.DataFrame, texts: _Texts) -> dict[tuple[str, str], list]:
    found: dict[tuple[str, str], list] = {}
    names = (
        "page_id",
        "item_id",
        "query",
        "similarity",
        "impressions",
        "clicks",
        "examined",
        "relevance",
        "relevance_low",
        "relevance_high",
        "users",
        "row",
        "row_unfiltered",
        "dropped",
        "last_shown_day",
    )
    rows = cards.select(names).sort("page_id", "item_id", "similarity", descending=[False, False, True])
    for page, item, query, sim, seen, clicks, examined, r, low, high, users, row, whole, why, day in rows.iter_rows():
        code = None if why is None else DROPPED.index(why)
        last = None if day is None else day.isoformat()
        found.setdefault((page, item), []).append(
            [
                texts(query),
                _round(sim, 3),
                seen,
                clicks,
                _round(examined, 1),
                _round(r, 3),
                _round(low, 3),
                _round(high, 3),
                users,
                row,
                whole,
                code,
                last,
            ]
        )
    return found


def _page(
    p: dict[str, Any],
    run: str | None,
    labels: list,
    by_item: dict[tuple[str, str], list],
    texts: _Texts,
    items: _Texts,
    dropped: dict[str, dict[str, int]],
) -> list[Any]:
    listed = [
        [
            items(json.dumps([i.get("item_id"), i.get("title") or "", i.get("type") or ""])),
            i.get("rank"),
            by_item.get((p["page_id"], str(i.get("item_id"))), []),
        ]
        for i in json.loads(p["items"])
    ]
    context = None if p["context"] is None else texts(_plain(p["context"]))
    made = json.loads(p["made"] or "{}") or None
    values = {
        **p,
        "run": run,
        "query": texts(p["query"]),
        "context": context,
        "truth": _round(p["truth"], 4),
        "truth_standard_error": _round(p["truth_standard_error"], 4),
        "qri_count": max(p["qri_count"], sum(1 for _, _, card in listed for row in card if row[9] is not None)),
        "made": made,
        "items": listed,
        "labels": labels,
        "dropped": dropped.get(p["page_id"]),
    }
    return [values[name] for name in PAGE]


def _plain(context: str) -> str:
    """A JSON context as text: strings as they are, objects as compact JSON."""
    value = json.loads(context)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _round(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Pages of two runs in one explorer (the night's and the launch's); variants and texts are joined."""
    variants = ordered_variants([*first["variants"], *second["variants"]])
    texts = [*first["texts"], *second["texts"]]
    pages = [_moved(p, first, variants, 0, 0, 0) for p in first["pages"]]
    steps = (len(first["texts"]), len(first["items"]), len(first["models"]))
    pages += [_moved(p, second, variants, *steps) for p in second["pages"]]
    joined = {"items": [*first["items"], *second["items"]], "models": [*first["models"], *second["models"]]}
    return {**first, "variants": variants, "texts": texts, **joined, "pages": pages}


def _moved(page: list, source: dict[str, Any], variants: list[str], text: int, item: int, model: int) -> list:
    """The page with its numbers shifted behind those of the first run, labels in the order of `variants`."""
    values = dict(zip(PAGE, page, strict=True))
    own = dict(zip(source["variants"], values["labels"], strict=True))
    values["query"] += text
    values["context"] = None if values["context"] is None else values["context"] + text
    values["items"] = [[i + item, rank, [[c[0] + text, *c[1:]] for c in card]] for i, rank, card in values["items"]]
    values["labels"] = [_moved_label(own.get(v), text, model) for v in variants]
    return list(values.values())


def _moved_label(cell: list | None, text: int, model: int) -> list | None:
    if cell is None:
        return None
    why = None if cell[3] is None else cell[3] + text
    return [*cell[:3], why, *cell[4:7], cell[7] + model]


def page_labels(data: dict[str, Any]) -> dict[str, dict[str, float | None]]:
    """{page_id: {variant: label}} of an explorer.json, for comparing two runs."""
    place = PAGE.index("labels")
    return {
        p[0]: {v: cell[0] for v, cell in zip(data["variants"], p[place], strict=True) if cell} for p in data["pages"]
    }
