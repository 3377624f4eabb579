"""A run's pages and cards as judges take them, and judgment rows on their way into the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from jobs.core.context import Context
from jobs.core.keys import key_from_hex
from jobs.core.tables import DataFile, read_files, stage
from jobs.judging.inputs import CARD_COLUMNS, CardRow, Page, page_from, row_from_table
from jobs.judging.sampling import at_most
from schemas.judgments import JUDGMENTS

PAGE_COLUMNS = [
    "set", "page_id", "corpus", "locale", "query_key", "query", "context", "system", "instance", "configuration",
    "items",
]  # fmt: skip
Cards = Mapping[str, list[CardRow]]


def run_pages(ctx: Context, *, corpus: str | None = None, only: Sequence[str] | None = None) -> list[Page]:
    """Pages of the run by set and page id, of one corpus or of all, and only those named where `only` is given."""
    frame = ctx.read("pages", columns=PAGE_COLUMNS, run=ctx.run.key)
    if corpus is not None:
        frame = frame.filter(pl.col("corpus") == corpus)
    if only is not None:
        frame = frame.filter(pl.col("page_id").is_in(list(only)))
    return [page_from(row) for row in frame.sort("set", "page_id").iter_rows(named=True)]


def chosen_pages(ctx: Context, *, most: int) -> list[Page]:
    """The pages that are judged: all, or at most `most` where that is not 0."""
    pages = run_pages(ctx)
    return list(at_most(lambda: pages, most=most))


def run_cards(ctx: Context, pages: Sequence[Page]) -> Cards:
    """Card rows of these pages by page id; only rows that some variant shows."""
    frame = ctx.read("cards", columns=["page_id", *CARD_COLUMNS], run=ctx.run.key)
    shown = pl.col("row").is_not_null() | pl.col("row_unfiltered").is_not_null()
    kept = frame.filter(shown & pl.col("page_id").is_in([page.page_id for page in pages]))
    found: dict[str, list[CardRow]] = {}
    for row in kept.sort("page_id", "item_id", "row_unfiltered", "query").iter_rows(named=True):
        found.setdefault(row["page_id"], []).append(row_from_table(row))
    return found


def table_row(ctx: Context, judged: Mapping[str, Any]) -> dict[str, Any]:
    """A judgment (rows.judgment) as a row of the judgments table."""
    return {**judged, "run": ctx.run.key, "query_key": key_from_hex(judged["query_key"])}


def stage_rows(ctx: Context, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Write table rows as files that no version knows yet, one a partition; returns what a commit needs."""
    frame = pl.DataFrame(rows, schema=JUDGMENTS.polars(), orient="row").sort("page_id", "model", "sample")
    parts = frame.partition_by(list(JUDGMENTS.partition), as_dict=True, maintain_order=True)
    uri = ctx.store.table_uri("judgments")
    return [
        stage(uri, JUDGMENTS, part, partition=dict(zip(JUDGMENTS.partition, values, strict=True))).as_dict()
        for values, part in sorted(parts.items())
    ]


def staged_rows(ctx: Context, staged: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows of staged files as a frame of the table's columns."""
    uri = ctx.store.table_uri("judgments")
    files = [
        DataFile(uri=f"{uri}/{f['path']}", partition=f["partition"], rows=f["rows"], size=f["size"]) for f in staged
    ]
    return read_files(JUDGMENTS, files)
