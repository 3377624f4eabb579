"""Additive sums per (query, item) over many days of counts: sort once, then add along the runs of equal keys.

Sorting brings the rows of a pair together and is the order in which evidence is stored; everything after it is numpy on
whole columns. (Hash grouping per rank and then per pair took twice as long.)
"""

from collections.abc import Mapping

import numpy as np
import polars as pl

from jobs.core.errors import InputError

CurveValues = Mapping[tuple[str | None, int], float]
"""(segment, rank) to examination; (None, rank) serves segments that have no curve of their own."""

CurveErrors = Mapping[tuple[str | None, int], tuple[float, ...]]
"""(segment, rank) to the curve's error there, split into independent factors (propensity.curve.Curve.loadings)."""

_READ = ["query_key", "item_key", "rank", "segment", "event_day", "impressions", "clicks", "interaction"]


def pair_sums(
    counts: pl.DataFrame,
    *,
    curve: CurveValues,
    errors: CurveErrors | None = None,
    by_segment: bool = False,
    floor: float = 0.01,
) -> pl.DataFrame:
    """One row a (query, item), of a frame with the columns of daily_counts; sorted by query_key, item_key[, segment].

    Columns: query_key, item_key, segment (null unless `by_segment`), impressions, clicks, interaction, examined,
    examined_squared, curve_variance (of `examined`), inverse_clicks, inverse_square_clicks, inverse_exposure (with p
    clipped at `floor`), last_shown_day, and lists by rank: ranks, rank_impressions, rank_clicks. Pairs that were never
    shown are left out. InputError where the curve lacks a rank.
    """
    keys = ["query_key", "item_key", *(["segment"] if by_segment else [])]
    rows = counts.select(_READ).sort([*keys, "rank"])
    rows = rows if by_segment else rows.with_columns(pl.lit(None, pl.String).alias("segment_out"))
    starts = _starts(rows, keys)
    sums = _weighted(rows, starts, curve=curve, errors=errors, floor=floor)
    cells = _cells(rows, starts, keys)
    first = rows.select("query_key", "item_key", pl.col("segment" if by_segment else "segment_out").alias("segment"))
    pairs = first[starts].with_columns(**sums, **cells)
    return pairs.filter(pl.col("impressions") > 0)


def _starts(rows: pl.DataFrame, keys: list[str]) -> np.ndarray:
    """Row numbers at which a new combination of `keys` starts, in a frame sorted by them."""
    if not rows.height:
        return np.empty(0, np.int64)
    new = np.zeros(rows.height, bool)
    new[0] = True
    for key in keys:
        column = rows[key]
        changed = column.ne_missing(column.shift(1)).to_numpy()
        new[1:] |= changed[1:]
    return np.flatnonzero(new)


def _weighted(
    rows: pl.DataFrame, starts: np.ndarray, *, curve: CurveValues, errors: CurveErrors | None, floor: float
) -> dict[str, pl.Series]:
    p, loadings = _by_row(rows, curve, errors)
    n, c = rows["impressions"].to_numpy().astype(float), rows["clicks"].to_numpy().astype(float)
    clipped = np.maximum(p, floor)
    day = np.where(n > 0, rows["event_day"].to_physical().to_numpy(), np.iinfo(np.int32).min)
    factors = (
        np.stack([_add(n * loadings[:, j], starts) for j in range(loadings.shape[1])]) if loadings.shape[1] else 0.0
    )
    floats = {
        "examined": _add(n * p, starts),
        "examined_squared": _add(n * p * p, starts),
        "curve_variance": np.broadcast_to(np.sum(np.square(factors), axis=0), starts.shape).astype(float),
        "inverse_clicks": _add(c / clipped, starts),
        "inverse_square_clicks": _add(c / clipped**2, starts),
        "inverse_exposure": _add(n / clipped, starts),
    }
    whole = {name: _add(rows[name].to_numpy(), starts) for name in ("impressions", "clicks", "interaction")}
    last = np.maximum.reduceat(day, starts) if len(starts) else day
    found = {name: pl.Series(name, values) for name, values in {**whole, **floats}.items()}
    return found | {"last_shown_day": pl.Series("last_shown_day", last.astype(np.int32)).cast(pl.Date)}


def _add(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return np.add.reduceat(values, starts) if len(starts) else values[:0]


def _by_row(rows: pl.DataFrame, curve: CurveValues, errors: CurveErrors | None) -> tuple[np.ndarray, np.ndarray]:
    """Examination (rows,) and its error factors (rows, factors) of each row's segment and rank."""
    names = sorted({segment for segment, _ in curve if segment is not None})
    deepest = int(rows["rank"].max() or 1)
    table = np.array([[_value(curve, name, k) for k in range(1, deepest + 1)] for name in [None, *names]])
    segment = _codes(rows["segment"], names)
    rank = rows["rank"].to_numpy() - 1
    p = table[segment, rank]
    if np.isnan(p).any():
        bad = int(rank[np.isnan(p)].min()) + 1
        raise InputError(f"the curve has no examination for rank {bad}: fit it with a larger propensity.max_rank")
    size = max((len(v) for v in (errors or {}).values()), default=0)
    if not size:
        return p, np.empty((rows.height, 0))
    none = (0.0,) * size
    loads = [[_factors(errors or {}, name, k, none) for k in range(1, deepest + 1)] for name in [None, *names]]
    return p, np.array(loads)[segment, rank]


def _codes(segments: pl.Series, names: list[str]) -> np.ndarray:
    """0 for segments without a curve of their own, 1.. for the names in order."""
    if not names:
        return np.zeros(len(segments), np.int64)
    return segments.replace_strict(names, list(range(1, len(names) + 1)), default=0, return_dtype=pl.Int64).to_numpy()


def _value(curve: CurveValues, segment: str | None, rank: int) -> float:
    return curve.get((segment, rank), curve.get((None, rank), np.nan))


def _factors(errors: CurveErrors, segment: str | None, rank: int, none: tuple[float, ...]) -> tuple[float, ...]:
    return errors.get((segment, rank), errors.get((None, rank), none))


def _cells(rows: pl.DataFrame, starts: np.ndarray, keys: list[str]) -> dict[str, pl.Series]:
    """Lists of rank, impressions and clicks per pair, one element a rank, ascending."""
    cell = _starts(rows, [*keys, "rank"])
    offsets = np.append(np.searchsorted(cell, starts), len(cell))
    columns = {
        "ranks": rows["rank"].to_numpy()[cell].astype(np.int64),
        "rank_impressions": _add(rows["impressions"].to_numpy(), cell),
        "rank_clicks": _add(rows["clicks"].to_numpy(), cell),
    }
    return {name: _lists(name, values, offsets) for name, values in columns.items()}


def _lists(name: str, values: np.ndarray, offsets: np.ndarray) -> pl.Series:
    import pyarrow as pa

    array = pa.LargeListArray.from_arrays(pa.array(offsets.astype(np.int64)), pa.array(values.astype(np.int64)))
    return pl.Series(name, pl.from_arrow(array))
