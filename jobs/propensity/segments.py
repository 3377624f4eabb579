"""Curves of segments, shrunk towards the pooled curve where a segment's own data are thin."""

from dataclasses import replace

import numpy as np

from jobs.propensity.assemble import curve_id
from jobs.propensity.curve import Curve, Rank


def borrowed(pooled: Curve, segments: list[Curve], *, floor: float) -> list[Curve]:
    """One curve per segment, shrunk rank by rank on the log scale: weight t^2 / (t^2 + s^2) on the segment's own value.

    s is its standard error, t^2 the variance between segments at that rank (DerSimonian, Laird 1986). A segment that is
    not identified gets the pooled curve, marked.
    """
    own = [c for c in segments if c.identified]
    between = _between(pooled, own)
    return [_shrunk(pooled, c, between, floor) if c.identified else _pooled(pooled, c) for c in segments]


def _logs(curve: Curve, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Log propensity and its standard error by rank; NaN error where a rank has none."""
    values = np.log([curve.at(k + 1) for k in range(ranks)])
    errors = [
        r.standard_error / r.raw if r.standard_error is not None and r.raw else np.nan for r in curve.ranks[:ranks]
    ]
    return values, np.pad(np.array(errors, float), (0, ranks - len(errors)), constant_values=np.nan)


def _between(pooled: Curve, segments: list[Curve]) -> np.ndarray:
    """Variance between segments at each rank, beyond what their errors explain; 0 where fewer than two say anything."""
    size = len(pooled.ranks)
    if len(segments) < 2:
        return np.zeros(size)
    logs, errors = (np.stack(part) for part in zip(*(_logs(c, size) for c in segments), strict=True))
    weight = np.where(np.isfinite(errors) & (errors > 0), 1.0 / np.maximum(errors, 1e-9) ** 2, 0.0)
    total = weight.sum(axis=0)
    mean = (weight * logs).sum(axis=0) / np.maximum(total, 1e-300)
    spread = (weight * (logs - mean) ** 2).sum(axis=0) - (np.count_nonzero(weight, axis=0) - 1)
    scale = total - (weight**2).sum(axis=0) / np.maximum(total, 1e-300)
    return np.where(scale > 0, np.maximum(spread, 0.0) / np.maximum(scale, 1e-300), 0.0)


def _shrunk(pooled: Curve, curve: Curve, between: np.ndarray, floor: float) -> Curve:
    size = min(len(pooled.ranks), len(curve.ranks))
    own, error = _logs(curve, size)
    base, _ = _logs(pooled, size)
    spread = between[:size]
    weight = np.where(np.isfinite(error), spread / np.maximum(spread + np.nan_to_num(error) ** 2, 1e-300), 0.0)
    weight[0] = 1.0
    used = np.maximum(np.exp(weight * own + (1 - weight) * base), floor)
    ranks = tuple(_with_value(rank, float(value)) for rank, value in zip(curve.ranks, used, strict=False))
    low = float(weight[1:].min()) if size > 1 else 1.0
    warnings = curve.warnings
    if low < 0.5:
        note = f"thin: as little as {low:.0%} of a rank's value is the segment's own, the rest is the pooled curve's"
        warnings = (*warnings, note)
    return replace(curve, ranks=ranks, warnings=warnings, curve_id=curve_id(curve.estimator, "shrunk", used))


def _with_value(rank: Rank, value: float) -> Rank:
    return replace(rank, propensity=value)


def _pooled(pooled: Curve, curve: Curve) -> Curve:
    why = "; ".join(f"{c['estimator']}: {c['reason']}" for c in curve.considered) or curve.reason
    reason = f"segment not identified ({why}); the curve of all segments is used: {pooled.reason}"
    return replace(pooled, segment=curve.segment, identified=False, reason=reason, considered=curve.considered)
