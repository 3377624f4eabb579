"""One task of cards: the page items of a share, the evidence of those items, and the rows that make their cards."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from jobs.cards.build import ItemPages, closest, select_rows
from jobs.core.storage import filesystem, is_object_store, rust_uri, storage_options
from jobs.core.tables import scan_files, stage
from jobs.evidence.relevance import score_interval
from schemas.cards import CARDS
from schemas.evidence import EVIDENCE

HISTORY = [
    "locale", "item_key", "query_key", "segment", "query", "impressions", "clicks", "examined", "examined_squared",
    "ctr", "relevance", "relevance_low", "relevance_high", "relevance_shrunk", "users", "last_shown_day",
]  # fmt: skip
"""Columns of evidence that a card needs."""

BEYOND = 2
"""Rows beyond k are kept up to this multiple of k, so that `explain` shows what was next; the rest is counted."""


def build_share(spec: dict[str, Any]) -> dict[str, Any]:
    """Build the cards of one share of items, write one file a set, return counts and the staged files.

    spec: page_items and texts (Parquet), vectors (npy), evidence (DataFiles), table (URI), run, top_k, min_users,
    other_locales, model.
    """
    page_items, texts = _read(spec["page_items"]), _read(spec["texts"])
    history, hidden = history_of(spec, page_items["item_key"].unique(), texts)
    rows, counts = card_rows(page_items, history, load_array(spec["vectors"]), spec=spec)
    staged = []
    for (name,), part in rows.group_by("set", maintain_order=True):
        ready = part.with_columns(run=pl.lit(spec["run"]), embedding_model=pl.lit(spec["model"])).select(CARDS.names)
        partition = {"run": spec["run"], "set": name}
        staged.append(stage(spec["table"], CARDS, ready, partition=partition).as_dict())
    return {"staged": staged, "counts": {**counts, **hidden}}


def history_of(spec: dict[str, Any], items: pl.Series, texts: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """Evidence rows of the items with the number of their query's vector, and how many rows were left out as rare.

    A query without a vector is one that the driver withheld (sensitive), and is counted as such.
    """
    scan = scan_files(EVIDENCE, spec["evidence"], columns=HISTORY)
    rows = pooled(scan.filter(pl.col("item_key").is_in(items.implode())).collect())
    common = rows.filter(pl.col("users") >= spec["min_users"])
    known = common.join(texts.select("query_key", "vector"), on="query_key", maintain_order="left")
    return known, {"rare": rows.height - common.height, "sensitive": common.height - known.height}


def pooled(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows by item and query: segments are added up, since a page has none. Without segments the rows as they are."""
    if rows["segment"].null_count() == rows.height:
        return rows.drop("segment")
    sums = rows.group_by("locale", "item_key", "query_key", "query", maintain_order=True).agg(
        pl.col("impressions", "clicks", "examined", "examined_squared").sum(),
        pl.col("users", "last_shown_day").max(),
        relevance_shrunk=(pl.col("relevance_shrunk") * pl.col("examined")).sum() / pl.col("examined").sum(),
    )
    c, x, y = (sums[name].to_numpy().astype(float) for name in ("clicks", "examined", "examined_squared"))
    low, high = score_interval(c, x, y)
    return sums.with_columns(
        ctr=pl.col("clicks") / pl.col("impressions"),
        relevance=pl.col("clicks") / pl.col("examined"),
        relevance_low=pl.Series(low),
        relevance_high=pl.Series(high),
    )


