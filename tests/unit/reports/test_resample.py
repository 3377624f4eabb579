"""The bootstrap over queries: what decides a draw, what does not, and whether its intervals cover."""

import numpy as np
import pytest

from jobs.reports.association import STATISTICS, association
from jobs.reports.resample import BATCH, Subset, bootstrap, draw_batch, interval, mean_samples, query_codes


def world(n: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    truth = rng.random(n)
    labels = {s: np.clip(np.round(2 * (truth + rng.normal(0, d, n))), 0, 2) / 2 for s, d in (("a", 0.5), ("b", 0.3))}
    labels["graded"] = truth + rng.normal(0, 0.4, n)
    return truth, rng.integers(0, n * 5 // 6, n), labels


def run(truth, query, labels, *, workers=1, samples=3 * BATCH + 5):
    subset = Subset(name="all", rows=np.arange(len(truth)), labels=labels)
    return bootstrap(truth=truth, query=query, subsets=[subset], samples=samples, seed=5, workers=workers)


def test_a_resample_equals_the_statistic_of_the_repeated_rows():
    truth, query, labels = world()
    found = run(truth, query, labels)
    codes = query_codes(query)
    draws = draw_batch(int(codes.max()) + 1, size=BATCH, seed=5, number=0)
    for sample in (0, 7):
        taken = np.repeat(np.arange(len(truth)), draws[sample][codes].astype(int))
        for judge, x in labels.items():
            expected = association(x[taken], truth[taken])
            assert found["all", judge][sample] == pytest.approx([expected[s] for s in STATISTICS], abs=1e-12), judge


def test_neither_row_order_nor_workers_change_a_bit():
    truth, query, labels = world()
    order = np.random.default_rng(1).permutation(len(truth))
    first = run(truth, query, labels, workers=1)
    second = run(truth[order], query[order], {j: x[order] for j, x in labels.items()}, workers=4)
    assert all((first[k] == second[k]).all() for k in first)


def test_all_pages_of_a_query_are_drawn_together():
    values = np.array([[0.0], [10.0], [10.0], [10.0]])
    drawn = mean_samples(values, np.array([1, 2, 2, 2]), samples=500, seed=0)[:, 0]
    assert set(np.round(drawn, 6)) == {0.0, 7.5, 10.0}


def test_missing_values_leave_their_column_only():
    values = np.array([[1.0, np.nan], [1.0, 3.0]])
    drawn = mean_samples(values, np.array([1, 2]), samples=200, seed=0)
    assert (drawn[:, 0] == 1).all()
    assert set(drawn[~np.isnan(drawn[:, 1]), 1]) == {3.0}


@pytest.mark.parametrize(
    ("why", "samples", "defined"),
    [
        ("all defined", np.linspace(0, 1, 1001), True),
        ("a tenth undefined", np.r_[np.linspace(0, 1, 900), np.full(100, np.nan), 1.0], False),
        ("a computed prefix counts as the sample", np.r_[np.linspace(0, 1, 500), np.full(1500, np.nan)], True),
        ("nothing defined", np.full(500, np.nan), False),
    ],
)
def test_interval_needs_defined_samples(why, samples, defined):
    found = interval(samples)
    assert (found is not None) == defined, why
    if defined:
        assert found == pytest.approx((0.025, 0.975), abs=0.002)


def test_intervals_cover_the_true_value():
    """600 experiments of 150 queries: 92% to 98% of the 95% intervals hold the value of a very large sample."""
    truth, _, labels = world(200_000, seed=9)
    target = association(labels["b"], truth)["spearman"] - association(labels["a"], truth)["spearman"]
    alone = association(labels["b"], truth)["spearman"]
    covered, covered_alone, runs = 0, 0, 600
    for seed in range(runs):
        t, _, x = world(150, seed=100 + seed)
        del x["graded"]
        found = run(t, np.arange(150), x, samples=2 * BATCH + 72)
        low, high = interval(found["all", "b"][:, 0] - found["all", "a"][:, 0])
        covered += low <= target <= high
        low, high = interval(found["all", "b"][:, 0])
        covered_alone += low <= alone <= high
    assert 0.92 <= covered / runs <= 0.98
    assert 0.92 <= covered_alone / runs <= 0.98
