"""The offline baseline judge: cosine of query and item, combined with what the cards show. It is not an LLM.

It needs no endpoint and no key, and shows what the log alone can tell; every table and report names it
`offline-baseline`. `evidence_only` is made here too: the card's own value, without any judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from jobs.core.embedding import Encoder
from jobs.judging import baseline_constants as constant
from jobs.judging.inputs import CardRow, Item, Page, page_from, qri_count
from jobs.judging.rows import judgment
from jobs.judging.views import SHOWN
from jobs.pages.truth import dcg_weight
from schemas.judgments import GROUNDED, VARIANTS

MODEL = "offline-baseline"
NO_MODEL = "none"

ITEM_SCHEMA = {"page_id": pl.String, "item_id": pl.String, "rank": pl.Int32, "cosine": pl.Float64}
ROW_SCHEMA = {
    "page_id": pl.String, "item_id": pl.String, "similarity": pl.Float64, "impressions": pl.Int64, "ctr": pl.Float64,
    "relevance": pl.Float64, "row": pl.Int32, "row_unfiltered": pl.Int32,
}  # fmt: skip


def judge(
    pages: Sequence[Page | Mapping[str, Any]],
    cards: Mapping[str, Sequence[CardRow | Mapping[str, Any]]],
    variant: str,
    embedder: Encoder | None,
    *,
    item_fields: tuple[str, ...] = (),
) -> list[dict[str, Any]]:
    """Judgments (formats.md) of `pages` under `variant`, in the order of `pages`.

    pages: pages of pages.jsonl or `Page`s. cards: page id to its card rows (each with item_id, similarity, impressions,
    ctr, relevance, row, row_unfiltered: the columns of the cards table). Under a grounded variant a page without a row
    gets plain's label, marked `reused_from_plain`. `expected_label` holds the page score in [0, 1]; of `evidence_only`
    it is the card's value (null without a card), label and reason are null, and no embedder is needed.
    """
    pages = [page if isinstance(page, Page) else page_from(page) for page in pages]
    items = item_frame(pages, embedder=embedder, item_fields=item_fields)
    rows = row_frame((page.page_id, row) for page in pages for row in cards.get(page.page_id, ()))
    scores = {r["page_id"]: r for r in score_pages(items, rows, variant=variant).iter_rows(named=True)}
    counts = {page.page_id: qri_count(_as_rows(cards.get(page.page_id, ()))) for page in pages}
    return [_judgment(page, scores[page.page_id], variant=variant, count=counts[page.page_id]) for page in pages]


def item_frame(pages: Iterable[Page], *, embedder: Encoder | None, item_fields: tuple[str, ...] = ()) -> pl.DataFrame:
    """One row per page and item with the cosine of query and item text (ITEM_SCHEMA; null without an embedder)."""
    flat = [(page, item) for page in pages for item in page.items]
    columns = [
        [page.page_id for page, _ in flat],
        [item.item_id for _, item in flat],
        [item.rank for _, item in flat],
        _cosines(flat, embedder, item_fields) if embedder else [None] * len(flat),
    ]
    return pl.DataFrame(columns, schema=ITEM_SCHEMA)


def row_frame(rows: Iterable[tuple[str, CardRow | Mapping[str, Any]]]) -> pl.DataFrame:
    """Card rows with their page ids as a frame (ROW_SCHEMA)."""
    names = list(ROW_SCHEMA)[1:]
    flat = [(page_id, *_values(row, names)) for page_id, row in rows]
    return pl.DataFrame(flat, schema=ROW_SCHEMA, orient="row")


def score_pages(items: pl.DataFrame, rows: pl.DataFrame, *, variant: str) -> pl.DataFrame:
    """One row per page, in order of first appearance: page_id, score in [0, 1], grade 0/1/2, rows shown.

    The pure core, for millions of rows. items: ITEM_SCHEMA; rows: ROW_SCHEMA of all variants. Of `evidence_only` the
    score is the DCG-weighted card relevance over the items that have rows, null for a page without any.
    """
    if variant not in VARIANTS:
        raise ValueError(f"variant {variant!r} is not one of {', '.join(VARIANTS)}")
    plain = (pl.col("cosine") - constant.COSINE_LOW) / (constant.COSINE_HIGH - constant.COSINE_LOW)
    evidence = _item_evidence(rows, variant=variant)
    joined = items.join(evidence, on=["page_id", "item_id"], how="left", maintain_order="left").with_columns(
        plain.clip(0, 1).alias("plain"), pl.col("weight", "shown").fill_null(0), dcg=dcg_weight()
    )
    blended = (constant.PRIOR_WEIGHT * pl.col("plain") + pl.col("weight") * pl.col("value").fill_null(0)) / (
        constant.PRIOR_WEIGHT + pl.col("weight")
    )
    score, mass = (blended, pl.col("dcg")) if variant != "evidence_only" else (pl.col("value"), _rated_dcg())
    pages = joined.group_by("page_id", maintain_order=True).agg(
        score=(score * pl.col("dcg")).sum() / mass.sum(), shown=pl.col("shown").sum()
    )
    return pages.with_columns(pl.col("score").fill_nan(None), grade=_grade(pl.col("score")))


def _item_evidence(rows: pl.DataFrame, *, variant: str) -> pl.DataFrame:
    """Per page and item: value in [0, 1] and its weight, from the rows and numbers that the variant shows."""
    place = "row_unfiltered" if variant == "qri_unfiltered" else "row"
    seen = rows.filter(pl.col(place).is_not_null() & pl.lit(bool(SHOWN[variant])))
    close = ((pl.col("similarity").clip(-1, 1) - 1) / constant.KERNEL_WIDTH).exp()
    sure = pl.col("impressions") / (pl.col("impressions") + constant.HALF_IMPRESSIONS)
    weight = close if variant == "popularity" else close * sure
    weighed = seen.with_columns(weight=weight, value=_row_value(variant))
    return weighed.group_by("page_id", "item_id").agg(
        value=(pl.col("weight") * pl.col("value")).sum() / pl.col("weight").sum(),
        weight=pl.col("weight").sum(),
        shown=pl.len(),
    )


def _row_value(variant: str) -> pl.Expr:
    shown = SHOWN[variant]
    if "relevance" in shown:
        if variant == "evidence_only":
            return pl.col("relevance").clip(0, 1)
        return _scaled(pl.col("relevance"), low=constant.LOW_RELEVANCE, full=constant.FULL_RELEVANCE)
    if "ctr" in shown:
        return (pl.col("ctr") / constant.FULL_CTR).clip(0, 1)
    full = pl.lit(float(constant.FULL_IMPRESSIONS)).log1p()
    return (pl.col("impressions").cast(pl.Float64).log1p() / full).clip(0, 1)


def _scaled(value: pl.Expr, *, low: float, full: float) -> pl.Expr:
    """0 up to `low`, 1 from `full` on, a straight line between them."""
    return ((value - low) / (full - low)).clip(0, 1)


def _rated_dcg() -> pl.Expr:
    return pl.when(pl.col("value").is_not_null()).then(pl.col("dcg")).otherwise(0.0)


def _grade(score: pl.Expr) -> pl.Expr:
    return (score >= constant.GRADE_1_FROM).cast(pl.Int8) + (score >= constant.GRADE_2_FROM).cast(pl.Int8)


def _cosines(flat: list[tuple[Page, Item]], embedder: Encoder, item_fields: tuple[str, ...]) -> np.ndarray:
    queries = embedder.encode([page.query for page, _ in flat])
    texts = embedder.encode([_text(item, item_fields) for _, item in flat])
    return (queries * texts).sum(axis=1).astype(np.float64)


def _text(item: Item, item_fields: tuple[str, ...]) -> str:
    return " ".join([item.title, *(str(item.metadata[name]) for name in item_fields if item.metadata.get(name))])


def _values(row: CardRow | Mapping[str, Any], names: list[str]) -> list[Any]:
    return [row[name] for name in names] if isinstance(row, Mapping) else [getattr(row, name) for name in names]


def _as_rows(rows: Sequence[CardRow | Mapping[str, Any]]) -> list[CardRow]:
    return [row if isinstance(row, CardRow) else CardRow(**{"query": "", **_only_known(row)}) for row in rows]


def _only_known(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in CardRow.__slots__ if name in row}


def _judgment(page: Page, scored: Mapping[str, Any], *, variant: str, count: int) -> dict[str, Any]:
    alone = variant == "evidence_only"
    return judgment(
        page,
        variant=variant,
        model=NO_MODEL if alone else MODEL,
        qri_count=count,
        label=None if alone else scored["grade"] / 2,
        expected_label=scored["score"],
        evidence_rows=scored["shown"],
        reused_from_plain=variant in GROUNDED and not scored["shown"],
    )
