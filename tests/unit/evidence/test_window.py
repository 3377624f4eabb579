"""The window sum against a slow row-by-row reference, and what it must leave out."""

from collections import defaultdict
from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.core.errors import InputError
from jobs.evidence.window import How, sum_window
from schemas.evidence import EVIDENCE
from schemas.logs import DAILY_COUNTS, DAILY_USERS

START = date(2026, 3, 1)
CURVE = {(None, k): 1 / k for k in range(1, 11)}
TEXTS = {"run", "corpus", "locale", "item_id", "query", "window_start", "window_end", "curve_id"}


def counts(*rows):
    """(query, item, rank, impressions, clicks[, day[, segment]]) as daily_counts."""
    full = [(*row, *(0, None)[len(row) - 5 :]) for row in rows]
    body = [
        {
            "event_day": START + timedelta(days=day), "corpus": "tracks", "locale": "en", "segment": segment,
            "query_key": q, "item_key": i, "rank": k, "ranker": f"r{n % 2}", "randomised": False,
            "arrival_day": START + timedelta(days=day), "impressions": shown, "clicks": clicked,
            "interaction": clicked * 500_000,
        }
        for n, (q, i, k, shown, clicked, day, segment) in enumerate(full)
    ]  # fmt: skip
    return pl.DataFrame(body, schema=DAILY_COUNTS.polars())


def users(**numbers):
    """q1=30 means 30 distinct users of query 1."""
    rows = [
        {"event_day": START, "corpus": "tracks", "locale": "en", "query_key": int(q[1:]), "arrival_day": START,
         "salt_id": "a", "user_hash": u}
        for q, n in numbers.items() for u in range(n)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=DAILY_USERS.polars())


def test_the_documented_case_exposure_over_each_shown_rank():
    found = sum_window(counts((1, 5, 1, 10, 5), (1, 5, 3, 10, 1)), users(q1=20), curve=CURVE).row(0, named=True)
    assert found["examined"] == pytest.approx(10 + 10 / 3)
    assert found["examined_squared"] == pytest.approx(10 + 10 / 9)
    assert found["relevance"] == pytest.approx(0.45)
    assert (found["impressions"], found["clicks"], found["ctr"]) == (20, 6, 0.3)
    assert (found["ranks"], found["rank_impressions"], found["rank_clicks"]) == ([1, 3], [10, 10], [5, 1])


def test_columns_are_those_of_the_evidence_table_without_texts():
    found = sum_window(counts((1, 5, 1, 10, 5)), users(q1=20), curve=CURVE)
    declared = EVIDENCE.polars()
    assert set(found.columns) == set(declared) - TEXTS
    assert all(found.schema[name] == declared[name] for name in found.columns)


@pytest.mark.parametrize(("issuers", "kept"), [(19, 0), (20, 1), (21, 1)])
def test_rare_queries_are_left_out(issuers, kept):
    assert sum_window(counts((1, 5, 1, 10, 5)), users(q1=issuers), curve=CURVE, min_users=20).height == kept


def test_a_query_without_any_known_user_is_left_out():
    assert sum_window(counts((1, 5, 1, 10, 5)), users(q2=30), curve=CURVE).height == 0


def test_late_clicks_count_and_do_not_move_the_last_shown_day():
    late = counts((1, 5, 2, 10, 1, 3), (1, 5, 2, 0, 2, 9))
    found = sum_window(late, users(q1=20), curve=CURVE).row(0, named=True)
    assert (found["impressions"], found["clicks"]) == (10, 3)
    assert found["last_shown_day"] == START + timedelta(days=3)


def test_a_click_whose_impression_is_not_visible_gives_no_row():
    assert sum_window(counts((1, 5, 2, 0, 1)), users(q1=20), curve=CURVE).height == 0


def test_a_rank_outside_the_curve_is_an_error_that_names_it():
    with pytest.raises(InputError, match="no examination for rank 11"):
        sum_window(counts((1, 5, 11, 10, 5)), users(q1=20), curve=CURVE)


def test_segments_use_their_own_curve_and_are_pooled():
    curve = {**CURVE, ("phone", 1): 1.0, ("phone", 2): 0.25}
    rows = counts((1, 5, 2, 8, 1, 0, "phone"), (1, 5, 2, 8, 1, 0, "desktop"), (1, 5, 2, 8, 1, 0, None))
    found = sum_window(rows, users(q1=20), curve=curve).row(0, named=True)
    assert found["examined"] == pytest.approx(8 * 0.25 + 8 * 0.5 + 8 * 0.5)
    assert (found["segment"], found["ranks"], found["rank_impressions"]) == (None, [2], [24])


