"""How high could any judge come? Caps that three-level labels and a noisy truth set before the judge says a word."""

import numpy as np

from jobs.reports.association import STATISTICS, association

DRAWS = 40
"""Simulated truths for the noise ceiling; the mean over 6,000 pages then moves by under .001 between seeds."""

SMALLEST_ERROR = 1e-4
"""Standard errors are taken as at least this large: a page that states none must not outweigh all others."""


def label_ceiling(labels: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """The four statistics of the best possible assignment of these very labels: both sorted, paired in order.

    Equal thirds against a continuous truth: Spearman .943, tau-b .816, tau-c 1. NaN where a statistic is undefined.
    """
    return association(np.sort(labels), np.sort(truth))


def latent_truth(
    truth: np.ndarray, errors: np.ndarray, *, unbiased: bool = False
) -> tuple[np.ndarray, np.ndarray] | None:
    """Mean and standard deviation (n,) of the true value behind each measured truth, shrunk to the common mean.

    Normal-normal model. Where the squared errors are right on average (`unbiased`), the spread of true values is the
    variance that they leave, and all pages share the mean error: a page's own estimate rests on its few clicks and
    follows its truth. Errors on the safe side would leave too little, so there DerSimonian and Laird's moments weigh
    each page by its precision. None if the errors explain all the variance.
    """
    spread = float(np.var(truth, ddof=1) - np.mean(errors**2)) if unbiased else _weighted_spread(truth, errors)
    if spread <= 0:
        return None
    share = spread / (spread + errors**2)
    centre = float(np.average(truth, weights=share))
    return centre + share * (truth - centre), np.sqrt(share) * errors


def _weighted_spread(truth: np.ndarray, errors: np.ndarray) -> float:
    weights = np.maximum(errors, SMALLEST_ERROR) ** -2.0
    centre = np.average(truth, weights=weights)
    surplus = float(np.sum(weights * (truth - centre) ** 2)) - (len(truth) - 1)
    return surplus / float(weights.sum() - np.sum(weights**2) / weights.sum())


def noise_ceiling(
    truth: np.ndarray,
    errors: np.ndarray,
    *,
    labels: np.ndarray | None = None,
    unbiased: bool = False,
    seed: int = 0,
) -> dict[str, float] | None:
    """What a judge who knows the true value exactly would reach against this measured truth, by simulation.

    With `labels` the judge may only hand out these labels (both caps together). None if `errors` (n,) explain all of
    the variance of `truth` (n,): then nothing can be reached and the truth says nothing.
    """
    errors = np.full(len(truth), np.sqrt(np.mean(errors**2))) if unbiased else errors
    latent = latent_truth(truth, errors, unbiased=unbiased)
    if latent is None:
        return None
    rng = np.random.default_rng(seed)
    order = np.argsort(truth, kind="stable")
    mean, deviation, errors = latent[0][order], latent[1][order], errors[order]
    found = [_one_draw(rng, mean, deviation, errors, labels) for _ in range(DRAWS)]
    return {s: float(np.mean([f[s] for f in found])) for s in STATISTICS}


def _one_draw(
    rng: np.random.Generator, mean: np.ndarray, deviation: np.ndarray, errors: np.ndarray, labels: np.ndarray | None
) -> dict[str, float]:
    true = rng.normal(mean, deviation)
    measured = rng.normal(true, errors)
    if labels is None:
        judged = np.digitize(true, np.quantile(true, np.linspace(0, 1, 12)[1:-1])).astype(np.float64)
        return association(judged, measured)
    judged = np.empty(len(true))
    judged[np.argsort(true, kind="stable")] = np.sort(labels)
    return association(judged, measured)
