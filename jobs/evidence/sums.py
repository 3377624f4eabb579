"""Additive sums per (query, item) over many days of counts, weighed by a curve.

Whole numbers are added first, per pair and rank, and weighed afterwards: so no sum depends on the order in which
days were read. Mostly in tables of pairs by ranks (jobs.evidence.dense); with segments, or ranks too deep for that,
rows are sorted and added along the runs of equal keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from jobs.core.errors import InputError
from jobs.evidence.dense import Pairs, by_rank, dense_pairs, inverse_sums, weighed, whole_numbers

CurveValues = Mapping[tuple[str | None, int], float]
"""(segment, rank) to examination; (None, rank) serves segments that have no curve of their own."""

CurveErrors = Mapping[tuple[str | None, int], tuple[float, ...]]
"""(segment, rank) to the curve's error there: common factors, and last the rank's own (Curve.loadings)."""

_COUNTED = ("impressions", "clicks", "interaction")


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
    segmented = any(segment is not None for segment, _ in curve)
    pairs = None if by_segment or segmented else dense_pairs(counts)
    if pairs is not None:
        return _of_tables(pairs, curve=curve, errors=errors, floor=floor if inverse else None)
    cells = _cells(counts, by_segment=by_segment, segmented=segmented)
    place, weights = _weights(cells, curve, errors)
    values = _weighed(cells, place, weights) | (_inverse(cells, weights[place, 0], floor) if inverse else {})
    shown = cells.frame.select("query_key", "item_key", "segment")[cells.starts].with_columns(
        **_totals(cells), **values
    )
    lists = shown.with_columns(**_ranks(cells)).filter(pl.col("impressions") > 0)
    return lists.sort("query_key", "item_key", *(["segment"] if by_segment else []))


def _of_tables(pairs: Pairs, *, curve: CurveValues, errors: CurveErrors | None, floor: float | None) -> pl.DataFrame:
    """The columns of `pair_sums` from tables by rank; `floor` asks for the sums of the inverse-weighted estimators."""
    weights = _table(curve, errors, [], shown=pairs.there.any(axis=0))
    known = np.nan_to_num(weights[1:])
    values = weighed(pairs, known)
    if floor is not None:
        values |= inverse_sums(pairs, np.maximum(known[:, 0], floor))
    whole = {"impressions": pairs.shown.sum(axis=1), "clicks": pairs.clicked.sum(axis=1)}
    offsets, lists = by_rank(pairs)
    return pl.DataFrame({
        "query_key": pairs.query, "item_key": pairs.item,
        "segment": pl.Series([None], dtype=pl.String).new_from_index(0, len(pairs.query)),
        **{n: v.astype(np.int64) for n, v in (whole | {"interaction": pairs.interaction}).items()},
        "last_shown_day": pl.Series(pairs.day).cast(pl.Date),
        **{n: np.ascontiguousarray(v) for n, v in values.items()},
        **{n: _lists(n, v, offsets) for n, v in lists.items()},
    })  # fmt: skip


@dataclass(frozen=True)
class _Cells:
    """Whole-number sums per (pair, rank[, segment of the curve]), pairs together; `starts`: first cell of each pair."""

    frame: pl.DataFrame
    starts: np.ndarray

    def column(self, name: str) -> np.ndarray:
        return self.frame[name].to_numpy()

    def added(self, values: np.ndarray) -> np.ndarray:
        return _add(values, self.starts)


def _cells(counts: pl.DataFrame, *, by_segment: bool, segmented: bool) -> _Cells:
    pair = ["query_key", "item_key", *(["segment"] if by_segment else [])]
    keys = list(dict.fromkeys([*pair, "rank", *(["segment"] if segmented else [])]))
    rows = counts.select(*keys, "event_day", *_COUNTED)
    rows = rows.sort(keys)
    first = _starts(rows, keys)
    day = np.where(rows["impressions"].to_numpy() > 0, rows["event_day"].to_physical().to_numpy(), -(2**31))
    sums = {n: pl.Series(n, _add(rows[n].to_numpy(), first)) for n in _COUNTED}
    frame = rows.select(keys)[first].with_columns(**sums, day=pl.Series("day", _latest(day, first)))
    frame = frame if "segment" in keys else frame.with_columns(pl.lit(None, pl.String).alias("segment"))
    return _Cells(frame, _starts(frame, pair))


def _starts(rows: pl.DataFrame, keys: list[str]) -> np.ndarray:
    """Row numbers at which a new combination of `keys` starts, in a frame that has equal ones together."""
    new = np.zeros(rows.height, bool)
    new[:1] = True
    for key in keys:
        new[1:] |= _differs(rows[key])
    return np.flatnonzero(new)


def _differs(column: pl.Series) -> np.ndarray:
    if column.dtype == pl.String:
        return column.ne_missing(column.shift(1)).to_numpy()[1:]
    values = column.to_numpy()
    return values[1:] != values[:-1]


def _add(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return np.add.reduceat(values, starts) if len(starts) else values[:0]


def _latest(days: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return (np.maximum.reduceat(days, starts) if len(starts) else days[:0]).astype(np.int32)


def _totals(cells: _Cells) -> dict[str, pl.Series]:
    sums = {n: pl.Series(n, cells.added(cells.column(n))) for n in _COUNTED}
    return sums | {"last_shown_day": pl.Series(_latest(cells.column("day"), cells.starts)).cast(pl.Date)}


def _weights(cells: _Cells, curve: CurveValues, errors: CurveErrors | None) -> tuple[np.ndarray, np.ndarray]:
    """Row of each cell in a small table of its segment and rank, and that table: examination, then error factors."""
    names = sorted({segment for segment, _ in curve if segment is not None})
    rank = cells.column("rank").astype(np.int64)
    shown = np.bincount(rank, minlength=1)[1:] > 0
    table = _table(curve, errors, names, shown=shown)
    return _codes(cells.frame["segment"], names) * (len(shown) + 1) + rank, table


def _table(curve: CurveValues, errors: CurveErrors | None, names: list[str], *, shown: np.ndarray) -> np.ndarray:
    """Examination and error factors by segment (none, then `names`) and rank from 0; NaN for ranks not in `shown`."""
    factors = max((len(v) for v in (errors or {}).values()), default=0)
    ranks = len(shown) + 1
    table = np.full(((len(names) + 1) * ranks, 1 + factors), np.nan)
    for row, name in enumerate([None, *names]):
        for k in (np.flatnonzero(shown) + 1).tolist():
            table[row * ranks + k] = _entry(curve, errors or {}, name, k, factors)
    return table


def _entry(curve: CurveValues, errors: CurveErrors, segment: str | None, rank: int, factors: int) -> list[float]:
    value = curve.get((segment, rank), curve.get((None, rank)))
    if value is None:
        raise InputError(f"the curve has no examination for rank {rank}: give it every rank that was shown")
    return [value, *errors.get((segment, rank), errors.get((None, rank), (0.0,) * factors))]


def _codes(segments: pl.Series, names: list[str]) -> np.ndarray | int:
    """0 for segments without a curve of their own, 1.. for the names in order."""
    if not names:
        return 0
    return segments.replace_strict(names, list(range(1, len(names) + 1)), default=0, return_dtype=pl.Int64).to_numpy()


def _weighed(cells: _Cells, place: np.ndarray, weights: np.ndarray) -> dict[str, pl.Series]:
    """Examined exposure, its square and the variance that the curve's own error gives it: pairs by ranks, times
    ranks.
    """
    from scipy.sparse import csr_array

    n = cells.column("impressions").astype(float)
    ends = np.append(cells.starts, len(n))
    shape = (len(cells.starts), len(weights))
    known = np.nan_to_num(weights)
    p, common, own = known[:, 0], known[:, 1:-1], known[:, -1] if known.shape[1] > 1 else np.zeros(len(known))
    sums = csr_array((n, place, ends), shape=shape) @ np.column_stack([p, p * p, common])
    alone = csr_array((n * n, place, ends), shape=shape) @ (own * own)
    variance = (sums[:, 2:] ** 2).sum(axis=1) + alone
    columns = {"examined": sums[:, 0], "examined_squared": sums[:, 1], "curve_variance": variance}
    return {name: pl.Series(name, np.ascontiguousarray(values)) for name, values in columns.items()}


def _inverse(cells: _Cells, p: np.ndarray, floor: float) -> dict[str, pl.Series]:
    """Sums of the inverse-weighted estimators, propensities clipped at `floor`."""
    n, c, p = cells.column("impressions"), cells.column("clicks"), np.maximum(p, floor)
    sums = {"inverse_clicks": c / p, "inverse_square_clicks": c / p**2, "inverse_exposure": n / p}
    return {name: pl.Series(name, cells.added(values)) for name, values in sums.items()}


def _ranks(cells: _Cells) -> dict[str, pl.Series]:
    """Lists of rank, impressions and clicks per pair, one element a rank, ascending."""
    new = np.zeros(cells.frame.height, bool)
    new[cells.starts] = True
    new[1:] |= _differs(cells.frame["rank"])
    place = np.flatnonzero(new)
    offsets = np.append(np.searchsorted(place, cells.starts), len(place))
    columns = {
        "ranks": cells.column("rank")[place].astype(np.int64),
        "rank_impressions": _add(cells.column("impressions"), place),
        "rank_clicks": _add(cells.column("clicks"), place),
    }
    return {name: _lists(name, values, offsets) for name, values in columns.items()}


def _lists(name: str, values: np.ndarray, offsets: np.ndarray) -> pl.Series:
    import pyarrow as pa

    array = pa.LargeListArray.from_arrays(whole_numbers(offsets), whole_numbers(values))
    return pl.Series(name, pl.from_arrow(array))
