"""Tabular maximum likelihood of the position-based model: one relevance per (query, item) pair.

P(click) = p_rank * r_pair. Richardson, Dominowska, Ragno (WWW 2007) and Chuklin, Markov, de Rijke: "Click Models for
Web Search" (2015), section 4. It has one parameter a pair: with few impressions a pair it stays wrong however many
there are. EM alone needs thousands of steps to the last digits, so a few EM steps are followed by Newton steps on
the same likelihood, which is concave in log p and log r: both end at the same and only maximum.
"""

from dataclasses import dataclass

import numpy as np

from jobs.propensity.allpairs import linked_ranks

_EM_STEPS = 20
_FLOOR = 1e-9  # a start at 0 is a fixed point of the EM update; from here it recovers
_ALMOST = 1 - 1e-12  # largest fitted click probability
_TOLERANCE = 1e-9  # largest move of any log p in the last Newton step


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
    """Curve relative to rank 1, steps taken (EM and Newton), and whether it converged.

    A rank without clicks is 0; a rank that no chain of pairs at two ranks ties to rank 1 is NaN.
    """

    p: np.ndarray
    steps: int
    converged: bool


def fit(cells: Cells, *, start: np.ndarray | float = 0.5, max_steps: int = 200, tolerance: float = _TOLERANCE) -> Fit:
    """The curve that maximises the likelihood with every p_k r_j and r_j at most 1.

    `start` is the examination that EM begins with, one for all ranks or one per rank; 0 is allowed. Converged: a Newton
    step moves no log p by more than `tolerance`.
    """
    model = _Model(cells)
    a = model.warm_up(np.broadcast_to(np.asarray(start, float), (cells.ranks,)))
    value, b = model.profile(a)
    moved, steps = np.inf, 0
    while moved > tolerance and steps < max_steps:
        step = model.direction(a, b)
        a, b, value, moved = _advance(model, a, b, value, step)
        steps += 1
    return Fit(p=model.curve(a), steps=_EM_STEPS + steps, converged=bool(moved <= tolerance))


def _advance(model: "_Model", a: np.ndarray, b: np.ndarray, value: float, step: np.ndarray):
    """Halve the step until the likelihood does not fall; returns the new state and the largest move."""
    scale = min(1.0, 2.0 / max(np.abs(step).max(), 1e-300))
    for _ in range(30):
        trial = a + scale * step
        new, new_b = model.profile(trial, near=b)
        if new >= value - 1e-12 * abs(value):
            return trial, new_b, new, float(np.abs(scale * step).max())
        scale /= 2
    return a, b, value, 0.0


