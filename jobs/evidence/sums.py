"""Additive sums per (query, item) over many days of counts: sort once, then add along the runs of equal keys.

Sorting brings the rows of a pair together and is the order in which evidence is stored; everything after it is numpy on
whole columns. (Hash grouping per rank and then per pair took twice as long.) Whole numbers are added first, per pair
and rank, and weighed afterwards: so no sum depends on the order in which days were read.
"""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl

from jobs.core.errors import InputError

CurveValues = Mapping[tuple[str | None, int], float]
"""(segment, rank) to examination; (None, rank) serves segments that have no curve of their own."""

CurveErrors = Mapping[tuple[str | None, int], tuple[float, ...]]
"""(segment, rank) to the curve's error there: common factors, and last the rank's own (Curve.loadings)."""


def pair_sums(
    counts: pl.DataFrame,
    *,
    curve: CurveValues,
    errors: CurveErrors | None = None,
    by_segment: bool = False,
    inverse: bool = False,
    floor: float = 0.01,
) -> pl.DataFrame:
    """One row a (query, item), of a frame with the columns of daily_counts; sorted by query_key, item_key[, segment].

    Columns: query_key, item_key, segment (null unless `by_segment`), impressions, clicks, interaction, examined,
    examined_squared, curve_variance (of `examined`), last_shown_day, lists by rank (ranks, rank_impressions,
    rank_clicks), and with `inverse` the sums of the inverse-weighted estimators (inverse_clicks, inverse_square_clicks,
    inverse_exposure, with p clipped at `floor`). Pairs that were never shown are left out. InputError where the curve
    lacks a rank.
    """
    segmented = by_segment or any(segment is not None for segment, _ in curve)
    keys = ["query_key", "item_key", *(["segment"] if by_segment else [])]
    cell_keys = list(dict.fromkeys([*keys, "rank", *(["segment"] if segmented else [])]))
    columns = [*cell_keys, "event_day", "impressions", "clicks", "interaction"]
    rows = counts.select(columns).sort(cell_keys)
    cells = _cells(rows, cell_keys)
    starts = _starts(cells, keys)
    examined = _examined(cells, starts, curve=curve, errors=errors)
    more = _inverse(cells, starts, curve=curve, floor=floor) if inverse else {}
    pairs = cells.select(keys)[starts].with_columns(
        **_totals(cells, starts), **examined, **more, **_ranks(cells, keys, starts)
    )
    pairs = pairs if by_segment else pairs.with_columns(pl.lit(None, pl.String).alias("segment"))
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


def _cells(rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Whole-number sums and the last day shown, per run of equal keys."""
    starts = _starts(rows, keys)
    shown = rows["impressions"].to_numpy() > 0
    day = np.where(shown, rows["event_day"].to_physical().to_numpy(), np.iinfo(np.int32).min)
    sums = {n: pl.Series(n, _add(rows[n].to_numpy(), starts)) for n in ("impressions", "clicks", "interaction")}
    last = np.maximum.reduceat(day, starts) if len(starts) else day
    return rows.select(keys)[starts].with_columns(**sums, day=pl.Series("day", last.astype(np.int32)))


def _totals(cells: pl.DataFrame, starts: np.ndarray) -> dict[str, pl.Series]:
    sums = {n: pl.Series(n, _add(cells[n].to_numpy(), starts)) for n in ("impressions", "clicks", "interaction")}
    day = cells["day"].to_numpy()
    last = np.maximum.reduceat(day, starts) if len(starts) else day
    return sums | {"last_shown_day": pl.Series("last_shown_day", last).cast(pl.Date)}


def _examined(
    cells: pl.DataFrame, starts: np.ndarray, *, curve: CurveValues, errors: CurveErrors | None
) -> dict[str, pl.Series]:
    """Examined exposure, its square and the variance that the curve's own error gives it."""
    n = cells["impressions"].to_numpy().astype(float)
    p = _looked_up(cells, curve, float)
    variance = np.zeros(len(starts))
    size = max((len(v) for v in (errors or {}).values()), default=0)
    for factor in range(size):
        loading = _looked_up(cells, errors or {}, itemgetter(factor), missing=0.0)
        variance += _add((n * loading) ** 2, starts) if factor == size - 1 else _add(n * loading, starts) ** 2
    sums = {"examined": _add(n * p, starts), "examined_squared": _add(n * p * p, starts), "curve_variance": variance}
    return {name: pl.Series(name, values) for name, values in sums.items()}


def _inverse(cells: pl.DataFrame, starts: np.ndarray, *, curve: CurveValues, floor: float) -> dict[str, pl.Series]:
    """Sums of the inverse-weighted estimators, propensities clipped at `floor`."""
    n, c = cells["impressions"].to_numpy().astype(float), cells["clicks"].to_numpy().astype(float)
    p = np.maximum(_looked_up(cells, curve, float), floor)
    sums = {"inverse_clicks": c / p, "inverse_square_clicks": c / p**2, "inverse_exposure": n / p}
    return {name: pl.Series(name, _add(values, starts)) for name, values in sums.items()}


def _add(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return np.add.reduceat(values, starts) if len(starts) else values[:0]


def _looked_up(
    cells: pl.DataFrame, lookup: Mapping, value: Callable[[Any], float], *, missing: float | None = None
) -> np.ndarray:
    """`value` of the lookup's entry for each cell's segment and rank; entries of (None, rank) serve unknown segments.

    A rank without entry is `missing`, or an InputError where there is no such value.
    """
    names = sorted({segment for segment, _ in lookup if segment is not None})
    ranks = cells["rank"].to_numpy()
    used = np.unique(ranks)
    table = np.full((len(names) + 1, int(used[-1]) + 1 if len(used) else 1), np.nan)
    for row, name in enumerate([None, *names]):
        for rank in used.tolist():
            found = lookup.get((name, rank), lookup.get((None, rank)))
            if found is None and missing is None:
                raise InputError(f"the curve has no examination for rank {rank}: give it every rank that was shown")
            table[row, rank] = missing if found is None else value(found)
    return table[_codes(cells, names), ranks]


def _codes(cells: pl.DataFrame, names: list[str]) -> np.ndarray | int:
    """0 for segments without a curve of their own, 1.. for the names in order."""
    if not names:
        return 0
    numbers = list(range(1, len(names) + 1))
    return cells["segment"].replace_strict(names, numbers, default=0, return_dtype=pl.Int64).to_numpy()


def _ranks(cells: pl.DataFrame, keys: list[str], starts: np.ndarray) -> dict[str, pl.Series]:
    """Lists of rank, impressions and clicks per pair, one element a rank, ascending."""
    place = _starts(cells, [*keys, "rank"])
    offsets = np.append(np.searchsorted(place, starts), len(place))
    columns = {
        "ranks": cells["rank"].to_numpy()[place].astype(np.int64),
        "rank_impressions": _add(cells["impressions"].to_numpy(), place),
        "rank_clicks": _add(cells["clicks"].to_numpy(), place),
    }
    return {name: _lists(name, values, offsets) for name, values in columns.items()}


def _lists(name: str, values: np.ndarray, offsets: np.ndarray) -> pl.Series:
    import pyarrow as pa

    array = pa.LargeListArray.from_arrays(pa.array(offsets.astype(np.int64)), pa.array(values.astype(np.int64)))
    return pl.Series(name, pl.from_arrow(array))