def card_rows(
    page_items: pl.DataFrame, history: pl.DataFrame, vectors: np.ndarray, *, spec: dict[str, Any]
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Rows of the cards table (without run and model) for the page items, and counts of what was dropped.

    page_items: set, page_id, corpus, locale, item_id, item_key, page_query, page_vector, threshold.
    history: `history_of`.
    """
    top_k = spec["top_k"]
    by = ["item_key"] if spec["other_locales"] else ["item_key", "locale"]
    found = _gathered(page_items, history, vectors, by=by, keep=BEYOND * top_k)
    chosen = [select_rows(part, top_k=top_k) for _, part in found.candidates.group_by("set", maintain_order=True)]
    rows = pl.concat(chosen) if chosen else select_rows(found.candidates, top_k=top_k)
    counts = _counts(rows, found.compared)
    far = (pl.col("dropped") == "beyond_k") & (_place_beyond() > (BEYOND - 1) * top_k)
    return rows.filter(~far.fill_null(value=False)).sort("set", "page_id", "item_id", "row_unfiltered"), counts


def load_array(uri: str) -> np.ndarray:
    """A numpy array of the store: mapped into memory on disk, read from an object store."""
    if not is_object_store(uri):
        return np.load(uri, mmap_mode="r")
    fs, inner = filesystem(uri)
    with fs.open_input_file(inner) as stream:
        return np.load(stream)


class _Found:
    def __init__(self, candidates: pl.DataFrame, compared: int) -> None:
        self.candidates, self.compared = candidates, compared


def _gathered(
    page_items: pl.DataFrame, history: pl.DataFrame, vectors: np.ndarray, *, by: list[str], keep: int
) -> _Found:
    """Candidates of every page item as one frame, and how many (page item, query) pairs were compared."""
    ready_pages, ready_history = _numbered(page_items, history, by)
    pages, rows, similarities, compared = [], [], [], 0
    for item in _items(ready_pages, ready_history):
        compared += len(item.history) * len(item.pages)
        for page, kept, cosine in closest(item, vectors, keep=keep):
            pages.append(np.full(len(kept), page))
            rows.append(kept)
            similarities.append(cosine)
    left = ready_pages[_joined(pages)].select("set", "page_id", "item_id", "corpus", "page_query", "threshold")
    right = ready_history[_joined(rows)].drop("group", "vector", "item_key", "locale", "examined_squared")
    both = pl.concat([left, right], how="horizontal").with_columns(similarity=pl.Series(_joined(similarities, float)))
    exact = pl.col("query") == pl.col("page_query")
    near = pl.col("similarity") > pl.col("threshold")
    return _Found(both.with_columns(exact=exact, near=near).drop("page_query", "threshold"), compared)


def _numbered(page_items: pl.DataFrame, history: pl.DataFrame, by: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both frames sorted by a common number of their item (and locale); what has no partner is left out."""
    groups = (
        history.select(by)
        .unique()
        .sort(by)
        .join(page_items.select(by).unique(), on=by, how="semi", maintain_order="left")
    )
    numbered = groups.with_row_index("group")
    return (
        page_items.join(numbered, on=by).sort("group", "set", "page_id"),
        history.join(numbered, on=by).sort("group", "query_key"),
    )


def _items(pages: pl.DataFrame, history: pl.DataFrame) -> Iterator[ItemPages]:
    page_vectors, thresholds = pages["page_vector"].to_numpy(), pages["threshold"].to_numpy()
    history_vectors = history["vector"].to_numpy()
    for (a, b), (c, d) in zip(pairwise(_edges(pages)), pairwise(_edges(history)), strict=True):
        yield ItemPages(
            history=np.arange(c, d),
            history_vectors=history_vectors[c:d],
            pages=np.arange(a, b),
            page_vectors=page_vectors[a:b],
            thresholds=thresholds[a:b],
        )


def _edges(frame: pl.DataFrame) -> np.ndarray:
    """Where each group of a frame sorted by `group` starts, and the end; every group has at least one row."""
    group = frame["group"].to_numpy()
    starts = np.flatnonzero(np.append(True, group[1:] != group[:-1])) if len(group) else np.empty(0, int)
    return np.append(starts, len(group))


def _joined(parts: list[np.ndarray], kind: type = int) -> np.ndarray:
    return np.concatenate(parts) if parts else np.empty(0, kind)


def _place_beyond() -> pl.Expr:
    beyond = pl.col("dropped") == "beyond_k"
    return beyond.fill_null(value=False).cast(pl.Int32).cum_sum().over("set", "page_id", "item_id")


def _counts(rows: pl.DataFrame, compared: int) -> dict[str, int]:
    named = {name: rows.filter(pl.col("dropped") == name).height for name in ("near_duplicate", "exact_match")}
    kept = rows["row"].count()
    return {"compared": compared, "rows": kept, **named, "beyond_k": compared - kept - sum(named.values())}


def _read(uri: str) -> pl.DataFrame:
    return pl.read_parquet(rust_uri(uri), storage_options=storage_options(uri) or None)
