"""Pool adjacent violators."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.propensity.isotonic import decreasing, inside


@pytest.mark.parametrize(
    ("values", "weights", "expected", "why"),
    [
        ([1, 0.4, 0.6], [1, 1, 1], [1, 0.5, 0.5], "the docstring's case"),
        ([1, 0.4, 0.6], [1, 3, 1], [1, 0.45, 0.45], "weights count"),
        ([1, 1.4, 0.2], [np.inf, 1, 1], [1, 1, 0.2], "a held value does not move"),
        ([0.3, 0.2, 0.1], [1, 1, 1], [0.3, 0.2, 0.1], "already monotone"),
        ([0.1, 0.2, 0.3], [1, 1, 1], [0.2, 0.2, 0.2], "rising everywhere: one block"),
        ([1.0], [1], [1.0], "one rank"),
    ],
)
def test_known_fits(values, weights, expected, why):
    found = decreasing(np.array(values, float), weights=np.array(weights, float))
    np.testing.assert_allclose(found, expected, err_msg=why)


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0.1, 100)), min_size=1, max_size=12))
def test_never_rises_keeps_the_weighted_mean_and_is_a_fixed_point(pairs):
    values, weights = (np.array(column) for column in zip(*pairs, strict=True))
    found = decreasing(values, weights=weights)
    assert (np.diff(found) <= 1e-9).all()
    assert np.average(found, weights=weights) == pytest.approx(np.average(values, weights=weights), abs=1e-9)
    np.testing.assert_allclose(decreasing(found, weights=weights), found, atol=1e-9)


def test_an_undefined_bound_excludes_nothing():
    low, high = np.array([0.9, np.nan]), np.array([1.1, np.nan])
    assert inside(np.array([1.0, 5.0]), low=low, high=high)
    assert not inside(np.array([1.2, 5.0]), low=low, high=high)
