"""Bootstrap over queries by Poisson(1) weights that depend only on the query's key.

Each query gets a number of copies per replicate from a stable hash, so that parts of the data (ranges of keys,
machines) resample one and the same sample of queries without talking to each other, and a re-run gives the same
standard errors.
"""

from functools import lru_cache

import numpy as np
from threadpoolctl import ThreadpoolController

from jobs.core.sampling import unit_hashes

_STEPS = np.cumsum(np.exp(-1.0) / np.array([1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880], float))
DEFINED = 0.9  # share of replicates in which a rank must be estimable for its error to be believed


def weights(keys: np.ndarray, *, replicates: int) -> np.ndarray:
    """Copies of each key per replicate: float array (replicates + 1, keys); row 0 is the sample itself, all ones."""
    rows = [np.ones(len(keys))]
    rows += [
        np.searchsorted(_STEPS, unit_hashes(keys, salt=i + 1), side="right").astype(float) for i in range(replicates)
    ]
    return np.stack(rows)


@lru_cache(maxsize=1)
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


def _product(copies: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Weighted sums on one thread: beside other tasks of the machine, BLAS threads of such small products only wait."""
    with _threads().limit(limits=1, user_api="blas"):
        return copies.astype(float) @ table


class Resample:
    """One bootstrap of a set of units (keys), to sum any number of columns under: weights are drawn once."""

    def __init__(self, keys: np.ndarray, *, replicates: int) -> None:
        self.keys = np.unique(keys)
        self.replicates = replicates
        self._copies = weights(self.keys, replicates=replicates).astype(np.uint8)

    def weigh(self, table: np.ndarray) -> np.ndarray:
        """Sums of a dense table (units in the order of `keys`, cells) per replicate: (replicates + 1, cells)."""
        return _product(self._copies, table)

    def sums(self, keys: np.ndarray, cell: np.ndarray, values: np.ndarray, *, cells: int) -> np.ndarray:
        """Sums of `values` per replicate and cell: (replicates + 1, cells). The three are aligned rows.

        Works on dense unit-by-cell blocks of bounded size, so that memory does not grow with the number of units.
        """
        total = np.zeros((self.replicates + 1, cells))
        order = np.argsort(keys, kind="stable")
        place, cell, values = np.searchsorted(self.keys, keys[order]), cell[order], values[order]
        block = max(1, 4_000_000 // max(cells, self.replicates + 1))
        for start in range(0, len(self.keys) if len(keys) else 0, block):
            stop = min(start + block, len(self.keys))
            first, last = np.searchsorted(place, [start, stop])
            flat = (place[first:last] - start) * cells + cell[first:last]
            dense = np.bincount(flat, values[first:last], (stop - start) * cells).reshape(stop - start, cells)
            total += _product(self._copies[:, start:stop], dense)
        return total


def log_errors(replicates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Covariance of log propensities over replicates, and the share of replicates that define each rank.

    `replicates` has shape (replicates, ranks) with NaN or 0 where a replicate could not estimate a rank. Ranks that too
    few replicates define get NaN rows.
    """
    logs = np.log(np.where(replicates > 0, replicates, np.nan))
    ok = np.isfinite(logs)
    share = ok.mean(axis=0) if len(logs) else np.zeros(replicates.shape[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        centred = np.where(ok, logs - np.nansum(logs, axis=0) / ok.sum(axis=0), 0.0)
        both = ok.T.astype(float) @ ok.astype(float)
        covariance = centred.T @ centred / (both - 1)
    thin = (share < DEFINED) | (ok.sum(axis=0) < 3)
    covariance[thin, :] = np.nan
    covariance[:, thin] = np.nan
    return covariance, share
