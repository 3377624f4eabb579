"""Is one judge better than another? Swap permutation, Williams' t, Zou's interval, McNemar, Holm.

Sources: Deutsch, Dror, Roth, TACL 2021 (permuting the judges' labels within inputs); Williams 1959 and Steiger 1980 as
in cocor (PLOS ONE 2015); Zou 2007; McNemar 1947; Holm 1979.
"""

import math

import numpy as np

from jobs.reports import association as assoc
from jobs.reports.resample import BATCH, one_blas_thread, query_codes

MANY_LEVELS = "the two judges answer on different scales, so their labels cannot be exchanged"


def swap_test(
    *, a: np.ndarray, b: np.ndarray, truth: np.ndarray, query: np.ndarray, samples: int, seed: int
) -> dict[str, float] | None:
    """Two-sided p per statistic under exchange of both judges' labels within a query, all pages of a query together.

    `a`, `b`, `truth` are float arrays (n,), `query` (n,) keys. Returns None (see MANY_LEVELS) unless both judges use
    the same few levels. p = (1 + permutations at least as far from 0) / (1 + samples), never 0; NaN where undefined.
    """
    levels = np.unique(np.r_[a, b])
    if len(levels) > assoc.FEW_LEVELS:
        return None
    with one_blas_thread():
        return _swap_p(_Swap(a, b, truth, query, levels), samples, seed)


def _swap_p(test: "_Swap", samples: int, seed: int) -> dict[str, float]:
    observed = test.differences(np.zeros((1, test.queries)))[0]
    extreme, defined = np.zeros(4), np.zeros(4)
    for number, begin in enumerate(range(0, samples, BATCH)):
        rng = np.random.Generator(np.random.PCG64([seed, number]))
        swapped = rng.integers(0, 2, (BATCH, test.queries))[: min(BATCH, samples - begin)]
        drawn = test.differences(swapped.astype(np.float64))
        extreme += (np.abs(drawn) >= np.abs(observed) - 1e-12).sum(axis=0)
        defined += (~np.isnan(drawn)).sum(axis=0)
    p = np.where(np.isnan(observed) | (defined < samples), np.nan, (1 + extreme) / (1 + samples))
    return dict(zip(assoc.STATISTICS, map(float, p), strict=True))


class _Swap:
    """Differences b - a of the four statistics after exchanging labels in chosen queries.

    Counts and rank sums per level are linear in the choice; only the pairs between middle levels need the pages.
    """

    def __init__(self, a: np.ndarray, b: np.ndarray, truth: np.ndarray, query: np.ndarray, values: np.ndarray) -> None:
        order = assoc.TruthOrder.of(truth)
        self.batch = assoc.WeightedTruth.of(order, np.ones((1, len(truth))))
        self.columns = query_codes(query)[order.order]
        self.queries = int(self.columns.max()) + 1
        self.a, self.b = (np.searchsorted(values, x[order.order]) for x in (a, b))
        self.top = len(values) - 1
        hot = [np.equal.outer(x, np.arange(len(values))).astype(np.float64) for x in (self.a, self.b)]
        self.counts = [h.sum(axis=0) for h in hot]
        self.ranks = [self.batch.ranked[0] @ h for h in hot]
        change = np.zeros((2, self.queries, len(values)))
        np.add.at(change[0], self.columns, hot[1] - hot[0])
        np.add.at(change[1], self.columns, (hot[1] - hot[0]) * self.batch.ranked[0][:, None])
        self.change = change

    def differences(self, swapped: np.ndarray) -> np.ndarray:
        """(samples, 4) for `swapped` (samples, queries) of 0 and 1."""
        moved, moved_ranks = swapped @ self.change[0], swapped @ self.change[1]
        found = []
        for sign, base, ranks, own, other in (
            (1, self.counts[0], self.ranks[0], self.a, self.b),
            (-1, self.counts[1], self.ranks[1], self.b, self.a),
        ):
            counts, rank_sums = base + sign * moved, ranks + sign * moved_ranks
            concordant = rank_sums[:, self.top] - counts[:, self.top] * (self.batch.total + 1)
            for level in range(1, self.top):
                concordant = concordant + self._between(swapped, own, other, level)
            values = assoc.from_counts(counts=counts, rank_sums=rank_sums, concordant=concordant, batch=self.batch)
            found.append(np.stack([values[s] for s in assoc.STATISTICS], axis=1))
        return found[1] - found[0]

    def _between(self, swapped: np.ndarray, own: np.ndarray, other: np.ndarray, level: int) -> np.ndarray:
        """Concordant minus discordant pairs of one level with all below it."""
        columns = np.flatnonzero((own <= level) | (other <= level))
        own, other = own[columns], other[columns]
        chosen = swapped[:, self.columns[columns]]
        upper = _mixed(chosen, own == level, other == level)
        lower = _mixed(chosen, own < level, other < level)
        if self.batch.truth.tied:
            starts = np.flatnonzero(np.r_[True, np.diff(self.batch.truth.group[columns]) != 0])
            upper, lower = (np.add.reduceat(x, starts, axis=1) for x in (upper, lower))
        upto = np.cumsum(lower, axis=1)
        return np.einsum("ij,ij->i", upper, 2 * upto - lower) - upper.sum(axis=1) * upto[:, -1]


