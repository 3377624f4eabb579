"""Selection of card rows: order, ties, near-duplicates, k; and that every way of finding them gives the same rows."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.cards import build
from jobs.cards.build import ItemPages, closest, select_rows

KINDS = {"page_id": pl.String, "item_id": pl.String, "query_key": pl.Int64, "similarity": pl.Float64,
         "impressions": pl.Int64, "exact": pl.Boolean, "near": pl.Boolean}  # fmt: skip


def candidates(*rows, page="p", item="i"):
    """Rows of (key, similarity, impressions, mark), mark "", "exact" or "near"."""
    made = [(page, item, key, cosine, shown, mark == "exact", mark == "near") for key, cosine, shown, mark in rows]
    return pl.DataFrame(made, schema=KINDS, orient="row")


def chosen(frame, *, top_k):
    out = select_rows(frame, top_k=top_k).sort("query_key")
    return {key: rest for key, *rest in out.select("query_key", "row", "row_unfiltered", "dropped").iter_rows()}


@pytest.mark.parametrize(
    ("rows", "want", "why"),
    [
        (
            [(1, 1.0, 9, "exact"), (2, 0.95, 9, "near"), (3, 0.8, 9, ""), (4, 0.7, 9, ""), (5, 0.6, 9, "")],
            {1: [None, 1, "exact_match"], 2: [None, 2, "near_duplicate"], 3: [1, None, None], 4: [2, None, None],
             5: [None, None, "beyond_k"]},
            "near-duplicates stand in the unfiltered card only, and make room in the filtered one",
        ),
        ([(1, 0.5, 9, "")], {1: [1, 1, None]}, "fewer rows than k are normal"),
        ([(1, 0.9, 9, "near")], {1: [None, 1, "near_duplicate"]}, "a card may be empty once filtered"),
        (
            [(9, 0.5, 1, ""), (1, 0.5, 7, ""), (3, 0.5, 1, "")],
            {1: [1, 1, None], 3: [2, 2, None], 9: [None, None, "beyond_k"]},
            "ties: the more shown query, then the smaller key",
        ),
        ([(1, -0.2, 9, ""), (2, 0.1, 9, "")], {1: [2, 2, None], 2: [1, 1, None]}, "cosines below 0 are in order too"),
        ([], {}, "no history"),
    ],
)  # fmt: skip
def test_select(rows, want, why):
    assert chosen(candidates(*rows), top_k=2) == want, why


def test_cards_of_one_page_do_not_mix():
    both = pl.concat(
        [candidates((1, 0.5, 1, "")), candidates((1, 0.4, 1, ""), item="j"), candidates((1, 0.3, 1, ""), page="q")]
    )
    assert select_rows(both, top_k=1)["row"].to_list() == [1, 1, 1]


def test_the_order_of_the_input_does_not_matter():
    rows = [
        (k, round(float(s), 1), n, "") for k, s, n in zip(range(60), np.linspace(0, 1, 60), [1, 2, 3] * 20, strict=True)
    ]
    one = candidates(*rows)
    assert chosen(one, top_k=10) == chosen(one.sample(fraction=1, shuffle=True, seed=3), top_k=10)


def unit(rng, n, d=16):
    vectors = rng.standard_normal((n, d)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def found(vectors, *, history, pages, threshold, keep):
    item = ItemPages(
        history=np.arange(history),
        history_vectors=np.arange(history),
        pages=np.arange(pages),
        page_vectors=np.arange(history, history + pages),
        thresholds=np.full(pages, threshold),
    )
    return {
        number: dict(zip(rows.tolist(), cosine.tolist(), strict=True))
        for number, rows, cosine in closest(item, vectors, keep=keep)
    }


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), history=st.integers(1, 120), pages=st.integers(1, 4), keep=st.integers(1, 12),
       threshold=st.floats(-0.2, 1.0), copies=st.integers(0, 30))  # fmt: skip
def test_closest_keeps_all_above_the_threshold_and_the_best_below_it(seed, history, pages, keep, threshold, copies):
    rng = np.random.default_rng(seed)
    vectors = unit(rng, history + pages)
    vectors[: min(copies, history)] = vectors[0]  # ties
    got = found(vectors, history=history, pages=pages, threshold=threshold, keep=keep)
    exact = np.round(vectors[:history].astype(float) @ vectors[history:].astype(float).T, 6)
    for page in range(pages):
        cosine = exact[:, page]
        below = np.sort(cosine[cosine <= threshold])[::-1]
        last = below[min(keep, len(below)) - 1] if len(below) else np.inf
        want = {i for i in range(history) if cosine[i] > threshold or cosine[i] >= last}
        assert set(got[page]) == want
        assert all(got[page][i] == pytest.approx(cosine[i], abs=1e-6) for i in want)


@pytest.mark.parametrize(("keep", "threshold", "why"), [(5, 0.9, "few"), (5, 0.1, "many above"), (400, 0.99, "all")])
def test_faiss_gives_the_same_rows(monkeypatch, keep, threshold, why):
    vectors = unit(np.random.default_rng(4), 603)
    vectors[100:160] = vectors[7]
    plain = found(vectors, history=600, pages=3, threshold=threshold, keep=keep)
    monkeypatch.setattr(build, "FAISS_FROM", 1)
    assert found(vectors, history=600, pages=3, threshold=threshold, keep=keep) == plain, why


def test_many_pages_of_one_item_are_compared_in_blocks(monkeypatch):
    vectors = unit(np.random.default_rng(5), 230)
    whole = found(vectors, history=200, pages=30, threshold=0.8, keep=7)
    monkeypatch.setattr(build, "CELLS", 500)
    assert found(vectors, history=200, pages=30, threshold=0.8, keep=7) == whole
