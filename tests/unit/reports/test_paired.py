"""Paired tests: published worked examples, independent libraries, and their error rate under equal judges."""

import itertools

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests

from jobs.reports.association import STATISTICS, association
from jobs.reports.paired import holm, mcnemar, swap_test, williams_t, zou_interval


def test_williams_worked_example():
    """Silver, Hittner, May 2006 (Applied Psychological Measurement 30): r .3 and .4, .5 between, n 100."""
    t, p = williams_t(r_a=0.3, r_b=0.4, r_ab=0.5, n=100)
    assert round(t, 4) == -1.0767
    assert round(p, 4) == 0.2843


def test_zou_worked_example():
    """Zou 2007 (Psychological Methods 12), overlapping correlations .396 and .179, .088 between, n 66."""
    low, high = zou_interval(r_a=0.396, r_b=0.179, r_ab=0.088, n=66)
    assert (round(low, 3), round(high, 3)) == (-0.093, 0.517)


@pytest.mark.parametrize(
    ("why", "values"),
    [("too few pages", (0.3, 0.4, 0.5, 3)), ("one and the same judge", (0.3, 0.3, 1.0, 100))],
)
def test_williams_undefined(why, values):
    r_a, r_b, r_ab, n = values
    found = williams_t(r_a=r_a, r_b=r_b, r_ab=r_ab, n=n)
    assert found is None or found[0] == 0, why


@pytest.mark.parametrize(("only_a", "only_b"), [(0, 0), (1, 0), (3, 12), (20, 20), (40, 25)])
def test_mcnemar_equals_statsmodels(only_a, only_b):
    theirs = statsmodels_mcnemar([[5, only_a], [only_b, 7]], exact=True).pvalue if only_a + only_b else 1.0
    assert mcnemar(only_a=only_a, only_b=only_b) == pytest.approx(min(1.0, theirs))


def test_holm_equals_statsmodels_and_skips_what_was_not_tested():
    p = [0.01, None, 0.04, 0.03, float("nan"), 0.005]
    expected = multipletests([0.01, 0.04, 0.03, 0.005], method="holm")[1]
    found = holm(p)
    assert [found[0], found[2], found[3], found[5]] == pytest.approx(list(expected))
    assert found[1] is None
    assert found[4] is None


def judges(rng: np.random.Generator, n: int = 265, spread: float = 0.3) -> tuple[np.ndarray, ...]:
    truth = rng.random(n)
    seen = truth + rng.normal(0, 0.5, n)
    a, b = (np.clip(np.round(2 * (seen + rng.normal(0, spread, n))), 0, 2) / 2 for _ in "ab")
    return truth, a, b


@pytest.mark.parametrize("ties", [False, True])
def test_swap_test_equals_all_exchanges_by_hand(ties):
    rng = np.random.default_rng(4)
    truth, a, b = judges(rng, n=10)
    truth = np.round(truth * 3) if ties else truth
    query = np.array([0, 0, 1, 2, 3, 4, 5, 6, 6, 7])
    found = swap_test(a=a, b=b, truth=truth, query=query, samples=20_000, seed=0)
    observed = {s: association(b, truth)[s] - association(a, truth)[s] for s in STATISTICS}
    extreme = dict.fromkeys(STATISTICS, 0)
    for bits in itertools.product([False, True], repeat=8):
        swap = np.array(bits)[query]
        x, y = np.where(swap, b, a), np.where(swap, a, b)
        left, right = association(x, truth), association(y, truth)
        for s in STATISTICS:
            extreme[s] += abs(right[s] - left[s]) >= abs(observed[s]) - 1e-12
    for s in STATISTICS:
        assert found[s] == pytest.approx(extreme[s] / 256, abs=0.015), s


def test_swap_test_needs_one_scale():
    rng = np.random.default_rng(0)
    truth, a, _ = judges(rng)
    assert swap_test(a=a, b=rng.random(265), truth=truth, query=np.arange(265), samples=10, seed=0) is None


def test_equal_judges_are_rejected_at_the_stated_rate():
    """n 265, three-level labels, equal judges: 3% to 7% of 1,000 tests at the 5% level."""
    rejected = 0
    for seed in range(1000):
        truth, a, b = judges(np.random.default_rng(seed))
        p = swap_test(a=a, b=b, truth=truth, query=np.arange(265), samples=255, seed=seed)
        rejected += p["spearman"] <= 0.05
    assert 0.03 <= rejected / 1000 <= 0.07


def test_a_better_judge_is_found():
    rng = np.random.default_rng(1)
    truth = rng.random(800)
    a, b = (np.clip(np.round(2 * (truth + rng.normal(0, s, 800))), 0, 2) / 2 for s in (0.9, 0.4))
    p = swap_test(a=a, b=b, truth=truth, query=np.arange(800), samples=999, seed=0)
    assert all(p[s] == pytest.approx(0.001) for s in STATISTICS)
