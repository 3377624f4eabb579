"""Sign alignment: the paper's definition and the fair ones, on whole label codes."""

import math

import polars as pl
import pytest
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from jobs.reports.alignment import Outcome, alignment, compare_judges, online_noise, outcomes, preferences

ROWS = [
    # why, judge's sign, outcome's sign, aligned, half credit
    ("both for a", 1, 1, 1, 1.0),
    ("opposite", 1, -1, 0, 0.0),
    ("the judge ties, the outcome does not: wrong in the paper", 0, 1, 0, 0.5),
    ("the outcome ties, the judge does not", -1, 0, 0, 0.5),
    ("both tie", 0, 0, 1, 1.0),
]


@pytest.mark.parametrize(("why", "judge", "online", "aligned", "half"), ROWS)
def test_one_query(why, judge, online, aligned, half):
    found = alignment({1: judge}, {1: online})
    assert found["aligned"] == aligned, why
    assert found["half_credit"] == half, why


def test_counts_of_all_kinds():
    judged = {i: r[1] for i, r in enumerate(ROWS)}
    online = {i: r[2] for i, r in enumerate(ROWS)}
    found = alignment({**judged, 99: 1}, {**online, 77: 1})
    assert found["n"] == 5
    assert (found["decided"], found["tied"], found["both_zero"]) == (2, 1, 1)
    assert found["aligned"] == pytest.approx(2 / 5)
    assert found["accuracy_decided"] == pytest.approx(1 / 2)
    assert found["half_credit"] == pytest.approx(3 / 5)


def test_nothing_decided_is_null_with_a_reason():
    found = alignment({1: 0}, {1: 1})
    assert found["accuracy_decided"] is None
    assert found["reason"]


def frame(rows):
    return pl.DataFrame(rows, schema={"query_key": pl.Int64, "system": pl.String, "label": pl.Float64}, orient="row")


@pytest.mark.parametrize(
    ("why", "a", "b", "sign"),
    [
        ("mean of a above", [1, 0.5], [0.5, 0.5], 1),
        ("equal means of different counts are exactly tied", [0.5, 0, 1], [0.5], 0),
        ("thirds do not tie by rounding", [1, 0, 0], [0.5, 0.5, 0], 0),
        ("an unscored instance is left out", [1, None], [0.5, 0.5], 1),
    ],
)
def test_preference_of_means(why, a, b, sign):
    rows = [(7, "a", x) for x in a] + [(7, "b", x) for x in b]
    assert preferences(frame(rows))[7].sign == sign, why


def test_a_system_without_any_scored_page_leaves_its_query_out():
    assert preferences(frame([(7, "a", 1.0), (7, "b", None), (7, "b", None)])) == {}
    found = preferences(frame([(7, "a", 1.0), (7, "b", None), (7, "b", 0.0)]))
    assert found[7].unscored == 1


def test_judges_are_compared_where_both_know_the_outcome():
    a, b = {1: 1, 2: 1, 3: -1, 4: 0, 9: 1}, {1: 1, 2: -1, 3: 1, 4: 1, 8: 1}
    online = {1: 1, 2: -1, 3: 1, 4: 1, 8: 1, 9: 1}
    found = compare_judges(a, b, online)
    assert (found["n"], found["only_a"], found["only_b"]) == (4, 0, 3)
    assert found["p"] == pytest.approx(statsmodels_mcnemar([[1, 0], [3, 0]], exact=True).pvalue)


def test_errors_of_outcomes():
    shares = outcomes([{"query_key": 1, "system_a": 0.3, "system_b": 0.2, "n_a": 99, "n_b": 99}])[0]
    p, q = (29.7 + 0.5) / 100, (19.8 + 0.5) / 100
    assert shares.standard_error == pytest.approx(math.sqrt(p * (1 - p) / 99 + q * (1 - q) / 99))
    given = outcomes([{"query_key": 1, "system_a": 3, "system_b": 2, "standard_error_a": 3, "standard_error_b": 4}])[0]
    assert given.standard_error == 5
    assert outcomes([{"query_key": 1, "system_a": 3, "system_b": 2, "n_a": 9, "n_b": 9}])[0].standard_error is None


def test_ceiling_of_a_noisy_test():
    sharp = [Outcome(query_key=i, difference=d, standard_error=0.001) for i, d in enumerate((0.2, -0.3, 0.1))]
    blunt = [Outcome(query_key=i, difference=d, standard_error=10) for i, d in enumerate((0.2, -0.3, 0.1))]
    assert online_noise(sharp)["ceiling"] == pytest.approx(1.0, abs=1e-6)
    assert online_noise(sharp)["decided"] == 3
    assert online_noise(blunt)["ceiling"] == pytest.approx(0.5)
    assert online_noise([Outcome(query_key=1, difference=1, standard_error=None)])["reason"]
