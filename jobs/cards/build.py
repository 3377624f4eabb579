"""Card rows of page items: the historical queries most like the page's own, near-duplicates marked. Pure, no storage.

One code path serves every variant: a row carries its place in the filtered card (`row`), its place in the card that
keeps near-duplicates (`row_unfiltered`), and why it is in neither.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

CARD = ["page_id", "item_id"]
DECIMALS = 6
"""Similarities are rounded before they are compared, so that equal texts tie on every machine."""

FAISS_FROM = 50_000  # historical queries of one item; below it one product of matrices is as quick and needs no index
CELLS = 4_000_000  # similarities held at once, 32 MB


@dataclass(frozen=True, kw_only=True)
class ItemPages:
    """One item's historical queries and the pages that show it.

    history: numbers of the item's evidence rows; pages: numbers of page items; both index the frames that are joined
    later. vectors: rows of the vector matrix for each.
    """

    history: np.ndarray
    history_vectors: np.ndarray
    pages: np.ndarray
    page_vectors: np.ndarray
    thresholds: np.ndarray


def select_rows(candidates: pl.DataFrame, *, top_k: int) -> pl.DataFrame:
    """Candidates with `row`, `row_unfiltered` (1-based, null beyond top_k) and `dropped` (null, exact_match,
    near_duplicate, beyond_k).

    candidates: page_id, item_id, query_key, similarity, impressions, exact (same normalised text as the page's query),
    near (similarity above the threshold). Most similar first; ties go to the more shown query, then to the smaller key.
    """
    order = [*CARD, "similarity", "impressions", "query_key"]
    ordered = candidates.sort(order, descending=[False, False, True, True, False])
    place = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(CARD)
    kept = ~(pl.col("exact") | pl.col("near"))
    filtered = pl.when(kept).then(kept.cast(pl.Int32).cum_sum().over(CARD))
    placed = ordered.with_columns(row_unfiltered=place, row=filtered)
    reason = (
        pl.when("exact").then(pl.lit("exact_match"))
        .when("near").then(pl.lit("near_duplicate"))
        .when(pl.col("row") > top_k).then(pl.lit("beyond_k"))
    )  # fmt: skip
    cut = [pl.when(pl.col(name) <= top_k).then(name).alias(name) for name in ("row", "row_unfiltered")]
    return placed.with_columns(dropped=reason).with_columns(cut)


def closest(item: ItemPages, vectors: np.ndarray, *, keep: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """For each page of the item: (page number, evidence rows, similarities rounded to DECIMALS).

    Kept are all rows above the page's threshold and the `keep` most similar below it, with everything that ties with
    the last of them; so a card and its near-duplicates are whole, whatever else the item has.
    """
    if len(item.history) >= FAISS_FROM:
        yield from _closest_by_index(item, vectors, keep=keep)
        return
    history = vectors[item.history_vectors].astype(np.float64)
    step = max(1, CELLS // max(len(history), 1))
    for start in range(0, len(item.pages), step):
        pages = slice(start, start + step)
        cosine = np.round(history @ vectors[item.page_vectors[pages]].astype(np.float64).T, DECIMALS)
        for number, column, threshold in zip(item.pages[pages], cosine.T, item.thresholds[pages], strict=True):
            kept = _kept(column, threshold, keep)
            yield number, item.history[kept], column[kept]


def _kept(cosine: np.ndarray, threshold: float, keep: int) -> np.ndarray:
    near = cosine > threshold
    below = cosine[~near]
    if len(below) <= keep:
        return np.arange(len(cosine))
    last = -np.partition(-below, keep - 1)[keep - 1]
    return np.flatnonzero(near | (cosine >= last))


def _closest_by_index(
    item: ItemPages, vectors: np.ndarray, *, keep: int
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """The same rows by an exact FAISS index: it proposes more than are needed, the same product as above decides."""
    import faiss

    faiss.omp_set_num_threads(1)
    history = np.ascontiguousarray(vectors[item.history_vectors])
    index = faiss.IndexFlatIP(history.shape[1])
    index.add(history)
    for number, page, threshold in zip(item.pages, item.page_vectors, item.thresholds, strict=True):
        query = vectors[page]
        rows = _proposed(index, query, threshold, keep)
        cosine = np.round(history[rows].astype(np.float64) @ query.astype(np.float64), DECIMALS)
        kept = _kept(cosine, threshold, keep)
        yield number, item.history[rows[kept]], cosine[kept]


def _proposed(index, query: np.ndarray, threshold: float, keep: int) -> np.ndarray:
    """Rows, ascending, that hold everything above the threshold and at least `keep` below it, ties included."""
    slack = 10.0**-DECIMALS  # float32 sums and rounding stay within it
    wanted = 4 * keep
    while True:
        found, rows = index.search(query[None, :], min(wanted, index.ntotal))
        below = found[0][found[0] <= threshold - slack]
        settled = len(below) > keep and below[-1] < below[keep - 1] - 2 * slack
        if settled or wanted >= index.ntotal:
            return np.sort(rows[0])
        wanted *= 4
