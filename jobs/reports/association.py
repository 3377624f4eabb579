"""Rank association of labels with a truth, weighted, for many resamples at once.

A resample gives every page a whole weight (how often its query was drawn). All sums stay whole numbers below 2^53, so
that results depend neither on the order of rows nor on the number of workers. Labels of few levels need no sorting per
resample: the truth is sorted once, and counts and rank sums per level give Spearman, Kendall and pairwise accuracy.
"""

from dataclasses import dataclass

import numpy as np

STATISTICS = ("spearman", "kendall_b", "kendall_c", "pairwise_accuracy")
FEW_LEVELS = 12
"""Labels with at most this many distinct values take the counting path; graded judges have 3 to 11 levels."""


@dataclass(frozen=True)
class TruthOrder:
    """Pages sorted by truth: `order` (n,) page index, `group` (n,) tie group of each sorted page, `starts` of them."""

    order: np.ndarray
    group: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, truth: np.ndarray) -> "TruthOrder":
        """Sort a float array (n,) without NaN."""
        order = np.argsort(truth, kind="stable")
        new = np.r_[True, np.diff(truth[order]) != 0] if len(order) else np.zeros(0, bool)
        return cls(order, np.cumsum(new) - 1, np.flatnonzero(new))

    @property
    def tied(self) -> bool:
        """True if two pages share a truth."""
        return len(self.starts) < len(self.order)

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """Sum of weights (samples, n sorted pages) per tie group: (samples, groups)."""
        return np.add.reduceat(weights, self.starts, axis=1) if self.tied else weights

    def spread(self, per_group: np.ndarray) -> np.ndarray:
        """Inverse direction: the value of its group for each sorted page."""
        return per_group[:, self.group] if self.tied else per_group


@dataclass(frozen=True)
class WeightedTruth:
    """What all judges share in a batch: `weights` (samples, n) in truth order, doubled mid-ranks, totals and ties."""

    truth: TruthOrder
    weights: np.ndarray
    ranked: np.ndarray
    total: np.ndarray
    variance: np.ndarray
    tied_pairs: np.ndarray
    groups: np.ndarray

    @classmethod
    def of(cls, truth: TruthOrder, weights: np.ndarray) -> "WeightedTruth":
        """Rank the truth under each row of `weights` (samples, n), whose columns are in truth order."""
        grouped = truth.sums(weights)
        upto = np.cumsum(grouped, axis=1)
        total = upto[:, -1]
        middle = 2 * upto - grouped + 1
        ranked = weights * truth.spread(middle)
        squares = np.einsum("ij,ij,ij->i", grouped, middle, middle)
        tied = (np.einsum("ij,ij->i", grouped, grouped) - total) / 2
        return cls(truth, weights, ranked, total, squares - total * (total + 1) ** 2, tied, (grouped > 0).sum(axis=1))


@dataclass(frozen=True)
class Between:
    """One middle level against all lower ones: columns (in truth order) of its pages and of the lower levels' pages,
    and for each of its pages how many lower pages stand before its tie group (`left`) and up to its end (`right`)."""

    upper: np.ndarray
    lower: np.ndarray
    left: np.ndarray
    right: np.ndarray


@dataclass(frozen=True)
class Levels:
    """Labels of few levels in truth order: their one-hot matrix (n, levels) and the middle levels' places."""

    one_hot: np.ndarray
    between: tuple[Between, ...]

    @classmethod
    def of(cls, labels: np.ndarray, truth: TruthOrder) -> "Levels":
        """Code labels (n,) given in page order."""
        values, codes = np.unique(labels[truth.order], return_inverse=True)
        one_hot = np.equal.outer(codes, np.arange(len(values))).astype(np.float64)
        return cls(one_hot, tuple(_between(codes, truth, level) for level in range(1, len(values) - 1)))


def _between(codes: np.ndarray, truth: TruthOrder, level: int) -> Between:
    upper, lower = np.flatnonzero(codes == level), np.flatnonzero(codes < level)
    ends = (np.searchsorted(truth.group[lower], truth.group[upper], side=side) for side in ("left", "right"))
    return Between(upper, lower, *ends)


def few_levels(labels: np.ndarray) -> bool:
    """True if the labels take the counting path."""
    return len(np.unique(labels)) <= FEW_LEVELS


def level_sums(levels: Levels, batch: WeightedTruth) -> tuple[np.ndarray, np.ndarray]:
    """Per sample and level: weight, and sum of doubled truth ranks; both (samples, levels)."""
    return batch.weights @ levels.one_hot, batch.ranked @ levels.one_hot


def concordance(levels: Levels, batch: WeightedTruth, counts: np.ndarray, rank_sums: np.ndarray) -> np.ndarray:
    """Concordant minus discordant pairs (samples,).

    The sum of truth ranks of the top level already compares it with all others; each level between needs one running
    sum over the pages below it.
    """
    top = rank_sums.shape[1] - 1
    found = rank_sums[:, top] - counts[:, top] * (batch.total + 1)
    for one in levels.between:
        found = found + _against_lower(one, batch)
    return found


def _against_lower(one: Between, batch: WeightedTruth) -> np.ndarray:
    """Per sample: weight of pairs with the lower page below, minus those with it above."""
    upto = np.zeros((len(batch.weights), len(one.lower) + 1))
    np.cumsum(np.take(batch.weights, one.lower, axis=1), axis=1, out=upto[:, 1:])
    below = np.take(upto, one.left, axis=1)
    below += below if not batch.truth.tied else np.take(upto, one.right, axis=1)
    upper = np.take(batch.weights, one.upper, axis=1)
    return np.einsum("ij,ij->i", upper, below) - upper.sum(axis=1) * upto[:, -1]


