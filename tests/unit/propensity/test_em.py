"""Tabular EM against a plain loop, from hostile starts, and on cells that tempt it to divide by zero."""

import numpy as np
import pytest

from benchmarks.planted_counts import two_rankers
from jobs.propensity import em
from jobs.propensity.estimators import pair_counts


def cells_of(*rows):
    pair, rank, n, c = (np.array(column) for column in zip(*rows, strict=True))
    return em.Cells(pair=pair, rank=rank, impressions=n.astype(float), clicks=c.astype(float))


def plain_em(cells, *, steps):
    """The textbook update, unaccelerated."""
    theta, gamma = np.full(cells.ranks, 0.99), np.full(cells.pairs, 0.5)
    n, c = cells.impressions, cells.clicks
    for _ in range(steps):
        t, g = theta[cells.rank], gamma[cells.pair]
        none = (n - c) / (1 - t * g)
        theta = np.bincount(cells.rank, c + none * t * (1 - g)) / np.bincount(cells.rank, n)
        gamma = np.bincount(cells.pair, c + none * g * (1 - t)) / np.bincount(cells.pair, n)
    return theta / theta[0]


def test_acceleration_ends_where_the_plain_loop_ends():
    cells = pair_counts(two_rankers(3, queries=40, pages=200), max_rank=10, max_queries=1000).cells
    found = em.fit(cells)
    assert found.converged
    np.testing.assert_allclose(found.p, plain_em(cells, steps=20_000), atol=2e-4)
    assert found.steps < 50


@pytest.mark.parametrize("start", [0.0, 1e-12, 0.5, 0.999, 1.0], ids=str)
def test_the_start_does_not_matter(start):
    cells = pair_counts(two_rankers(4, queries=60, pages=100), max_rank=10, max_queries=1000).cells
    np.testing.assert_allclose(em.fit(cells, start=start).p, em.fit(cells, start=0.5).p, atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([(0, 0, 10, 5), (0, 2, 10, 1), (1, 1, 40, 0)], "rank 2 was shown and never clicked"),
        ([(0, 0, 10, 10), (0, 1, 10, 10)], "everything was clicked"),
        ([(0, 0, 10, 0), (0, 1, 10, 0), (1, 0, 5, 1)], "a pair without any click"),
        ([(0, 0, 1, 1), (0, 1, 1, 1)], "one impression a cell"),
        ([(0, 0, 2, 3), (0, 1, 4, 1)], "more clicks than impressions, as late clicks can give"),
    ],
)
def test_no_nan_and_no_infinity(rows, why):
    found = em.fit(cells_of(*rows))
    assert np.isfinite(found.p).all(), why
    assert (found.p >= 0).all(), why


@pytest.mark.parametrize(
    ("rows", "expected", "why"),
    [
        ([(0, 0, 10, 5), (0, 2, 10, 1)], [1, np.nan, 0.2], "rank 2 was never shown"),
        ([(0, 0, 10, 5), (1, 1, 10, 1)], [1, np.nan], "no pair stands at two ranks"),
        ([(0, 1, 10, 5), (0, 2, 10, 1)], [1, np.nan, np.nan], "nothing ties ranks 2 and 3 to rank 1"),
        ([(0, 0, 10, 0), (1, 0, 9, 1)], [1], "one rank only"),
    ],
)
def test_ranks_without_a_tie_are_undefined_not_guessed(rows, expected, why):
    np.testing.assert_allclose(em.fit(cells_of(*rows)).p, expected, atol=1e-6, err_msg=why)


def test_steps_that_run_out_are_reported():
    cells = pair_counts(two_rankers(3, queries=40, pages=20), max_rank=10, max_queries=1000).cells
    assert not em.fit(cells, max_steps=1).converged