def test_by_segment_keeps_them_apart():
    rows = counts((1, 5, 2, 8, 1, 0, "phone"), (1, 5, 2, 8, 3, 0, "desktop"), (1, 5, 2, 8, 1, 0, None))
    found = sum_window(rows, users(q1=20), curve=CURVE, how=How(by_segment=True))
    assert dict(zip(found["segment"], found["clicks"], strict=True)) == {None: 1, "desktop": 3, "phone": 1}


def test_the_curves_error_widens_intervals_and_nothing_else():
    rows = counts((1, 5, 1, 200, 80), (1, 5, 3, 200, 30))
    errors = {(None, k): (0.1 / k, 0.02 / k) for k in range(1, 11)}
    sure = sum_window(rows, users(q1=20), curve=CURVE).row(0, named=True)
    unsure = sum_window(rows, users(q1=20), curve=CURVE, curve_errors=errors).row(0, named=True)
    assert unsure["relevance"] == sure["relevance"]
    assert unsure["relevance_low"] < sure["relevance_low"] < sure["relevance_high"] < unsure["relevance_high"]


def test_errors_common_to_ranks_add_up_and_own_errors_do_not():
    rows = counts((1, 5, 2, 100, 20), (1, 5, 3, 100, 20))
    width = {}
    for name, factors in {"common": (0.1, 0.0), "own": (0.0, 0.1)}.items():
        errors = {(None, k): factors for k in range(1, 11)}
        found = sum_window(rows, users(q1=20), curve=CURVE, curve_errors=errors).row(0, named=True)
        width[name] = found["relevance_high"] - found["relevance_low"]
    assert width["common"] > width["own"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("ratio", 0.45), ("ctr", 0.3), ("ips", (5 + 3) / 20), ("weighted", (5 + 3) / (10 + 30)), ("ratio_eb", 0.45)],
)
def test_every_estimator_can_be_chosen(name, value):
    rows = counts((1, 5, 1, 10, 5), (1, 5, 3, 10, 1))
    found = sum_window(rows, users(q1=20), curve=CURVE, how=How(relevance=name)).row(0, named=True)
    assert found["relevance"] == pytest.approx(value, rel=0.02)
    assert found["relevance_low"] < found["relevance"] < found["relevance_high"]


@pytest.mark.parametrize("kind", ["query", "rank_band", "global"])
def test_shrunk_values_lie_between_the_raw_value_and_the_groups_mean(kind):
    rng = np.random.default_rng(0)
    rows = [(q, i, int(rng.integers(1, 11)), 20, int(rng.integers(0, 8))) for q in range(1, 9) for i in range(6)]
    found = sum_window(
        counts(*rows), users(**{f"q{q}": 20 for q in range(1, 9)}), curve=CURVE, how=How(prior_kind=kind)
    )
    raw, shrunk = found["relevance"].to_numpy(), found["relevance_shrunk"].to_numpy()
    assert shrunk.std() < raw.std()
    assert np.isfinite(shrunk).all()


def slow(rows, curve):
    """The same sums, one row after the other."""
    sums = defaultdict(lambda: [0, 0, 0, 0.0, 0.0])
    for r in rows.iter_rows(named=True):
        s, p = sums[r["query_key"], r["item_key"]], curve[None, r["rank"]]
        for place, value in enumerate((r["impressions"], r["clicks"], r["interaction"])):
            s[place] += value
        s[3] += r["impressions"] * p
        s[4] += r["impressions"] * p * p
    return {key: s for key, s in sums.items() if s[0]}


cell = st.tuples(
    st.integers(1, 4), st.integers(-3, 3), st.integers(1, 10), st.integers(0, 9), st.integers(0, 3), st.integers(0, 40)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(cell, max_size=40), st.randoms())
def test_equal_to_the_slow_reference_whatever_the_order_of_rows(cells, random):
    rows = counts(*[(*c[:3], c[3], min(c[4], c[3]), c[5]) for c in cells])
    issuers = users(q1=20, q2=20, q3=20, q4=20)
    found = sum_window(rows, issuers, curve=CURVE)
    expected = slow(rows, CURVE)
    assert {(r["query_key"], r["item_key"]) for r in found.iter_rows(named=True)} == set(expected)
    for r in found.iter_rows(named=True):
        n, c, interaction, x, y = expected[r["query_key"], r["item_key"]]
        assert (r["impressions"], r["clicks"], r["interaction"]) == (n, c, interaction)
        assert (r["examined"], r["examined_squared"]) == (pytest.approx(x), pytest.approx(y))
        assert sum(r["rank_impressions"]) == n
        assert sum(r["rank_clicks"]) == c
    shuffled = rows.sample(fraction=1.0, shuffle=True, seed=random.randrange(1000)) if rows.height else rows
    assert sum_window(shuffled, issuers, curve=CURVE).equals(found)
