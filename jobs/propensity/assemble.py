"""From an estimate to a curve: errors, monotone variant, the choice between both, floor, and ranks without data."""

import hashlib
from dataclasses import dataclass

import numpy as np

from jobs.propensity import isotonic
from jobs.propensity.bootstrap import log_errors
from jobs.propensity.curve import Curve, Rank, Z, power_slope
from jobs.propensity.estimators import Estimate
from jobs.propensity.identify import MIN_PAIRS, NO_CLICK_HIGH, Verdict, needed_ranks, one_click
from jobs.propensity.summary import Summary


@dataclass(frozen=True, kw_only=True)
class _Values:
    """Per rank: raw (filled), standard error, interval, covariance, and which ranks were estimated."""

    raw: np.ndarray
    error: np.ndarray
    low: np.ndarray
    high: np.ndarray
    covariance: np.ndarray
    estimated: np.ndarray


def curve_of(estimate: Estimate, verdict: Verdict, summary: Summary, *, floor: float) -> Curve:
    """The curve of an estimate that was found identified. `floor` is the smallest propensity that is ever used."""
    values = _values(estimate, summary)
    monotone = isotonic.decreasing(values.raw, weights=_exposure(summary))
    use_monotone = isotonic.inside(monotone, low=values.low, high=values.high)
    chosen = monotone if use_monotone else values.raw
    warnings = [*verdict.warnings, *_filled(values, summary), *_floored(chosen, floor, summary), *_unit(summary)]
    if not use_monotone:
        warnings.append("the monotone curve leaves the raw curve's 95% intervals: the raw curve is used")
    kind = "isotonic" if use_monotone else "raw"
    used = np.maximum(chosen, floor)
    return Curve(
        curve_id=curve_id(estimate.estimator, kind, used),
        estimator=estimate.estimator,
        identified=verdict.identified,
        reason=verdict.reason,
        ranks=_ranks(values, used, monotone, estimate, summary),
        warnings=tuple(warnings),
        variation=estimate.variation,
        converged=estimate.converged,
        steps=estimate.steps,
        resampled=summary.unit,
        replicates=len(estimate.replicates),
        covariance=tuple(map(tuple, values.covariance.tolist())) if len(estimate.replicates) else None,
    )


def declared_curve(values: list[float], summary: Summary, *, estimator: str, reason: str, kind: str) -> Curve:
    """A curve that was not estimated from tonight's data: declared, or kept from an earlier run."""
    shown, clicked = summary["impressions"], summary["clicks"]
    ranks = tuple(
        Rank(
            rank=k + 1,
            propensity=p,
            raw=p,
            isotonic=p,
            impressions=int(shown[k]),
            clicks=int(clicked[k]),
            source="declared",
        )
        for k, p in enumerate(values)
    )
    name = curve_id(estimator, kind, np.array(values))
    return Curve(curve_id=name, estimator=estimator, identified=False, reason=reason, ranks=ranks)


def curve_id(estimator: str, kind: str, values: np.ndarray) -> str:
    """Name of a curve: what made it, raw or isotonic, and a fingerprint of its values."""
    digest = hashlib.sha256(np.round(values, 9).astype(">f8").tobytes()).hexdigest()
    return f"{estimator}-{kind}-{digest[:8]}"


def _values(estimate: Estimate, summary: Summary) -> _Values:
    raw = np.where(_unsure(estimate, summary), np.nan, estimate.raw)
    estimated = ~np.isnan(raw)
    logs, _ = log_errors(estimate.replicates)
    logs = logs * estimate.scale**2
    log_error = np.sqrt(np.diag(logs))
    positive = estimated & (raw > 0)
    slope = power_slope(np.flatnonzero(positive) + 1.0, raw[positive])
    raw[~estimated] = (np.flatnonzero(~estimated) + 1.0) ** -slope
    one = one_click(summary)
    error = np.where(positive, raw * log_error, np.where(estimated, one, raw))
    low = np.where(positive, raw * np.exp(-Z * log_error), np.where(estimated, 0.0, np.nan))
    high = np.where(positive, raw * np.exp(Z * log_error), np.where(estimated, NO_CLICK_HIGH * one, np.nan))
    covariance = np.outer(raw, raw) * np.nan_to_num(logs, nan=0.0)
    loose = np.isnan(np.diag(logs)) | ~positive
    covariance[loose, :] = covariance[:, loose] = 0.0
    covariance[loose, loose] = np.nan_to_num(error[loose], nan=0.0) ** 2
    if not len(estimate.replicates):
        error = np.full_like(error, np.nan)
    return _Values(raw=raw, error=error, low=low, high=high, covariance=covariance, estimated=estimated)


def _unsure(estimate: Estimate, summary: Summary) -> np.ndarray:
    """Deep ranks that hold hardly any traffic and that too few pairs inform: they continue the curve instead."""
    deep = np.arange(summary.ranks) >= needed_ranks(summary)
    return deep & (estimate.pairs < MIN_PAIRS)


def _exposure(summary: Summary) -> np.ndarray:
    """Weights of the monotone fit: impressions, as in isotonic regression of rates; rank 1 is 1 by definition.

    (Inverse bootstrap variances are the other choice; from few queries they are noise themselves.)
    """
    weights = np.maximum(summary["impressions"][:-1], 1e-3)
    weights[0] = np.inf
    return weights


def _ranks(values: _Values, used: np.ndarray, monotone: np.ndarray, estimate: Estimate, summary: Summary) -> tuple:
    return tuple(
        Rank(
            rank=k + 1,
            propensity=float(used[k]),
            raw=float(values.raw[k]) if values.estimated[k] else None,
            isotonic=float(monotone[k]),
            standard_error=_plain(values.error[k]),
            low=_plain(values.low[k]),
            high=_plain(values.high[k]),
            pairs=int(estimate.pairs[k]),
            impressions=int(summary["impressions"][k]),
            clicks=int(summary["clicks"][k]),
            source="estimated" if values.estimated[k] else "extrapolated",
        )
        for k in range(len(used))
    )


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _filled(values: _Values, summary: Summary) -> list[str]:
    shown = summary["impressions"]
    found = []
    missing = np.flatnonzero(~values.estimated & (shown[:-1] > 0))
    if len(missing):
        share = shown[missing].sum() / shown.sum()
        found.append(f"ranks {_list(missing)} ({share:.2%} of impressions) continue the curve's own power law")
    if shown[-1]:
        found.append(f"{shown[-1] / shown.sum():.2%} of impressions lie deeper than rank {len(shown) - 1}: continued")
    return found


def _floored(chosen: np.ndarray, floor: float, summary: Summary) -> list[str]:
    low = np.flatnonzero(chosen < floor)
    shown = summary["impressions"]
    share = shown[low].sum() / max(shown.sum(), 1.0)
    if not share:
        return []
    return [f"propensity raised to the floor {floor:g} at rank {_list(low)}: {share:.2%} of impressions clipped"]


def _unit(summary: Summary) -> list[str]:
    if summary.unit == "query":
        return []
    return [f"the queries are too few to resample ({summary['sizes'][0]:.0f}): the bootstrap takes (query, item) pairs"]


def _list(places: np.ndarray) -> str:
    return ", ".join(str(k + 1) for k in places)
