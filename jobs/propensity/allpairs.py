"""Intervention harvesting: position curve from (query, item) pairs that were shown at two ranks.

Agarwal, Zaitsev, Wang, Li, Najork, Joachims: "Estimating Position Bias without Intrusive Interventions" (WSDM 2019),
the AllPairs estimator. Per pair of ranks (k, k') the weighted clicks of the pairs shown at both follow p_k r_kk',
with one mean relevance r_kk' for both ranks; all p and r are found together by maximum likelihood.
"""

import numpy as np

_STEPS = 200
_TOLERANCE = 1e-9  # largest move of any log p in the last step: far below the 1e-6 that curves promise
_NEAR_ONE = -1e-9  # log of the largest fitted click probability; 1 itself has no likelihood


def solve(shown: np.ndarray, clicked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Propensities relative to rank 1 from rank-by-rank tables, one curve per replicate.

    `shown[b, k, j]` is the weighted exposure at rank k+1 of the pairs that were also shown at rank j+1, `clicked` the
    weighted clicks; both of shape (replicates, ranks, ranks), diagonal ignored. Returns `(p, converged)` of shapes
    (replicates, ranks) and (replicates,). A rank without clicks is 0, a rank that no chain of pairs ties to rank 1
    is NaN.
    """
    shown, clicked = _usable(shown, clicked)
    linked = _linked(clicked)
    inside = linked[:, :, None] & linked[:, None, :]
    a, converged = _newton(np.where(inside, shown, 0.0), np.where(inside, clicked, 0.0), linked)
    answered = (shown > 0) & (np.swapaxes(clicked, 1, 2) > 0) & linked[:, None, :]
    zero = answered.any(axis=2) & (clicked.sum(axis=2) == 0) & ~linked
    p = np.where(linked, np.exp(a), np.where(zero, 0.0, np.nan))
    return p, converged


def linked_ranks(clicked: np.ndarray) -> np.ndarray:
    """Which ranks a chain of pairs with clicks at both ranks ties to rank 1: bool of shape (replicates, ranks)."""
    return _linked(np.where(np.eye(clicked.shape[1], dtype=bool), 0.0, clicked))


def _usable(shown: np.ndarray, clicked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    shown, clicked = np.array(shown, float), np.array(clicked, float)
    both = (shown > 0) & (np.swapaxes(shown, 1, 2) > 0) & ~np.eye(shown.shape[1], dtype=bool)
    return np.where(both, shown, 0.0), np.where(both, np.minimum(clicked, shown), 0.0)


def _linked(clicked: np.ndarray) -> np.ndarray:
    edge = (clicked > 0) & (np.swapaxes(clicked, 1, 2) > 0)
    reached = np.zeros(clicked.shape[:2], bool)
    reached[:, 0] = True
    for _ in range(clicked.shape[1]):
        reached |= (edge & reached[:, None, :]).any(axis=2)
    return reached


def _newton(shown: np.ndarray, clicked: np.ndarray, linked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Damped Newton on log p and log r; the log-likelihood is concave in both, so the maximum is the only one."""
    a, b = _start(shown, clicked, linked)
    value = _likelihood(shown, clicked, a, b)
    converged = np.zeros(len(a), bool)
    for _ in range(_STEPS):
        da, db = _direction(shown, clicked, a, b, linked)
        a, b, value, moved = _step(shown, clicked, a, b, da, db, value)
        converged = moved < _TOLERANCE
        if converged.all():
            break
    return a, converged


def _start(shown: np.ndarray, clicked: np.ndarray, linked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pooled click rates by rank, pulled towards each other until every fitted probability is below 1."""
    rate = (clicked.sum(axis=2) + 0.5) / (shown.sum(axis=2) + 1.0)
    a = np.where(linked, np.log(rate / rate[:, :1]), 0.0)
    total = clicked + np.swapaxes(clicked, 1, 2)
    expected = shown * np.exp(a)[:, :, None]
    expected = expected + np.swapaxes(expected, 1, 2)
    b = np.log(np.maximum(total, 1e-12) / np.maximum(expected, 1e-12))
    highest = np.maximum(a[:, :, None], a[:, None, :])
    return a, np.minimum(b, -0.05 - highest)


def _likelihood(shown: np.ndarray, clicked: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    eta = np.minimum(a[:, :, None] + b, _NEAR_ONE)
    return (clicked * eta + (shown - clicked) * np.log(-np.expm1(eta))).sum(axis=(1, 2))


def _direction(shown, clicked, a, b, linked):
    """Newton's step, with the r of every pair of ranks eliminated: what remains is a weighted Laplacian over ranks."""
    eta = np.minimum(a[:, :, None] + b, _NEAR_ONE)
    odds = np.exp(eta) / -np.expm1(eta)
    score = clicked - (shown - clicked) * odds
    curve = np.maximum((shown - clicked) * odds * (1 + odds), 1e-12 * shown)
    other = np.swapaxes(curve, 1, 2)
    pair_curve = np.maximum(curve + other, 1e-300)
    pair_score = score + np.swapaxes(score, 1, 2)
    joint = curve * other / pair_curve
    matrix = -joint
    diagonal = np.arange(a.shape[1])
    matrix[:, diagonal, diagonal] = joint.sum(axis=2)
    right = score.sum(axis=2) - (curve * pair_score / pair_curve).sum(axis=2)
    fixed = ~linked
    fixed[:, 0] = True
    matrix = np.where(fixed[:, :, None] | fixed[:, None, :], 0.0, matrix)
    matrix[:, diagonal, diagonal] = np.where(fixed, 1.0, matrix[:, diagonal, diagonal] + 1e-12)
    da = np.linalg.solve(matrix, np.where(fixed, 0.0, right)[:, :, None])[:, :, 0]
    weighted = curve * da[:, :, None]
    db = (pair_score - weighted - np.swapaxes(weighted, 1, 2)) / pair_curve
    return da, np.where(shown > 0, db, 0.0)


def _step(shown, clicked, a, b, da, db, value):
    """Halve each replicate's step until its likelihood does not fall and no fitted probability passes 1."""
    scale = np.minimum(1.0, 3.0 / np.maximum(np.abs(da).max(axis=1), 1e-300))
    moved = np.full(len(a), np.inf)
    best_a, best_b, best = a, b, value
    for _ in range(40):
        open_ = np.isinf(moved)
        new_a, new_b = a + scale[:, None] * da, b + scale[:, None, None] * db
        inside = ((new_a[:, :, None] + new_b <= _NEAR_ONE) | (shown == 0)).all(axis=(1, 2))
        new = _likelihood(shown, clicked, new_a, new_b)
        good = open_ & inside & (new >= value - 1e-10 * np.abs(value))
        best_a = np.where(good[:, None], new_a, best_a)
        best_b = np.where(good[:, None, None], new_b, best_b)
        best = np.where(good, new, best)
        moved = np.where(good, np.abs(scale[:, None] * da).max(axis=1), moved)
        if not np.isinf(moved).any():
            break
        scale = np.where(np.isinf(moved), scale / 2, scale)
    return best_a, best_b, best, np.where(np.isinf(moved), np.abs(da).max(axis=1), moved)
