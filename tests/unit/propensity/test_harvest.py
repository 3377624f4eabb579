"""The harvest against a slow loop over pairs of cells, and which variation it accepts."""

from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.propensity.bootstrap import Resample
from jobs.propensity.harvest import MIN_SHOWN, harvest

RANKS = 4
SCHEMA = {"unit": pl.Int64, "query_key": pl.Int64, "item_key": pl.Int64, "rank": pl.Int32, "ranker": pl.String,
          "randomised": pl.Boolean, "impressions": pl.Int64, "clicks": pl.Int64}  # fmt: skip


def frame(*rows):
    """(query, item, rank, ranker, randomised, impressions, clicks)"""
    return pl.DataFrame([(row[0], *row) for row in rows], schema=SCHEMA, orient="row")


def harvested(counts, replicates=0):
    return harvest(counts, ranks=RANKS, sample=Resample(counts["unit"].to_numpy(), replicates=replicates))


def slow(counts):
    """Shown and clicked of both variations, one pair of cells after the other."""
    shown, traffic, rankers = defaultdict(lambda: [0, 0]), defaultdict(int), defaultdict(set)
    pages, by_rank = defaultdict(int), defaultdict(int)
    for r in counts.iter_rows(named=True):
        who = "random" if r["randomised"] else r["ranker"]
        by_rank[r["query_key"], who, r["rank"]] += r["impressions"]
    for (query, who, _), n in by_rank.items():
        pages[query, who] = max(pages[query, who], n)
    for r in counts.iter_rows(named=True):
        cell, who = (r["query_key"], r["item_key"], r["rank"]), "random" if r["randomised"] else r["ranker"]
        shown[cell][0] += r["impressions"]
        shown[cell][1] += r["clicks"]
        if who == "random":
            traffic[cell] += r["impressions"]
        elif who is not None and who not in rankers[cell]:
            traffic[cell] += pages[r["query_key"], who]
        if who is not None:
            rankers[cell].add(who)
    tables = {
        n: np.zeros((RANKS, RANKS)) for n in ("shown_rankers", "clicked_rankers", "shown_changes", "clicked_changes")
    }
    for one, (n, c) in shown.items():
        for other, (m, _) in shown.items():
            if one[:2] != other[:2] or one[2] == other[2] or not n or not m:
                continue
            place = (one[2] - 1, other[2] - 1)
            a, b = rankers[one], rankers[other]
            if a and b and ("random" in a or len(a | b) > 1):
                weight = min(traffic[one], traffic[other]) / traffic[one]
                tables["shown_rankers"][place] += weight * n
                tables["clicked_rankers"][place] += weight * c
            if n >= MIN_SHOWN and m >= MIN_SHOWN:
                tables["shown_changes"][place] += min(n, m) / n * n
                tables["clicked_changes"][place] += min(n, m) / n * c
    return tables


row = st.tuples(
    st.integers(1, 3), st.integers(1, 3), st.integers(1, RANKS), st.sampled_from(["a", "b", None]), st.booleans(),
    st.integers(1, 12), st.integers(0, 5),
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(st.lists(row, min_size=1, max_size=25, unique_by=lambda r: r[:5]))
def test_equal_to_the_slow_loop(rows):
    counts = frame(*[(*r[:6], min(r[5], r[6])) for r in rows])
    found, expected = harvested(counts), slow(counts)
    for name, table in expected.items():
        np.testing.assert_allclose(found[name][0], table, atol=1e-9, err_msg=name)


@pytest.mark.parametrize(
    ("rows", "rankers", "changes", "why"),
    [
        ([(1, 1, 1, "a", False, 9, 3), (1, 1, 2, "b", False, 9, 3)], True, True, "two rankers"),
        ([(1, 1, 1, "a", False, 9, 3), (1, 1, 2, "a", False, 9, 3)], False, True, "one ranker moved the item"),
        ([(1, 1, 1, None, False, 9, 3), (1, 1, 2, None, False, 9, 3)], False, True, "no ranker is known"),
        ([(1, 1, 1, None, False, 4, 3), (1, 1, 2, None, False, 9, 3)], False, False, "too few impressions at one rank"),
        ([(1, 1, 1, "a", True, 1, 1), (1, 1, 2, "a", True, 1, 0)], True, False, "chance made both ranks"),
        ([(1, 1, 1, "a", False, 9, 3), (1, 2, 2, "b", False, 9, 3)], False, False, "two items"),
        ([(1, 1, 1, "a", False, 9, 3), (2, 1, 2, "b", False, 9, 3)], False, False, "two queries"),
    ],
)
def test_which_variation_counts(rows, rankers, changes, why):
    found = harvested(frame(*rows))
    assert (found["pairs_rankers"].sum() > 0, found["pairs_changes"].sum() > 0) == (rankers, changes), why


def test_a_pair_weighs_as_much_at_both_ranks():
    counts = frame((1, 1, 1, "a", False, 30, 9), (1, 1, 3, "b", False, 10, 1), (1, 2, 1, "b", False, 10, 0))
    shown = harvested(counts)["shown_rankers"][0]
    assert shown[0, 2] == pytest.approx(shown[2, 0]) == pytest.approx(10)


def test_replicates_weigh_whole_units():
    counts = frame(*[(q, 1, k, f"r{k}", False, 10, 10 - 3 * k) for q in range(1, 6) for k in (1, 2)])
    sample = Resample(counts["unit"].to_numpy(), replicates=9)
    found = harvest(counts, ranks=RANKS, sample=sample)
    copies = found["shown_rankers"][:, 0, 1] / 10
    np.testing.assert_allclose(copies, sample.weigh(np.ones((5, 1)))[:, 0])
    np.testing.assert_allclose(found["clicked_rankers"][:, 1, 0], copies * 4)
