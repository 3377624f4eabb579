"""A position curve: examination by rank relative to rank 1, with what stands behind each value, and its file form.

A curve is a mapping (context, rank) -> examination. The context is the declared segment today; a contextual model
(locale, device) is a set of curves with one context each, so readers that look up `(segment, rank)` need no change.
"""

from dataclasses import dataclass, field, replace
from datetime import date

import numpy as np

from jobs.core.errors import InputError

Z = 1.959963984540054  # two-sided 95%
MAX_RANK = 1000  # deepest rank of the tables' contract


@dataclass(frozen=True, kw_only=True)
class Rank:
    """One rank of a curve. `propensity` is the value to use; `raw` and `isotonic` the two it was chosen from.

    `standard_error` and the 95% interval `low`..`high` are of the raw value: null where nothing was estimated. `pairs`
    counts the (query, item) pairs that informed the rank; `source` is estimated, extrapolated or declared.
    """

    rank: int
    propensity: float
    raw: float | None = None
    isotonic: float | None = None
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None
    pairs: int = 0
    impressions: int = 0
    clicks: int = 0
    source: str = "estimated"


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A curve of one corpus (and segment), how it was made, whether the data identify it, and why."""

    curve_id: str
    estimator: str
    identified: bool
    reason: str
    ranks: tuple[Rank, ...]
    segment: str | None = None
    window: tuple[date, date] | None = None
    warnings: tuple[str, ...] = ()
    variation: str | None = None
    converged: bool | None = None
    steps: int | None = None
    resampled: str | None = None
    replicates: int = 0
    covariance: tuple[tuple[float, ...], ...] | None = None
    considered: tuple[dict, ...] = field(default=())

    def at(self, rank: int) -> float:
        """Examination of a 1-based rank; ranks beyond the curve continue its own power law, never above its last
        value.
        """
        if rank < 1:
            raise InputError(f"rank {rank} is no 1-based rank: count ranks from 1")
        if rank <= len(self.ranks):
            return self.ranks[rank - 1].propensity
        last = self.ranks[-1]
        return last.propensity * (last.rank / rank) ** self._slope()

    def values(self) -> np.ndarray:
        """The propensities to use, shape (ranks,)."""
        return np.array([r.propensity for r in self.ranks])

    def lookup(self, *, max_rank: int = MAX_RANK) -> dict[tuple[str | None, int], float]:
        """(segment, rank) -> examination for every rank to `max_rank`: the form that evidence.window takes."""
        return {(self.segment, rank): self.at(rank) for rank in range(1, max_rank + 1)}

    def loadings(self, *, factors: int = 3) -> np.ndarray:
        """Error of the curve as independent factors: shape (ranks, factors + 1).

        The first columns are the leading eigenvectors of the covariance, scaled; the last holds what they leave of each
        rank's variance, taken as independent between ranks. With n impressions by rank the variance of sum n p is then
        the sum of (n @ column)^2 over the first and of (n * last)^2 over ranks. A curve without errors gives zeros.
        """
        size = len(self.ranks)
        if self.covariance is None:
            return np.zeros((size, factors + 1))
        matrix = np.array(self.covariance)
        values, vectors = np.linalg.eigh(matrix)
        order = np.argsort(values)[::-1][:factors]
        main = vectors[:, order] * np.sqrt(np.maximum(values[order], 0.0))
        main = np.pad(main, ((0, 0), (0, factors - main.shape[1])))
        rest = np.sqrt(np.maximum(np.diag(matrix) - (main**2).sum(axis=1), 0.0))
        return np.column_stack([main, rest])

    def without_covariance(self) -> "Curve":
        """The same curve without the matrix, for short printing."""
        return replace(self, covariance=None)

    def _slope(self) -> float:
        ranks = np.array([r.rank for r in self.ranks if r.propensity > 0], float)
        return power_slope(ranks, np.array([r.propensity for r in self.ranks if r.propensity > 0]))


def power_slope(ranks: np.ndarray, values: np.ndarray) -> float:
    """Exponent eta >= 0 of the least-squares power law values = rank^-eta through (1, 1); 1 where one rank is known."""
    x, y = np.log(ranks), np.log(values)
    return max(0.0, float(-(x @ y) / (x @ x))) if (x @ x) > 0 else 1.0


def to_file(curve: Curve) -> dict:
    """The curve as formats.md lays it out: plain values only, dates as ISO text."""
    body = {name: getattr(curve, name) for name in curve.__dataclass_fields__ if name != "ranks"}
    body["window"] = [d.isoformat() for d in curve.window] if curve.window else None
    body["warnings"], body["considered"] = list(curve.warnings), list(curve.considered)
    body["covariance"] = [list(row) for row in curve.covariance] if curve.covariance else None
    body["ranks"] = [vars(rank) for rank in curve.ranks]
    return body


def from_file(body: dict) -> Curve:
    """Inverse of `to_file`; unknown or missing keys raise InputError with the key's name."""
    try:
        rest = {k: v for k, v in body.items() if k not in ("ranks", "window", "warnings", "considered", "covariance")}
        return Curve(
            ranks=tuple(Rank(**rank) for rank in body["ranks"]),
            window=tuple(date.fromisoformat(d) for d in body["window"]) if body.get("window") else None,
            warnings=tuple(body.get("warnings", ())),
            considered=tuple(body.get("considered", ())),
            covariance=tuple(tuple(row) for row in body["covariance"]) if body.get("covariance") else None,
            **rest,
        )
    except (TypeError, KeyError) as problem:
        raise InputError(
            f"this is no propensity curve file ({problem}): write one with `hindcast propensity fit`"
        ) from None