def _mixed(chosen: np.ndarray, own: np.ndarray, other: np.ndarray) -> np.ndarray:
    return own.astype(np.float64) + chosen * (other.astype(np.float64) - own)


def williams_t(*, r_a: float, r_b: float, r_ab: float, n: int) -> tuple[float, float] | None:
    """Williams' t and two-sided p for two correlations with one truth (`r_a`, `r_b`), the judges correlating `r_ab`.

    t has n - 3 degrees of freedom. None where it is undefined (n <= 3, or judges that are one and the same).
    """
    from scipy.special import stdtr  # scipy.stats would take half a second to import

    if n <= 3:
        return None
    determinant = 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab
    below = 2 * determinant * (n - 1) / (n - 3) + (r_a + r_b) ** 2 / 4 * (1 - r_ab) ** 3
    if below <= 0:
        return None
    t = (r_a - r_b) * math.sqrt((n - 1) * (1 + r_ab) / below)
    return t, float(2 * stdtr(n - 3, -abs(t)))


def zou_interval(*, r_a: float, r_b: float, r_ab: float, n: int, level: float = 0.95) -> tuple[float, float] | None:
    """Zou's (2007) interval of r_a - r_b for two correlations that share the truth; None for n <= 3 or |r| = 1."""
    from scipy.special import ndtri

    if n <= 3 or max(abs(r_a), abs(r_b)) >= 1:
        return None
    half = float(ndtri((1 + level) / 2)) / math.sqrt(n - 3)
    (low_a, high_a), (low_b, high_b) = (
        (math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)) for r in (r_a, r_b)
    )
    both = ((r_ab - 0.5 * r_a * r_b) * (1 - r_a**2 - r_b**2 - r_ab**2) + r_ab**3) / ((1 - r_a**2) * (1 - r_b**2))
    down = (r_a - low_a) ** 2 + (high_b - r_b) ** 2 - 2 * both * (r_a - low_a) * (high_b - r_b)
    up = (high_a - r_a) ** 2 + (r_b - low_b) ** 2 - 2 * both * (high_a - r_a) * (r_b - low_b)
    return r_a - r_b - math.sqrt(max(down, 0)), r_a - r_b + math.sqrt(max(up, 0))


def mcnemar(*, only_a: int, only_b: int) -> float:
    """Exact two-sided p of McNemar's test from the two discordant counts; 1 where there is none."""
    from scipy.stats import binomtest

    discordant = only_a + only_b
    return float(binomtest(min(only_a, only_b), discordant, 0.5).pvalue) if discordant else 1.0


def holm(p: list[float | None]) -> list[float | None]:
    """Holm's adjusted p values in the given order; None and NaN stay None and do not count as tests."""
    known = [(value, i) for i, value in enumerate(p) if value is not None and not math.isnan(value)]
    adjusted: list[float | None] = [None] * len(p)
    worst = 0.0
    for place, (value, i) in enumerate(sorted(known)):
        worst = max(worst, min(1.0, value * (len(known) - place)))
        adjusted[i] = worst
    return adjusted
