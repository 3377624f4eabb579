"""Relevance of an item for a query from its counts: estimators, intervals and shrinkage, on plain numpy arrays.

Position-based model: an item shown n_k times at rank k gets clicks with probability p_k r. r is relative to rank 1. The
sums that occur: clicks C = sum c, impressions N = sum n, examined X = sum n p, examined squared Y = sum n p^2,
inverse-weighted clicks sum c/p and inverse exposure sum n/p. Which is right and which is not: methods of the project,
section 1; measured in DECISIONS.md.
"""

from dataclasses import dataclass

import numpy as np

Z = 1.959963984540054  # two-sided 95%
_MAX_STRENGTH = 1e4  # a prior worth 10,000 examined impressions: the items of a group do not differ


def ctr(clicks: np.ndarray, impressions: np.ndarray) -> np.ndarray:
    """C / N: r times the mean examination. Biased by rank; kept as a baseline."""
    return _quotient(clicks, impressions)


def weighted(inverse_clicks: np.ndarray, inverse_exposure: np.ndarray) -> np.ndarray:
    """sum(c/p) / sum(n/p): r times the harmonic mean of p. It does not debias: at one rank it is the raw ctr."""
    return _quotient(inverse_clicks, inverse_exposure)


def ips(inverse_clicks: np.ndarray, impressions: np.ndarray) -> np.ndarray:
    """sum(c/p) / N (Horvitz, Thompson 1952): unbiased, with a variance that grows with 1/p."""
    return _quotient(inverse_clicks, impressions)


def ratio(clicks: np.ndarray, examined: np.ndarray) -> np.ndarray:
    """C / X: unbiased, and its variance is never above that of `ips`. 0 where nothing was examined."""
    return _quotient(clicks, examined)


def score_interval(
    clicks: np.ndarray, examined: np.ndarray, examined_squared: np.ndarray, *, curve_variance: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """95% interval of `ratio`: all r with (C - rX)^2 <= z^2 (rX - r^2 Y + r^2 V).

    rX - r^2 Y is the variance of C at that r; V is the variance of X that the curve's own error brings (0: curve
    known). It holds for 0 clicks as for many. Where the curve's error leaves the upper end open, it is 1, the largest
    probability.
    """
    slack = Z**2 * (np.asarray(curve_variance) - examined_squared)
    a = examined**2 - slack
    b = 2 * clicks * examined + Z**2 * examined
    c = clicks**2
    root = np.sqrt(np.maximum(b**2 - 4 * a * c, 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        low = np.where(b + root > 0, 2 * c / (b + root), 0.0)
        high = np.where(a > 0, (b + root) / (2 * np.where(a > 0, a, 1.0)), np.inf)
    estimate = ratio(clicks, examined)
    return np.minimum(low, estimate), np.maximum(np.where(np.isfinite(high), high, 1.0), estimate)


@dataclass(frozen=True, kw_only=True)
class Prior:
    """What relevance is shrunk towards: `strength` m in examined impressions, around the mean of a row's group.

    A row's group mean is that of the group's other rows, itself shrunk towards the overall `mean` with
    `group_strength`: so a row never counts twice, and a query with one item has the overall mean. `kind` names the
    groups: query, rank_band or global.
    """

    kind: str
    strength: float
    group_strength: float
    mean: float


def fit_prior(clicks: np.ndarray, examined: np.ndarray, group: np.ndarray, *, kind: str = "query") -> Prior:
    """Both strengths by negative-binomial marginal likelihood: C ~ Poisson(r X), r ~ Gamma(mean mu, strength m).

    `group` holds integers from 0. Without any click nothing can be learnt: mean 0 and the largest strength. (With means
    that include the row itself, m came out 1.4 to 8 times too large on planted priors.)
    """
    clicks = clicks.astype(float)
    if not clicks.sum():
        return Prior(kind=kind, strength=_MAX_STRENGTH, group_strength=_MAX_STRENGTH, mean=0.0)
    mean = float(clicks.sum() / examined.sum())
    group_c, group_x = np.bincount(group, clicks), np.bincount(group, examined)
    group_strength = _strength(group_c, group_x, np.full(len(group_c), mean)) if len(group_c) > 1 else _MAX_STRENGTH
    around = Prior(kind=kind, strength=_MAX_STRENGTH, group_strength=group_strength, mean=mean)
    strength = _strength(clicks, examined, group_means(clicks, examined, group, prior=around))
    return Prior(kind=kind, strength=strength, group_strength=group_strength, mean=mean)


def group_means(clicks: np.ndarray, examined: np.ndarray, group: np.ndarray, *, prior: Prior) -> np.ndarray:
    """For each row the mean relevance of its group's other rows, shrunk towards the overall mean: shape of `clicks`."""
    if not len(clicks):
        return np.empty(0)
    others_c = np.bincount(group, clicks)[group] - clicks
    others_x = np.bincount(group, examined)[group] - examined
    return (others_c + prior.group_strength * prior.mean) / (np.maximum(others_x, 0.0) + prior.group_strength)


def ratio_eb(clicks: np.ndarray, examined: np.ndarray, mean: np.ndarray, *, prior: Prior) -> np.ndarray:
    """(C + m mu) / (X + m): `ratio` shrunk towards its group's `mean`; equal to it where nothing was examined."""
    return (clicks + prior.strength * mean) / (examined + prior.strength)


def gamma_interval(
    clicks: np.ndarray, examined: np.ndarray, mean: np.ndarray, *, prior: Prior
) -> tuple[np.ndarray, np.ndarray]:
    """95% posterior interval of `ratio_eb`: quantiles of Gamma(C + m mu, X + m)."""
    from scipy.special import gammaincinv

    shape, rate = clicks + prior.strength * mean, examined + prior.strength
    shape = np.maximum(shape, 1e-9)
    return gammaincinv(shape, 0.025) / rate, gammaincinv(shape, 0.975) / rate


def inverse_interval(
    estimate: np.ndarray, inverse_square_clicks: np.ndarray, exposure: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """95% interval of `ips` and `weighted` by the plug-in error sqrt(sum c/p^2) / exposure; poor where clicks are
    few.
    """
    error = _quotient(np.sqrt(inverse_square_clicks), exposure)
    return np.maximum(estimate - Z * error, 0.0), estimate + Z * error


def _strength(clicks: np.ndarray, examined: np.ndarray, mu: np.ndarray) -> float:
    from scipy.optimize import minimize_scalar
    from scipy.special import gammaln

    used = (mu > 0) & (examined > 0)
    clicks, examined, mu = clicks[used], examined[used], mu[used]
    if not len(clicks):
        return _MAX_STRENGTH

    def loss(log_m: float) -> float:
        m = np.exp(log_m)
        shape = m * mu
        likelihood = gammaln(clicks + shape) - gammaln(shape) - shape * np.log1p(examined / m)
        return -float((likelihood - clicks * np.log(examined + m)).sum())

    best = minimize_scalar(loss, bounds=(np.log(1e-2), np.log(_MAX_STRENGTH)), method="bounded")
    return float(np.exp(best.x))


def _quotient(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    above, below = np.asarray(above, float), np.asarray(below, float)
    return np.divide(above, below, out=np.zeros(np.broadcast(above, below).shape), where=below > 0)
