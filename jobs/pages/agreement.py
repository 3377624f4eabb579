"""How well raters agree: exact pairwise agreement and Krippendorff's alpha with the interval metric."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np


def agreement(units: Iterable[Sequence[float]]) -> dict[str, Any]:
    """Agreement over units (pages or items), each the labels that it got from different raters.

    Returns units (those with two labels or more), exact_pairs (share of rater pairs that agree exactly) and alpha
    (Krippendorff 2011, interval metric: 1 - observed / expected disagreement), null with a `reason` where undefined.
    """
    rated = [np.asarray(unit, dtype=float) for unit in units if len(unit) > 1]
    if not rated:
        return {"units": 0, "exact_pairs": None, "alpha": None, "reason": "nothing was rated twice"}
    pairs = [a == b for unit in rated for a, b in combinations(unit, 2)]
    result = {"units": len(rated), "exact_pairs": float(np.mean(pairs)), "alpha": None, "reason": None}
    everything = np.concatenate(rated)
    spread = float(((everything - everything.mean()) ** 2).sum())
    if spread == 0:
        return {**result, "reason": "all labels of doubly rated units are equal"}
    within = sum(len(u) * float(((u - u.mean()) ** 2).sum()) / (len(u) - 1) for u in rated)
    observed, expected = within / len(everything), spread / (len(everything) - 1)
    return {**result, "alpha": 1 - observed / expected}
