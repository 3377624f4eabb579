"""Whether data identify a curve, as a result of its own: a verdict with the figures that it rests on."""

from dataclasses import dataclass

import numpy as np

from jobs.propensity.bootstrap import log_errors
from jobs.propensity.curve import Z
from jobs.propensity.estimators import Estimate
from jobs.propensity.summary import Summary

MIN_PAIRS = 10  # pairs behind each rank: under that, single pairs decide and the bootstrap cannot see its own error
MAX_LOG_ERROR = 0.7  # standard error of log p: the interval then spans a factor of four to either side
NO_CLICK_HIGH = 3.689  # exact 97.5% Poisson bound after 0 clicks
MAX_UNSEEN = 0.25  # largest examination that a rank without a click may still have: 15 clicks at rank 1's rate
NEEDED_SHARE = 0.95  # ranks that hold this share of the impressions must be identified; deeper ones may be continued
EM_MIN_IMPRESSIONS = 40  # of a pair at two ranks: error of pbm_em .45 at 8, .13 at 20, .07 at 30, .03 at 45 (planted)
WIDE = 0.15  # standard error of log p from which a warning names the interval


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Identified or not, one sentence why, and warnings that hold even where it is."""

    identified: bool
    reason: str
    warnings: tuple[str, ...] = ()


def judge(estimate: Estimate, summary: Summary) -> Verdict:
    """Is every rank that holds traffic tied to rank 1 by enough pairs, with an error that still says something?"""
    needed = needed_ranks(summary)
    covariance, share = log_errors(estimate.replicates)
    errors = np.sqrt(np.diag(covariance)) * estimate.scale
    reason = _nothing(estimate, summary) or _missing(estimate, needed) or _loose(estimate, errors, share, needed)
    reason = reason or _unseen(estimate, summary, needed)
    warnings = _warnings(estimate, summary, errors, needed)
    if reason:
        return Verdict(identified=False, reason=reason, warnings=warnings)
    fewest = int(estimate.pairs[1:needed].min()) if needed > 1 else 0
    what = f"{fewest} or more pairs inform each of ranks 2 to {needed}"
    return Verdict(identified=True, reason=f"{_how(estimate)}: {what}", warnings=warnings)


def worst_error(estimate: Estimate, summary: Summary) -> float:
    """Largest standard error of log p over the needed ranks; infinite where one is undefined."""
    covariance, _ = log_errors(estimate.replicates)
    errors = np.sqrt(np.diag(covariance))[: needed_ranks(summary)] * estimate.scale
    return float(np.nan_to_num(errors, nan=np.inf).max())


def needed_ranks(summary: Summary) -> int:
    """Smallest K such that ranks 1..K hold 95% of the impressions within the curve's ranks (at least 2)."""
    shown = summary["impressions"][:-1]
    total = np.cumsum(shown)
    return max(2, int(np.searchsorted(total, NEEDED_SHARE * total[-1]) + 1)) if total[-1] else 2


def _how(estimate: Estimate) -> str:
    texts = {
        "randomised": "click rates by rank on randomised traffic",
        "pbm_em": "pairs at two or more ranks with enough impressions each",
        "rankers": "pairs that different rankers put at different ranks",
        "changes": "pairs whose rank changed",
    }
    return texts[estimate.variation or estimate.estimator]


def _nothing(estimate: Estimate, summary: Summary) -> str | None:
    _, pairs, moved, moved_impressions = summary["sizes"]
    if summary["impressions"].sum() and not summary["clicks"].sum():
        return "not one click was logged"
    if estimate.estimator == "randomised":
        return None if summary["random_shown"][0].sum() else "no traffic is marked as randomised"
    if not moved:
        return f"none of {pairs:.0f} (query, item) pairs was shown at two ranks"
    if estimate.estimator == "allpairs" and not estimate.pairs.any():
        what = "by different known rankers" if estimate.variation == "rankers" else "at least 5 times at each"
        return f"none of {moved:.0f} pairs shown at two ranks was shown there {what}"
    each = moved_impressions / moved
    if estimate.estimator == "pbm_em" and each < EM_MIN_IMPRESSIONS:
        return (
            f"pairs at two ranks have {each:.1f} impressions on average, under {EM_MIN_IMPRESSIONS}: one relevance a"
            " pair cannot be learnt from so few, and more queries do not help"
        )
    return None


