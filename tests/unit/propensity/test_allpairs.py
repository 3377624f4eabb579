"""Intervention harvesting on tables whose answer is known by construction."""

import numpy as np
import pytest

from jobs.propensity import allpairs


def tables(p, relevance, shown):
    """Noise-free rank-by-rank tables: clicks are exactly p_k r_kk' of the exposure."""
    ranks = len(p)
    exposure = np.full((1, ranks, ranks), float(shown))
    r = np.broadcast_to(relevance, (ranks, ranks))
    return exposure, exposure * np.asarray(p)[:, None] * (r + r.T) / 2


@pytest.mark.parametrize(
    ("p", "relevance", "why"),
    [
        ([1, 0.5, 1 / 3], 0.4, "the planted case"),
        ([1, 1, 1], 0.4, "no position bias at all"),
        ([1, 1.3, 0.2], 0.5, "a curve that is not monotone is found as it is"),
        ([1, 0.9, 0.8], 0.99, "click probabilities close to 1, where the log-likelihood is steep"),
        ([1, 1e-4, 1e-5], 0.5, "ranks that are hardly examined"),
        ([1, 0.5], 1e-6, "hardly any click"),
    ],
)
def test_noise_free_tables_give_the_planted_curve(p, relevance, why):
    found, converged = allpairs.solve(*tables(p, relevance, 1e6))
    np.testing.assert_allclose(found[0], p, rtol=1e-6, err_msg=why)
    assert converged.all()


def test_relevance_may_differ_between_pairs_of_ranks():
    relevance = np.array([[0, 0.9, 0.2], [0.9, 0, 0.05], [0.2, 0.05, 0]])
    found, _ = allpairs.solve(*tables([1, 0.6, 0.3], relevance, 1000))
    np.testing.assert_allclose(found[0], [1, 0.6, 0.3], rtol=1e-6)


def test_a_chain_of_neighbours_is_the_product_of_their_ratios():
    shown = np.zeros((1, 3, 3))
    clicked = np.zeros((1, 3, 3))
    for k, j, n, c in [(0, 1, 100, 40), (1, 0, 100, 20), (1, 2, 50, 20), (2, 1, 50, 5)]:
        shown[0, k, j], clicked[0, k, j] = n, c
    found, _ = allpairs.solve(shown, clicked)
    np.testing.assert_allclose(found[0], [1, 0.5, 0.125], rtol=1e-8)


@pytest.mark.parametrize(
    ("cells", "expected", "why"),
    [
        ([(0, 1, 9, 3), (1, 0, 9, 3)], [1, 1, np.nan], "rank 3 was never paired"),
        ([(1, 2, 9, 3), (2, 1, 9, 3)], [1, np.nan, np.nan], "ranks 2 and 3 are tied to each other, not to rank 1"),
        ([(0, 1, 9, 3), (1, 0, 9, 0)], [1, 0, np.nan], "rank 2 was paired and never clicked"),
        ([(0, 1, 9, 0), (1, 0, 9, 0)], [1, np.nan, np.nan], "no click at either rank says nothing of their ratio"),
        ([], [1, np.nan, np.nan], "nothing at all"),
    ],
)
def test_ranks_without_a_tie_are_undefined_not_guessed(cells, expected, why):
    shown, clicked = np.zeros((1, 3, 3)), np.zeros((1, 3, 3))
    for k, j, n, c in cells:
        shown[0, k, j], clicked[0, k, j] = n, c
    found, _ = allpairs.solve(shown, clicked)
    np.testing.assert_allclose(found[0], expected, err_msg=why)


def test_replicates_are_solved_apart():
    one, two = tables([1, 0.5], 0.4, 100), tables([1, 0.2], 0.4, 100)
    found, _ = allpairs.solve(np.concatenate([one[0], two[0]]), np.concatenate([one[1], two[1]]))
    np.testing.assert_allclose(found, [[1, 0.5], [1, 0.2]], rtol=1e-6)


def test_cells_where_every_exposure_was_clicked_do_not_break_the_fit():
    shown = np.array([[[0, 2.0, 3], [2, 0, 4], [3, 4, 0]]])
    clicked = np.array([[[0, 2.0, 3], [1, 0, 4], [1, 1, 0]]])
    found, _ = allpairs.solve(shown, clicked)
    assert np.isfinite(found).all()
    assert (found > 0).all()
