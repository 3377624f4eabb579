"""Tabular expectation maximisation of the position-based model: one relevance per (query, item) pair.

P(click) = p_rank * r_pair. Richardson, Dominowska, Ragno (WWW 2007) and Chuklin, Markov, de Rijke: "Click Models for
Web Search" (2015), section 4. It has one parameter a pair: with few impressions a pair it stays wrong however many
there are.
"""

from dataclasses import dataclass

import numpy as np

_FLOOR = 1e-9  # a start at 0 is a fixed point of the update; from here it recovers
_CEILING = 1 - 1e-9
_TOLERANCE = 1e-9  # move of the curve in one plain update; slow tails hide a factor of 1,000 behind one step


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Sums per (pair, rank) as aligned arrays: 0-based `pair` and `rank`, `impressions`, `clicks` (floats)."""

    pair: np.ndarray
    rank: np.ndarray
    impressions: np.ndarray
    clicks: np.ndarray

    @property
    def ranks(self) -> int:
        """Number of ranks, counted to the deepest that occurs."""
        return int(self.rank.max()) + 1

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return int(self.pair.max()) + 1


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Curve relative to rank 1 (NaN where a rank has no impressions), steps taken, and whether it converged."""

    p: np.ndarray
    steps: int
    converged: bool


def fit(
    cells: Cells, *, start: np.ndarray | float = 0.5, max_steps: int = 20_000, tolerance: float = _TOLERANCE
) -> Fit:
    """Maximum likelihood by EM, accelerated by SQUAREM (Varadhan, Roland 2008) with a fall-back to the plain update.

    `start` is one examination for all ranks or one per rank; 0 is allowed. Convergence: a plain update moves no
    propensity relative to rank 1 by more than `tolerance`.
    """
    model = _Model(cells)
    state = model.initial(start)
    steps, moved, old = 0, np.inf, model.value(state)
    while steps < max_steps:
        first = model.update(state)
        second = model.update(first)
        steps += 2
        moved = model.moved(first, second)
        if moved < tolerance:
            state = second
            break
        state, old = _extrapolate(model, state, first, second, old)
    return Fit(p=model.curve(state), steps=steps, converged=moved < tolerance)


def _extrapolate(model: "_Model", state, first, second, old: float):
    """One SQUAREM step, kept only where the likelihood does not fall below that of the plain updates' start."""
    one = first - state
    two = second - first - one
    length = -np.sqrt((one @ one) / max(two @ two, 1e-300))
    if length < -1:
        jump = np.clip(state - 2 * length * one + length**2 * two, np.log(_FLOOR), np.log(_CEILING))
        settled = model.update(jump)
        value = model.value(settled)
        if np.isfinite(value) and value >= old:
            return settled, value
    return second, model.value(second)


class _Model:
    """The update on log parameters: ranks first, then the pairs that stand at two or more ranks.

    A pair at one rank only has a closed form, min(1, ctr / p): it is set, not iterated, which is most of the speed.
    """

    def __init__(self, cells: Cells) -> None:
        self.rank, self.pair = cells.rank, cells.pair
        self.n = np.maximum(cells.impressions.astype(float), cells.clicks)
        self.c = cells.clicks.astype(float)
        self.ranks, self.pairs = cells.ranks, cells.pairs
        self.rank_n = np.bincount(self.rank, self.n, self.ranks)
        self.pair_n = np.bincount(self.pair, self.n, self.pairs)
        self.single = np.bincount(self.pair, minlength=self.pairs)[self.pair] == 1
        self.rate = self.c / np.maximum(self.n, 1e-300)

    def initial(self, start: np.ndarray | float) -> np.ndarray:
        p = np.clip(np.broadcast_to(np.asarray(start, float), (self.ranks,)), 1e-3, 0.999)
        return np.log(np.concatenate([p, np.full(self.pairs, 0.5)]))

    def parts(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, r = np.exp(state[: self.ranks])[self.rank], np.exp(state[self.ranks :])[self.pair]
        return p, np.where(self.single, np.clip(self.rate / p, _FLOOR, _CEILING), r)

    def update(self, state: np.ndarray) -> np.ndarray:
        p, r = self.parts(state)
        none = (self.n - self.c) / (1 - p * r)
        new_p = np.bincount(self.rank, self.c + none * p * (1 - r), self.ranks) / np.maximum(self.rank_n, 1e-300)
        new_r = np.bincount(self.pair, self.c + none * r * (1 - p), self.pairs) / np.maximum(self.pair_n, 1e-300)
        return np.log(np.clip(np.concatenate([new_p, new_r]), _FLOOR, _CEILING))

    def value(self, state: np.ndarray) -> float:
        p, r = self.parts(state)
        return float((self.c * np.log(p * r) + (self.n - self.c) * np.log1p(-p * r)).sum())

    def curve(self, state: np.ndarray) -> np.ndarray:
        p = np.where(self.rank_n > 0, np.exp(state[: self.ranks]), np.nan)
        return p / p[0]

    def moved(self, one: np.ndarray, two: np.ndarray) -> float:
        return float(np.nanmax(np.abs(self.curve(one) - self.curve(two))))