class _Model:
    """Cells that can inform the curve: of pairs with clicks, at ranks with clicks; all in log parameters a and b."""

    def __init__(self, cells: Cells) -> None:
        self.ranks = cells.ranks
        clicked = np.bincount(cells.rank, cells.clicks, cells.ranks)
        self.shown = np.bincount(cells.rank, cells.impressions, cells.ranks) > 0
        kept = (np.bincount(cells.pair, cells.clicks)[cells.pair] > 0) & (clicked[cells.rank] > 0)
        self.rank = cells.rank[kept]
        self.pair = np.unique(cells.pair[kept], return_inverse=True)[1]
        self.pairs = int(self.pair.max()) + 1 if len(self.pair) else 0
        self.c = cells.clicks[kept].astype(float)
        self.n = np.maximum(cells.impressions[kept], self.c)
        self.zero = self.shown & (clicked == 0)
        self.linked = self._linked()

    def _linked(self) -> np.ndarray:
        met = self._products(np.ones(len(self.rank)))
        np.fill_diagonal(met, 0.0)
        return linked_ranks(met[None])[0]

    def warm_up(self, start: np.ndarray) -> np.ndarray:
        """Plain EM from `start`: log p relative to rank 1."""
        p, r = np.clip(start, 1e-3, 0.999), np.full(self.pairs, 0.5)
        shown, exposure = np.bincount(self.rank, self.n, self.ranks), np.bincount(self.pair, self.n, self.pairs)
        for _ in range(_EM_STEPS):
            at, of = p[self.rank], r[self.pair]
            none = (self.n - self.c) / (1 - at * of)
            p = np.bincount(self.rank, self.c + none * at * (1 - of), self.ranks) / np.maximum(shown, _FLOOR)
            r = np.bincount(self.pair, self.c + none * of * (1 - at), self.pairs) / exposure
            p, r = np.clip(p, _FLOOR, 1 - _FLOOR), np.clip(r, _FLOOR, 1 - _FLOOR)
        return np.where(self.linked, np.log(p / p[0]), 0.0)

    def profile(self, a: np.ndarray, *, near: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """The likelihood with every log r at its best for these log p, and those log r.

        Each is a root of a falling function on (-inf, highest], found by Newton steps kept inside a shrinking bracket.
        """
        high = self._highest(a)
        low = high - 40.0
        b = high - 0.5 if near is None else np.clip(near, low, high)
        for _ in range(60):
            score, curve = self._slopes(a, b)
            pair_score = np.bincount(self.pair, score, self.pairs)
            up = pair_score > 0
            low, high = np.where(up, b, low), np.where(up, high, b)
            new = b + pair_score / np.maximum(np.bincount(self.pair, curve, self.pairs), 1e-300)
            new = np.where((new > low) & (new < high), new, (low + high) / 2)
            done = np.abs(new - b).max(initial=0.0) < 1e-12
            b = new
            if done:
                break
        mu = self._mu(a, b)
        return float((self.c * np.log(mu) + (self.n - self.c) * np.log1p(-mu)).sum()), b

    def direction(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Newton step of log p with the log r eliminated; pairs held at their bound are not."""
        score, curve = self._slopes(a, b)
        free = (b < self._highest(a) - 1e-9)[self.pair]
        total = np.bincount(self.pair, curve, self.pairs)[self.pair]
        matrix = -self._products(np.where(free, curve / np.sqrt(np.maximum(total, 1e-300)), 0.0))
        diagonal = np.arange(self.ranks)
        matrix[diagonal, diagonal] += np.bincount(self.rank, curve, self.ranks)
        right = np.bincount(self.rank, score, self.ranks)
        fixed = ~self.linked
        fixed[0] = True
        matrix[fixed, :] = matrix[:, fixed] = 0.0
        matrix[diagonal, diagonal] += np.where(fixed, 1.0, 1e-9 * (1 + matrix[diagonal, diagonal]))
        return np.linalg.solve(matrix, np.where(fixed, 0.0, right))

    def curve(self, a: np.ndarray) -> np.ndarray:
        """Propensities: 0 at ranks without clicks, NaN at ranks without a tie to rank 1."""
        return np.where(self.linked, np.exp(a), np.where(self.zero, 0.0, np.nan))

    def _highest(self, a: np.ndarray) -> np.ndarray:
        """Largest log r of each pair: r is at most 1, and so is every click probability."""
        deepest = np.zeros(self.pairs)
        np.maximum.at(deepest, self.pair, a[self.rank])
        return -deepest

    def _mu(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.minimum(np.exp(a[self.rank] + b[self.pair]), _ALMOST)

    def _slopes(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and negative second derivative of each cell's likelihood in its log click probability."""
        mu = self._mu(a, b)
        odds = mu / (1 - mu)
        return self.c - (self.n - self.c) * odds, (self.n - self.c) * odds / (1 - mu)

    def _products(self, values: np.ndarray) -> np.ndarray:
        """Sum over pairs of the outer product of `values` by rank: (ranks, ranks)."""
        from scipy.sparse import csr_array

        matrix = csr_array((values, (self.pair, self.rank)), shape=(self.pairs, self.ranks))
        return (matrix.T @ matrix).toarray()
