"""Ceilings: the known caps of three-level labels, and what a noisy truth leaves."""

import numpy as np
import pytest

from jobs.reports.association import association
from jobs.reports.ceilings import label_ceiling, noise_ceiling


def test_equal_thirds_against_a_continuous_truth():
    labels, truth = np.repeat([0.0, 0.5, 1.0], 3000), np.random.default_rng(0).random(9000)
    found = label_ceiling(labels, truth)
    assert found["spearman"] == pytest.approx(0.943, abs=1e-3)
    assert found["kendall_b"] == pytest.approx(0.816, abs=1e-3)
    assert found["kendall_c"] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    ("why", "labels", "truth", "cap"),
    [
        ("labels that can equal the truth", [0, 0.5, 1, 0], [1, 0.5, 0, 0], 1.0),
        ("constant labels", [1, 1, 1, 1], [1, 2, 3, 4], float("nan")),
    ],
)
def test_cap_of_small_sets(why, labels, truth, cap):
    assert label_ceiling(np.array(labels), np.array(truth))["spearman"] == pytest.approx(cap, nan_ok=True), why


def test_no_judge_beats_the_noise_ceiling():
    """The planted truth itself, measured with errors, reaches the ceiling and no more."""
    rng = np.random.default_rng(2)
    true = rng.normal(0, 0.2, 8000)
    errors = np.full(8000, 0.15)
    measured = true + rng.normal(0, errors)
    found = noise_ceiling(measured, errors)
    assert found["spearman"] == pytest.approx(association(true, measured)["spearman"], abs=0.02)
    labels = np.digitize(true, np.quantile(true, [1 / 3, 2 / 3])) / 2
    both = noise_ceiling(measured, errors, labels=labels)
    assert both["spearman"] == pytest.approx(association(labels, measured)["spearman"], abs=0.02)
    assert both["spearman"] < found["spearman"]


def test_errors_that_explain_everything_leave_no_ceiling():
    rng = np.random.default_rng(0)
    errors = np.full(500, 0.3)
    assert noise_ceiling(rng.normal(0, 0.1, 500), errors) is None


def test_variances_that_are_right_on_average_are_taken_as_they_are():
    """Poisson clicks: the plain count is the right variance on average, one more click is on the safe side."""
    rng = np.random.default_rng(5)
    true = rng.gamma(20, 0.02, 6000)
    clicks = rng.poisson(20 * true)
    measured = clicks / 20
    reached = association(true, measured)["spearman"]
    right = noise_ceiling(measured, np.sqrt(clicks) / 20, unbiased=True)
    assert right["spearman"] == pytest.approx(reached, abs=0.04)
    assert noise_ceiling(measured, np.sqrt(clicks + 1) / 20, unbiased=True)["spearman"] < right["spearman"]
