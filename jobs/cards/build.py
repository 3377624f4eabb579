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

SLACK = 1e-5  # single-precision products of vectors of length 1 differ from the exact ones by less than 1e-6
FAISS_FROM = 50_000  # historical queries of one item; below it one product is as quick and needs no index
CELLS = 4_000_000  # similarities held at once, 16 MB


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
    the last of them; so a card and its near-duplicates are whole, whatever else the item has. A quick product (or an
    exact FAISS index, for very many queries) proposes rows, the same product in double precision decides.
    """
    history = np.take(vectors, item.history_vectors, axis=0)
    propose = _by_index if len(history) >= FAISS_FROM else _by_product
    proposals = propose(history, vectors[item.page_vectors], item.thresholds, keep)
    for number, page, threshold, rows in zip(item.pages, item.page_vectors, item.thresholds, proposals, strict=True):
        cosine = np.round(history[rows].astype(np.float64) @ vectors[page].astype(np.float64), DECIMALS)
        kept = _kept(cosine, threshold, keep)
        yield number, item.history[rows[kept]], cosine[kept]


def _kept(cosine: np.ndarray, threshold: float, keep: int, slack: float = 0.0) -> np.ndarray:
    """Rows above the threshold, and the `keep` best below it with all that tie; `slack` widens both cuts."""
    near = cosine > threshold - slack
    below = cosine[~near]
    if len(below) <= keep:
        return np.arange(len(cosine))
    last = -np.partition(-below, keep - 1)[keep - 1]
    return np.flatnonzero(near | (cosine >= last - slack))


def _by_product(history: np.ndarray, pages: np.ndarray, thresholds: np.ndarray, keep: int) -> Iterator[np.ndarray]:
    """Proposed rows of each page, ascending, from products in single precision."""
    step = max(1, CELLS // max(len(history), 1))
    for start in range(0, len(pages), step):
        rough = history @ pages[start : start + step].T
        for column, threshold in zip(rough.T, thresholds[start : start + step], strict=True):
            yield _kept(column, threshold, keep, SLACK)


def _by_index(history: np.ndarray, pages: np.ndarray, thresholds: np.ndarray, keep: int) -> Iterator[np.ndarray]:
    """The same from an exact FAISS index, which is asked for more until everything that is wanted has come."""
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(history.shape[1])
    index.add(np.ascontiguousarray(history))
    for page, threshold in zip(pages, thresholds, strict=True):
        wanted = 4 * keep
        while True:
            found, rows = index.search(page[None, :], min(wanted, index.ntotal))
            below = found[0][found[0] <= threshold - SLACK]
            settled = len(below) > keep and below[-1] < below[keep - 1] - 2 * SLACK
            if settled or wanted >= index.ntotal:
                break
            wanted *= 4
        yield np.sort(rows[0])
