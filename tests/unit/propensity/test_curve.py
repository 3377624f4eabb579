"""The curve's file form, ranks beyond it, and the parts of its error."""

import json
from datetime import date
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.planted_counts import two_rankers
from jobs.core.errors import InputError
from jobs.propensity.curve import from_file, power_slope, to_file
from jobs.propensity.estimate import Options, fit, with_window


@pytest.fixture(scope="module")
def curve():
    found = fit(two_rankers(1, queries=200), options=Options(replicates=40))
    return with_window(found, start=date(2026, 1, 1), end=date(2026, 1, 31), segment="phone")


def test_the_file_reads_back_as_the_same_curve(curve):
    assert from_file(json.loads(json.dumps(to_file(curve), allow_nan=False))) == curve


def test_the_file_has_the_documented_keys(curve):
    body = to_file(curve)
    assert {"curve_id", "segment", "estimator", "identified", "reason", "window", "warnings", "ranks"} <= set(body)
    assert body["window"] == ["2026-01-01", "2026-01-31"]
    keys = {"rank", "propensity", "raw", "isotonic", "standard_error", "pairs", "impressions", "clicks"}
    assert all(keys <= set(rank) for rank in body["ranks"])
    assert body["ranks"][0]["propensity"] == 1.0


@pytest.mark.parametrize("body", [{}, {"ranks": [{"rank": 1}]}, {"ranks": [], "nonsense": 1}])
def test_other_json_is_refused(body):
    with pytest.raises(InputError, match="no propensity curve file"):
        from_file(body)


def test_deeper_ranks_continue_the_power_law_and_never_rise(curve):
    deeper = [curve.at(rank) for rank in range(10, 1001)]
    assert all(one >= two > 0 for one, two in pairwise(deeper))
    assert curve.at(20) == pytest.approx(0.05, rel=0.25)


def test_rank_zero_is_refused(curve):
    with pytest.raises(InputError, match="count ranks from 1"):
        curve.at(0)


def test_loadings_carry_the_variance_of_each_rank_and_nearly_that_of_sums(curve):
    covariance, loadings = np.array(curve.covariance), curve.loadings()
    np.testing.assert_allclose((loadings**2).sum(axis=1), np.diag(covariance), rtol=1e-9, atol=1e-15)
    rng = np.random.default_rng(0)
    shown = rng.integers(0, 50, size=(200, 10))
    true = np.einsum("ij,jk,ik->i", shown, covariance, shown)
    approximate = ((shown @ loadings[:, :-1]) ** 2).sum(axis=1) + ((shown * loadings[:, -1]) ** 2).sum(axis=1)
    assert np.median(approximate / true) == pytest.approx(1, abs=0.2)
    assert (np.abs(approximate / true - 1) < 0.5).all()


def test_a_curve_without_errors_has_none(curve):
    assert not curve.without_covariance().loadings().any()


@pytest.mark.parametrize(
    ("ranks", "values", "eta"),
    [([1, 2, 4], [1, 0.5, 0.25], 1.0), ([1, 2, 4], [1, 1, 1], 0.0), ([1], [1], 1.0), ([1, 2], [1, 2], 0.0)],
)
def test_power_slope(ranks, values, eta):
    assert power_slope(np.array(ranks, float), np.array(values, float)) == pytest.approx(eta)
