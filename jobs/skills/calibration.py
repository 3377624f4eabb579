"""What 30 labelled queries a subject are worth to a router, over 1,000 random splits. Part of evaluation only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LABELLED = 30
LEFT = 10  # queries that are measured on, at the least: the mean over the splits uses all of them
SPLITS = 1000
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of a skill's mean gain beside the router's own score


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Means over splits of nDCG on the queries that were not labelled; the 95% range of their difference."""

    calibrated: float
    uncalibrated: float
    low: float
    high: float
    labelled: int
    splits: int
    queries: int


def calibrate(
    scores: np.ndarray, values: np.ndarray, *, labelled: int = LABELLED, splits: int = SPLITS, seed: int = 0
) -> Calibration | None:
    """Correct a router by the skills' mean gains on labelled queries, and measure on the others.

    scores: float[n, s], the router's own score of each skill (standardised by query here). values: float[n, s], nDCG of
    each query under each skill. The weight of the gains is chosen on the labelled queries too. None where fewer than
    `LEFT` queries would be left to measure on, or there is nothing to choose.
    """
    n = len(values)
    if n < labelled + LEFT or values.shape[1] < 2:
        return None
    own = standardised(scores)
    rng = np.random.default_rng(seed)
    pairs = np.array([_split(own, values, rng.permutation(n), labelled) for _ in range(splits)])
    low, high = np.quantile(pairs[:, 0] - pairs[:, 1], [0.025, 0.975])
    return Calibration(
        calibrated=float(pairs[:, 0].mean()), uncalibrated=float(pairs[:, 1].mean()), low=float(low), high=float(high),
        labelled=labelled, splits=splits, queries=n,
    )


def standardised(scores: np.ndarray) -> np.ndarray:
    """Scores with mean 0 and deviation 1 over all queries and skills; zeros where they are all alike."""
    centred = scores - scores.mean(axis=1, keepdims=True)
    spread = centred.std() if centred.size else 0.0
    return centred / spread if spread > 0 else centred


def one_hot(choices: Sequence[str], names: Sequence[str]) -> np.ndarray:
    """Scores of a router that only names a skill: 1 for the chosen one, 0 for the others."""
    return np.array([[float(choice == name) for name in names] for choice in choices])


def _split(own: np.ndarray, values: np.ndarray, order: np.ndarray, labelled: int) -> tuple[float, float]:
    known, rest = order[:labelled], order[labelled:]
    gains = values[known].mean(axis=0)
    gains = (gains - gains.mean()) / max(float(values[known].std()), 1e-9)
    reached = [_reached(own[known], values[known], weight * gains) for weight in WEIGHTS]
    weight = WEIGHTS[int(np.argmax(reached))]  # the first of equal ones: the smallest correction
    return _reached(own[rest], values[rest], weight * gains), _reached(own[rest], values[rest], 0.0)


def _reached(own: np.ndarray, values: np.ndarray, bonus: np.ndarray | float) -> float:
    picks = (own + bonus).argmax(axis=1)
    return float(values[np.arange(len(values)), picks].mean())