def _missing(estimate: Estimate, needed: int) -> str | None:
    few = [k + 1 for k in range(1, needed) if estimate.pairs[k] < MIN_PAIRS]
    if few:
        worst = int(estimate.pairs[[k - 1 for k in few]].min())
        return f"rank {_list(few)} has fewer than {MIN_PAIRS} pairs (fewest: {worst})"
    loose = [k + 1 for k in range(1, needed) if np.isnan(estimate.raw[k])]
    if np.isnan(estimate.raw[0]) or len(loose) == needed - 1:
        return f"{_how(estimate)} tie no rank to rank 1"
    if loose:
        return f"{_how(estimate)} do not tie rank {_list(loose)} to rank 1"
    return None if estimate.converged else f"{estimate.estimator} did not converge"


def _unseen(estimate: Estimate, summary: Summary, needed: int) -> str | None:
    """A rank without a click is known to be hardly examined only if clicks would have been seen there."""
    high = NO_CLICK_HIGH * one_click(summary)
    wide = [k for k in range(1, needed) if estimate.raw[k] == 0 and high[k] > MAX_UNSEEN]
    if not wide:
        return None
    return (
        f"rank {_list([k + 1 for k in wide])} has no click, from so little that an examination of up to"
        f" {high[wide].max():.2f} would show none either (at most {MAX_UNSEEN} is allowed)"
    )


def one_click(summary: Summary) -> np.ndarray:
    """Propensity that one click at the rank would have given: the scale of what 0 clicks cannot exclude."""
    shown, clicked = summary["impressions"][:-1], summary["clicks"][:-1]
    first = clicked[0] / shown[0] if shown[0] and clicked[0] else 1.0
    return 1.0 / np.maximum(shown, 1.0) / first


def _loose(estimate: Estimate, errors: np.ndarray, share: np.ndarray, needed: int) -> str | None:
    if not len(estimate.replicates):
        return None
    for k in range(1, needed):
        if estimate.raw[k] == 0:
            continue
        if np.isnan(errors[k]):
            return f"rank {k + 1} can be estimated in only {share[k]:.0%} of the bootstrap samples"
        if errors[k] > MAX_LOG_ERROR:
            return f"rank {k + 1} has a standard error of {errors[k]:.2f} on the log scale, above {MAX_LOG_ERROR}"
    return None


def _warnings(estimate: Estimate, summary: Summary, errors: np.ndarray, needed: int) -> tuple[str, ...]:
    found = []
    if estimate.variation == "changes" or (estimate.estimator == "pbm_em" and not summary["pairs_rankers"].any()):
        found.append(
            "the change of an item's rank between page views of one query is taken as exogenous: where it follows"
            " relevance (personalisation, freshness) the curve is confounded"
        )
    finite = [k for k in range(1, needed) if np.isfinite(errors[k]) and errors[k] > WIDE]
    if finite:
        k = max(finite, key=lambda i: errors[i])
        low, high = estimate.raw[k] * np.exp(-Z * errors[k]), estimate.raw[k] * np.exp(Z * errors[k])
        found.append(f"wide intervals: rank {k + 1} is {estimate.raw[k]:.2f} with 95% interval {low:.2f} to {high:.2f}")
    if not len(estimate.replicates):
        found.append("no bootstrap was asked for: the curve has no standard errors")
    if not estimate.converged:
        found.append(f"{estimate.estimator} did not converge")
    return tuple(found)


def _list(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks))
