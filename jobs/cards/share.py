"""One task of cards: the page items of a share, the evidence of those items, and the rows that make their cards."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from jobs.cards.build import ItemPages, closest, select_rows
from jobs.core.storage import filesystem, is_object_store
from jobs.core.tables import scan_files, scan_uris, stage
from jobs.evidence.relevance import score_interval
from schemas.cards import CARDS
from schemas.evidence import EVIDENCE

HISTORY = [
    "locale", "item_key", "query_key", "segment", "impressions", "clicks", "examined", "examined_squared", "ctr",
    "relevance", "relevance_low", "relevance_high", "relevance_shrunk", "users", "last_shown_day",
]  # fmt: skip
"""Columns of evidence that a card needs; the text joins the few rows that are kept."""

BEYOND = 2
"""Rows beyond k are kept up to this multiple of k, so that `explain` shows what was next; the rest is counted."""


def build_share(spec: dict[str, Any]) -> dict[str, Any]:
    """Build the cards of one share of items, write one file a set; returns counts, staged files and seconds by part.

    spec: page_items and texts (Parquet), vectors (npy), evidence (DataFiles), table (URI), run, top_k, min_users,
    other_locales, model.
    """
    clock = [time.perf_counter()]
    page_items, texts = (scan_uris([spec[name]]).collect() for name in ("page_items", "texts"))
    history, hidden = history_of(spec, page_items["item_key"].unique(), texts)
    clock.append(time.perf_counter())
    rows, counts = card_rows(page_items, history, load_array(spec["vectors"]), texts=texts, spec=spec)
    clock.append(time.perf_counter())
    staged = []
    for (name,), part in rows.group_by("set", maintain_order=True):
        ready = part.with_columns(run=pl.lit(spec["run"]), embedding_model=pl.lit(spec["model"])).select(CARDS.names)
        partition = {"run": spec["run"], "set": name}
        staged.append(stage(spec["table"], CARDS, ready, partition=partition).as_dict())
    clock.append(time.perf_counter())
    seconds = dict(zip(("reading", "comparing", "writing"), np.diff(clock).tolist(), strict=True))
    return {"staged": staged, "counts": {**counts, **hidden}, "seconds": seconds}


def history_of(spec: dict[str, Any], items: pl.Series, texts: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """Evidence rows of the items with the number of their query's vector, and how many rows were left out.

    Rare are queries below min_users; a query that is not among `texts` is one that was withheld as sensitive.
    """
    scan = scan_files(EVIDENCE, spec["evidence"], columns=HISTORY)
    rows = pooled(scan.filter(pl.col("item_key").is_in(items.implode())).collect())
    vectors = texts.select("query_key", "vector")
    numbers = rows.select("query_key").join(vectors, on="query_key", how="left", maintain_order="left")["vector"]
    common = rows["users"] >= spec["min_users"]
    known = rows.with_columns(numbers).filter(common & numbers.is_not_null())
    return known, {"rare": rows.height - common.sum(), "sensitive": common.sum() - known.height}


def pooled(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows by item and query: segments are added up, since a page has none. Without segments the rows as they are."""
    if rows["segment"].null_count() == rows.height:
        return rows
    sums = rows.group_by("locale", "item_key", "query_key", maintain_order=True).agg(
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
    page_items: pl.DataFrame, history: pl.DataFrame, vectors: np.ndarray, *, texts: pl.DataFrame, spec: dict[str, Any]
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Rows of the cards table (without run and model) for the page items, and counts of what was dropped.

    page_items: set, page_id, corpus, locale, item_id, item_key, page_vector, threshold. history: `history_of`.
    vectors: one row a distinct text, so that equal numbers mean equal texts. texts: query_key, query.
    """
    top_k = spec["top_k"]
    by = ["item_key"] if spec["other_locales"] else ["item_key", "locale"]
    candidates, compared = _candidates(page_items, history, vectors, by=by, keep=BEYOND * top_k)
    chosen = [select_rows(part, top_k=top_k) for _, part in candidates.group_by("set", maintain_order=True)]
    rows = pl.concat(chosen) if chosen else select_rows(candidates, top_k=top_k)
    counts = _counts(rows, compared)
    far = (pl.col("dropped") == "beyond_k") & (_place_beyond() > (BEYOND - 1) * top_k)
    near = rows.filter(~far.fill_null(value=False)).join(texts.select("query_key", "query"), on="query_key")
    return near.sort("set", "page_id", "item_id", "row_unfiltered", "row", "query_key", nulls_last=True), counts


def load_array(uri: str) -> np.ndarray:
    """A numpy array of the store: mapped into memory on disk, read from an object store."""
    if not is_object_store(uri):
        return np.asarray(np.load(uri, mmap_mode="r"))  # the subclass doubles the cost of taking few rows
    fs, inner = filesystem(uri)
    with fs.open_input_file(inner) as stream:
        return np.load(stream)


def _candidates(
    page_items: pl.DataFrame, history: pl.DataFrame, vectors: np.ndarray, *, by: list[str], keep: int
) -> tuple[pl.DataFrame, int]:
    """Candidates of every page item as one frame, and how many (page item, query) pairs were compared."""
    pages, rows, similarities, compared = [], [], [], 0
    for item in _items(page_items, history, by):
        compared += len(item.history) * len(item.pages)
        for page, kept, cosine in closest(item, vectors, keep=keep):
            pages.append(page)
            rows.append(kept)
            similarities.append(cosine)
    page_of_row = np.repeat(np.array(pages, int), [len(kept) for kept in rows])
    left = page_items[page_of_row].select("set", "page_id", "item_id", "corpus", "page_vector", "threshold")
    right = history[_joined(rows)].drop("item_key", "locale", "examined_squared", "segment", strict=False)
    both = pl.concat([left, right], how="horizontal").with_columns(similarity=pl.Series(_joined(similarities, float)))
    exact = pl.col("vector") == pl.col("page_vector")
    near = pl.col("similarity") > pl.col("threshold")
    return both.with_columns(exact=exact, near=near).drop("page_vector", "vector", "threshold"), compared


def _items(page_items: pl.DataFrame, history: pl.DataFrame, by: list[str]) -> Iterator[ItemPages]:
    """The items that have pages and history, with the row numbers of both; no frame is sorted, only numbers are."""
    both = _rows_by(page_items, by, "pages").join(_rows_by(history, by, "rows"), on=by).sort(by)
    page_vectors, thresholds = page_items["page_vector"].to_numpy(), page_items["threshold"].to_numpy()
    history_vectors = history["vector"].to_numpy()
    for pages, rows in zip(_arrays(both["pages"]), _arrays(both["rows"]), strict=True):
        yield ItemPages(
            history=rows,
            history_vectors=history_vectors[rows],
            pages=pages,
            page_vectors=page_vectors[pages],
            thresholds=thresholds[pages],
        )


def _rows_by(frame: pl.DataFrame, by: list[str], name: str) -> pl.DataFrame:
    """One row a group with the list of its row numbers, ascending."""
    return frame.select(by).with_row_index(name).group_by(by).agg(name)


def _arrays(lists: pl.Series) -> list[np.ndarray]:
    """The arrays of a column of lists, none of them empty."""
    if not len(lists):
        return []
    return np.split(lists.explode().to_numpy(), np.cumsum(lists.list.len().to_numpy())[:-1])


def _joined(parts: list[np.ndarray], kind: type = int) -> np.ndarray:
    return np.concatenate(parts) if parts else np.empty(0, kind)


def _place_beyond() -> pl.Expr:
    beyond = pl.col("dropped") == "beyond_k"
    return beyond.fill_null(value=False).cast(pl.Int32).cum_sum().over("set", "page_id", "item_id")


def _counts(rows: pl.DataFrame, compared: int) -> dict[str, int]:
    named = {name: rows.filter(pl.col("dropped") == name).height for name in ("near_duplicate", "exact_match")}
    kept = rows["row"].count()
    return {"compared": compared, "rows": kept, **named, "beyond_k": compared - kept - sum(named.values())}
