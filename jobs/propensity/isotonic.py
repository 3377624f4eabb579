"""Monotone curves: an examination probability that never rises with the rank (pool adjacent violators)."""

import numpy as np

_FIXED = 1e15  # stands for an infinite weight


def decreasing(values: np.ndarray, *, weights: np.ndarray) -> np.ndarray:
    """Weighted least-squares fit of `values` by a non-increasing sequence; both of shape (ranks,), weights above 0.

    `decreasing([1, .4, .6], weights=[1, 1, 1])` gives `[1, .5, .5]`. An infinite weight holds its value fixed.
    """
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, np.minimum(weights, _FIXED), strict=True):
        blocks.append((float(value), float(weight), 1))
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            blocks.append(_pooled(blocks.pop(), blocks.pop()))
    return np.concatenate([np.full(size, value) for value, _, size in blocks])


def _pooled(one: tuple[float, float, int], two: tuple[float, float, int]) -> tuple[float, float, int]:
    """One block of two; a weight of _FIXED or more keeps its value to the last digit."""
    weight, heavy = one[1] + two[1], max(one, two, key=lambda block: block[1])
    value = heavy[0] if heavy[1] >= _FIXED else (one[0] * one[1] + two[0] * two[1]) / weight
    return value, weight, one[2] + two[2]


def inside(values: np.ndarray, *, low: np.ndarray, high: np.ndarray) -> bool:
    """True if every value lies in its interval; an undefined bound (NaN) excludes nothing."""
    tiny = 1e-12
    return bool(np.all(~(values < low - tiny) & ~(values > high + tiny)))