def from_counts(
    *, counts: np.ndarray, rank_sums: np.ndarray, concordant: np.ndarray, batch: WeightedTruth
) -> dict[str, np.ndarray]:
    """The four statistics (samples,) from sums per level; NaN where a statistic is undefined."""
    upto = np.cumsum(counts, axis=1)
    middle = 2 * upto - counts + 1
    centre = batch.total * (batch.total + 1) ** 2
    covariance = np.einsum("ij,ij->i", middle, rank_sums) - centre
    variance = np.einsum("ij,ij,ij->i", counts, middle, middle) - centre
    tied = (np.einsum("ij,ij->i", counts, counts) - batch.total) / 2
    return combine(
        covariance=covariance,
        variance=variance,
        concordant=concordant,
        tied_pairs=tied,
        levels=(counts > 0).sum(axis=1),
        batch=batch,
    )


def combine(
    *,
    covariance: np.ndarray,
    variance: np.ndarray,
    concordant: np.ndarray,
    tied_pairs: np.ndarray,
    levels: np.ndarray,
    batch: WeightedTruth,
) -> dict[str, np.ndarray]:
    """Spearman, tau-b, tau-c and pairwise accuracy with half credit for the judge's ties, from their sums."""
    pairs = batch.total * (batch.total - 1) / 2
    classes = np.minimum(levels, batch.groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        spearman = covariance / np.sqrt(variance * batch.variance)
        tau_b = concordant / np.sqrt((pairs - tied_pairs) * (pairs - batch.tied_pairs))
        tau_c = 2 * concordant * classes / (batch.total**2 * (classes - 1))
        accuracy = 0.5 + concordant / (2 * (pairs - batch.tied_pairs))
    undefined = (levels < 2) | (batch.groups < 2)
    values = (spearman, tau_b, tau_c, accuracy)
    return {
        name: np.where(undefined, np.nan, np.clip(value, -1, 1)) for name, value in zip(STATISTICS, values, strict=True)
    }


def associate_levels(levels: Levels, batch: WeightedTruth) -> dict[str, np.ndarray]:
    """The four statistics (samples,) of labels of few levels."""
    counts, rank_sums = level_sums(levels, batch)
    found = concordance(levels, batch, counts, rank_sums)
    return from_counts(counts=counts, rank_sums=rank_sums, concordant=found, batch=batch)


def associate_graded(
    labels: np.ndarray, batch: WeightedTruth, concordant: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """The four statistics (samples,) of labels of many levels, given in page order.

    `concordant` (samples,) may hold concordant minus discordant pairs; without it only Spearman is computed and the
    pair statistics are NaN (they cost a matrix of all pairs).
    """
    labels = labels[batch.truth.order]
    by_label = TruthOrder.of(labels)
    weights = batch.weights[:, by_label.order]
    grouped = by_label.sums(weights)
    upto = np.cumsum(grouped, axis=1)
    middle = 2 * upto - grouped + 1
    centre = batch.total * (batch.total + 1) ** 2
    return combine(
        covariance=np.einsum("ij,ij->i", batch.ranked[:, by_label.order], by_label.spread(middle)) - centre,
        variance=np.einsum("ij,ij,ij->i", grouped, middle, middle) - centre,
        concordant=np.full(len(weights), np.nan) if concordant is None else concordant,
        tied_pairs=(np.einsum("ij,ij->i", grouped, grouped) - batch.total) / 2,
        levels=(grouped > 0).sum(axis=1),
        batch=batch,
    )


def pair_signs(labels: np.ndarray, truth: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """sign(label difference) * sign(truth difference), summed per pair of clusters: (clusters, clusters) float32.

    `clusters` (n,) holds 0..k-1; half of counts @ result . counts is then concordant minus discordant pairs.
    """
    order = np.argsort(clusters, kind="stable")
    labels, truth = labels[order], truth[order]
    starts = np.searchsorted(clusters[order], np.arange(clusters.max() + 1))
    rows = []
    for begin, end in zip(starts, np.r_[starts[1:], len(labels)], strict=True):
        signs = np.sign(np.subtract.outer(labels[begin:end], labels)) * np.sign(
            np.subtract.outer(truth[begin:end], truth)
        )
        rows.append(np.add.reduceat(signs.sum(axis=0), starts))
    return np.asarray(rows, dtype=np.float32)


def association(labels: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """The four statistics of labels (n,) and truth (n,), each page once; NaN where undefined.

    Equal to scipy's spearmanr, kendalltau (variants b and c); pairwise accuracy is the share of pairs of different
    truth that the labels order alike, a tie of labels counting half (Deutsch, Foster, Freitag 2023).
    """
    labels, truth = np.asarray(labels, np.float64), np.asarray(truth, np.float64)
    if len(labels) == 0:
        return dict.fromkeys(STATISTICS, float("nan"))
    order = TruthOrder.of(truth)
    batch = WeightedTruth.of(order, np.ones((1, len(labels))))
    if few_levels(labels):
        found = associate_levels(Levels.of(labels, order), batch)
    else:
        found = associate_graded(labels, batch, np.array([_concordant_once(labels, truth)]))
    return {name: float(value[0]) for name, value in found.items()}


def _concordant_once(labels: np.ndarray, truth: np.ndarray) -> float:
    """Concordant minus discordant pairs by blocks of rows, so that memory stays small at any n."""
    total = 0.0
    for begin in range(0, len(labels), 1024):
        rows = slice(begin, begin + 1024)
        total += float(
            (np.sign(np.subtract.outer(labels[rows], labels)) * np.sign(np.subtract.outer(truth[rows], truth))).sum()
        )
    return total / 2
