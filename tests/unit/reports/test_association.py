"""Rank association against scipy, whatever the ties, weights and order of rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, spearmanr

from jobs.reports import statistics
from jobs.reports.association import Levels, TruthOrder, WeightedTruth, associate_graded, associate_levels, association

CASES = [
    # name, labels, truth levels (0: continuous)
    ("two levels", 2, 0),
    ("three levels, as judges answer", 3, 0),
    ("three levels against three human levels: ties on both sides", 3, 3),
    ("eleven levels", 11, 0),
    ("more levels than the counting path takes", 60, 0),
    ("many levels and tied truth", 60, 7),
]


def drawn(levels: int, truths: int, n: int = 90, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.random(n)
    labels = np.round((truth + rng.normal(0, 0.3, n)).clip(0, 1) * (levels - 1)) / (levels - 1)
    return labels, np.round(truth * (truths - 1)) if truths else truth


@pytest.mark.parametrize(("why", "levels", "truths"), CASES)
def test_equals_scipy(why, levels, truths):
    labels, truth = drawn(levels, truths)
    found = association(labels, truth)
    assert found["spearman"] == pytest.approx(spearmanr(labels, truth).statistic, abs=1e-12), why
    assert found["kendall_b"] == pytest.approx(kendalltau(labels, truth).statistic, abs=1e-12), why
    assert found["kendall_c"] == pytest.approx(kendalltau(labels, truth, variant="c").statistic, abs=1e-12), why


@pytest.mark.parametrize(
    ("why", "labels", "truth", "accuracy"),
    [
        ("all pairs right", [0, 0.5, 1], [1, 2, 3], 1.0),
        ("all pairs wrong", [1, 0.5, 0], [1, 2, 3], 0.0),
        ("a judge's tie counts half", [0, 1, 1], [1, 2, 3], (1 + 1 + 0.5) / 3),
        ("pairs of equal truth do not count", [0, 1, 0.5], [1, 2, 2], 1.0),
    ],
)
def test_pairwise_accuracy_by_hand(why, labels, truth, accuracy):
    assert statistics.pairwise_accuracy(labels, truth) == pytest.approx(accuracy), why


@pytest.mark.parametrize(
    ("why", "labels", "truth"),
    [
        ("constant labels", [1, 1, 1, 1], [1, 2, 3, 4]),
        ("constant truth", [0, 1, 0, 1], [5, 5, 5, 5]),
        ("one page", [1], [1]),
        ("no page", [], []),
    ],
)
def test_undefined_is_none_never_zero(why, labels, truth):
    assert statistics.spearman(labels, truth) is None, why
    assert statistics.kendall_b(labels, truth) is None, why
    assert statistics.kendall_c(labels, truth) is None, why


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 6), st.integers(0, 3)), min_size=2, max_size=30
    ),
    st.randoms(use_true_random=False),
)
def test_weights_are_repetitions_and_order_is_nothing(rows, random):
    labels, truth, weights = (np.array(x, float) for x in zip(*rows, strict=True))
    repeated = np.repeat(np.arange(len(rows)), weights.astype(int))
    random.shuffle(rows)
    shuffled = [np.array(x, float) for x in zip(*rows, strict=True)]
    expected = association(labels[repeated], truth[repeated])
    for x, y, w in ((labels, truth, weights), shuffled):
        order = TruthOrder.of(y)
        batch = WeightedTruth.of(order, w[order.order][None, :])
        counted = associate_levels(Levels.of(x, order), batch)
        sorted_ = associate_graded(x, batch)
        for name in ("spearman", "kendall_b", "kendall_c", "pairwise_accuracy"):
            assert counted[name][0] == pytest.approx(expected[name], nan_ok=True, abs=1e-12)
        assert sorted_["spearman"][0] == pytest.approx(expected["spearman"], nan_ok=True, abs=1e-12)


def test_selecting_flips_amplifies_the_difference():
    """Two judges at .400 and .444 on all pages stand at about .140 and .259 on the pages on which they differ."""
    rng = np.random.default_rng(3)
    n, shared, cut = 60_000, 0.6, 0.31
    truth, common = rng.normal(size=n), rng.normal(size=n)
    judges = []
    for signal in (0.453, 0.499):
        noise = np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.normal(size=n)
        seen = signal * truth + np.sqrt(1 - signal**2) * noise
        judges.append(np.digitize(seen, np.quantile(seen, [cut, 1 - cut])) / 2)
    flipped = judges[0] != judges[1]
    on_all = [statistics.spearman(j, truth) for j in judges]
    on_flips = [statistics.spearman(j[flipped], truth[flipped]) for j in judges]
    assert on_all == pytest.approx([0.400, 0.444], abs=0.01)
    assert on_flips == pytest.approx([0.140, 0.259], abs=0.02)
    assert on_flips[1] - on_flips[0] > 2 * (on_all[1] - on_all[0])
