"""Sums in tables of pairs by ranks against sums along sorted rows: the same numbers to the last bit, from any order."""

from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from jobs.evidence import dense, sums
from schemas.logs import DAILY_COUNTS

CURVE = {(None, k): k**-0.9 for k in range(1, 1001)}
ERRORS = {(None, k): (0.01 * k, 0.002 * k, 0.001, 0.02) for k in range(1, 1001)}


def rows_of(seed, *, rows=4000, ranks=10, queries=40, items=25, late=0.1):
    """Random daily counts in random order; a share of rows are late clicks without impressions."""
    rng = np.random.default_rng(seed)
    query = rng.integers(-(2**63), 2**63 - 1, queries)[rng.integers(0, queries, rows)]
    item = rng.integers(-(2**63), 2**63 - 1, items)[rng.integers(0, items, rows)]
    shown = np.where(rng.random(rows) < late, 0, rng.integers(1, 50, rows))
    days = [date(2026, 10, 1) + timedelta(days=int(n)) for n in rng.integers(0, 30, rows)]
    frame = pl.DataFrame({
        "query_key": query, "item_key": item, "rank": rng.integers(1, ranks + 1, rows), "event_day": days,
        "impressions": shown, "clicks": rng.integers(0, 9, rows), "interaction": rng.integers(0, 9_000_000, rows),
    })  # fmt: skip
    full = frame.with_columns(segment=None)
    kinds = {name: kind for name, kind in DAILY_COUNTS.polars().items() if name in full.columns}
    return full.select(pl.col(name).cast(kind) for name, kind in kinds.items())


def sorted_sums(monkeypatch, counts, **options):
    with monkeypatch.context() as patch:
        patch.setattr(sums, "dense_pairs", lambda counts: None)
        return sums.pair_sums(counts, curve=CURVE, **options)


CASES = {
    "an everyday window": {},
    "few rows": {"rows": 3},
    "one pair": {"queries": 1, "items": 1},
    "one rank": {"ranks": 1},
    "the deepest table": {"ranks": dense.DEEPEST},
    "only late clicks": {"late": 1.0},
    "no row at all": {"rows": 0},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("errors", [None, ERRORS], ids=["curve known", "curve with errors"])
def test_tables_give_what_sorting_gives(monkeypatch, case, errors):
    counts = rows_of(1, **case)
    found = sums.pair_sums(counts, curve=CURVE, errors=errors)
    assert dense.dense_pairs(counts) is not None
    assert_frame_equal(found, sorted_sums(monkeypatch, counts, errors=errors), check_exact=True)


def test_inverse_weighted_sums_agree(monkeypatch):
    counts = rows_of(2)
    found = sums.pair_sums(counts, curve=CURVE, inverse=True, floor=0.2)
    assert_frame_equal(found, sorted_sums(monkeypatch, counts, inverse=True, floor=0.2), rel_tol=1e-12)


def test_no_sum_depends_on_the_order_of_rows():
    counts = rows_of(3)
    shuffled = counts.sample(fraction=1.0, shuffle=True, seed=9)
    one, other = (sums.pair_sums(c, curve=CURVE, errors=ERRORS) for c in (counts, shuffled))
    assert_frame_equal(one, other, check_exact=True)


def test_ranks_beyond_the_tables_are_sorted():
    counts = rows_of(4, ranks=dense.DEEPEST + 300)
    assert dense.dense_pairs(counts) is None
    found = sums.pair_sums(counts, curve=CURVE)
    assert found["impressions"].sum() == counts["impressions"].sum()


def test_two_pairs_under_one_number_are_seen(monkeypatch):
    counts = rows_of(5)
    monkeypatch.setattr(dense, "_codes", lambda query, item: (np.zeros(len(query), np.int64), 1))
    assert dense.dense_pairs(counts) is None
    assert sums.pair_sums(counts, curve=CURVE).height > 1
