"""Relevance formulas on cases computed by hand, and the properties that a sceptic would check."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jobs.evidence import relevance as f

P = 1.0 / np.arange(1, 11)
R = 0.4


def expected(shown):
    """Expectation of each estimator for an item with r = .4 that was shown `shown` times by rank (exact, no noise)."""
    n = np.asarray(shown, float)
    c = n * P * R
    return {
        "ctr": f.ctr(c.sum(), n.sum()),
        "weighted": f.weighted((c / P).sum(), (n / P).sum()),
        "ips": f.ips((c / P).sum(), n.sum()),
        "ratio": f.ratio(c.sum(), (n * P).sum()),
    }


@pytest.mark.parametrize(
    ("shown", "values", "why"),
    [
        ([0] * 9 + [50], {"ctr": 0.040, "weighted": 0.040, "ips": 0.4, "ratio": 0.4}, "rank 10 only"),
        ([5] * 10, {"ctr": 0.117, "weighted": 0.073, "ips": 0.4, "ratio": 0.4}, "ranks 1-10 equally"),
        ([40] + [0] * 8 + [10], {"ctr": 0.328, "weighted": 0.143, "ips": 0.4, "ratio": 0.4}, "40 at rank 1, 10 at 10"),
    ],
)
def test_planted_expectations(shown, values, why):
    found = expected(shown)
    for name, value in values.items():
        assert found[name] == pytest.approx(value, abs=6e-4), (name, why)


def test_exposure_is_summed_over_each_shown_rank():
    """rank 1: 10 shown 5 clicked; rank 3: 10 shown 1 clicked."""
    assert f.ratio(np.array(6), np.array(10 + 10 / 3)) == pytest.approx(0.45)


def test_nothing_examined_gives_zero_and_no_warning():
    zero = np.zeros(2)
    for value in (f.ctr(zero, zero), f.ips(zero, zero), f.weighted(zero, zero), f.ratio(zero, zero)):
        assert value.tolist() == [0, 0]


@given(st.lists(st.integers(0, 300), min_size=10, max_size=10), st.floats(0.01, 0.99))
def test_ratio_never_varies_more_than_ips(shown, r):
    """Var(ratio) = sum n p r (1 - p r) / X^2 against Var(ips) = sum n r (1 - p r) / p / N^2."""
    n = np.array(shown, float)
    assume(n.sum() > 0)
    ratio = (n * P * r * (1 - P * r)).sum() / (n * P).sum() ** 2
    ips = (n * r * (1 - P * r) / P).sum() / n.sum() ** 2
    assert ratio <= ips * (1 + 1e-9)


def interval(clicks, shown, **options):
    n = np.asarray(shown, float)
    low, high = f.score_interval(
        np.array([clicks], float), np.array([(n * P).sum()]), np.array([(n * P**2).sum()]), **options
    )
    return float(low[0]), float(high[0])


def test_score_interval_at_one_rank_is_wilson():
    """At rank 1 the model is a binomial, whose score interval is Wilson's: 8 of 10 gives .490 to .943."""
    assert interval(8, [10] + [0] * 9) == pytest.approx((0.490, 0.943), abs=5e-4)


def test_score_interval_ends_solve_its_equation():
    n, clicks = np.full(10, 7.0), 5.0
    x, y = (n * P).sum(), (n * P**2).sum()
    for r in interval(clicks, n):
        assert (clicks - r * x) ** 2 == pytest.approx(f.Z**2 * (r * x - r**2 * y), rel=1e-9)


@given(st.integers(0, 60), st.lists(st.integers(0, 40), min_size=10, max_size=10), st.floats(0, 3))
def test_interval_holds_the_estimate_and_widens_with_the_curves_error(clicks, shown, error):
    n = np.array(shown, float)
    assume((n * P).sum() > 0)
    clicks = min(clicks, int(n.sum()))
    estimate = clicks / (n * P).sum()
    low, high = interval(clicks, n)
    wide_low, wide_high = interval(clicks, n, curve_variance=np.array([(error * (n * P).sum() / 4) ** 2]))
    assert 0 <= low <= estimate <= high * (1 + 1e-12)
    assert wide_low <= low + 1e-12
    assert wide_high >= min(high, 1.0) - 1e-12
    assert np.isfinite([low, high, wide_low, wide_high]).all()


def test_no_click_bounds_relevance_from_above_only():
    low, high = interval(0, [0, 40] + [0] * 8)
    assert low == 0
    assert high == pytest.approx(f.Z**2 / (20 + f.Z**2 / 2), rel=1e-9)


def test_a_curve_that_says_nothing_leaves_the_upper_end_at_one():
    assert interval(3, [10] * 10, curve_variance=np.array([1e9]))[1] == 1.0


def drawn(rng, *, queries, items, strength, mean=0.3, examined=8.0):
    mu = np.clip(rng.normal(mean, 0.1, queries), 0.02, None)
    r = rng.gamma(strength * mu[:, None], 1 / strength, (queries, items))
    x = rng.gamma(2.0, examined / 2, (queries, items))
    return rng.poisson(r * x).ravel(), x.ravel(), np.repeat(np.arange(queries), items), r.ravel()


@pytest.mark.parametrize("strength", [2.0, 10.0, 60.0])
def test_the_prior_strength_is_recovered(strength):
    c, x, group, _ = drawn(np.random.default_rng(1), queries=300, items=50, strength=strength)
    prior = f.fit_prior(c, x, group)
    assert prior.strength == pytest.approx(strength, rel=0.35)
    assert prior.mean == pytest.approx(0.3, abs=0.02)


def test_shrinking_halves_the_error_where_impressions_are_few():
    c, x, group, r = drawn(np.random.default_rng(2), queries=800, items=8, strength=10.0, examined=2.0)
    prior = f.fit_prior(c, x, group)
    mean = f.group_means(c, x, group, prior=prior)
    raw, shrunk = f.ratio(c, x), f.ratio_eb(c, x, mean, prior=prior)
    assert np.sqrt(np.mean((shrunk - r) ** 2)) < 0.5 * np.sqrt(np.mean((raw - r) ** 2))
    low, high = f.gamma_interval(c, x, mean, prior=prior)
    assert 0.92 < np.mean((low <= r) & (r <= high)) < 0.985


@pytest.mark.parametrize(
    ("clicks", "examined", "why"),
    [([0, 0, 0], [1.0, 2, 3], "no click"), ([], [], "no row"), ([0], [0.0], "nothing examined")],
)
def test_nothing_to_learn_shrinks_to_zero(clicks, examined, why):
    group = np.arange(len(clicks))
    prior = f.fit_prior(np.array(clicks, float), np.array(examined, float), group)
    assert prior.mean == 0.0, why
    assert f.ratio_eb(np.zeros(1), np.ones(1), np.zeros(1), prior=prior)[0] == 0.0


def test_one_item_a_query_does_not_break_the_prior():
    rng = np.random.default_rng(3)
    prior = f.fit_prior(rng.poisson(2.0, 50), np.full(50, 6.0), np.arange(50))
    assert np.isfinite([prior.strength, prior.group_strength, prior.mean]).all()
