"""Sums per (query, item) in tables of pairs by ranks: number the pairs once, then add every row into its cell.

Nothing is sorted but the pairs themselves. Both keys are hashes already, so their sum mixes them enough to number the
pairs by; two pairs under one number would be seen, and sorting decides then. Sums of whole numbers are exact in float64
(below 2^53), so no result depends on the order in which days were read.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

DEEPEST = 64
"""Ranks that a table holds: 1 KB a pair for impressions and clicks. Deeper pages take the path that sorts."""

_NEVER = -(2**31)
_BLOCK = 1 << 18  # rows that are compared at a time


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Pairs that were shown, sorted by keys. `query`, `item`, `interaction`, `day` (last that showed it) are (pairs,);
    `shown`, `clicked` are (pairs, ranks), and `there` says which cells any row told of.
    """

    query: np.ndarray
    item: np.ndarray
    interaction: np.ndarray
    day: np.ndarray
    shown: np.ndarray
    clicked: np.ndarray
    there: np.ndarray


def dense_pairs(counts: pl.DataFrame) -> Pairs | None:
    """Sums of a frame with the columns of daily_counts; None for ranks beyond DEEPEST, or if two pairs share a
    number. Beside the frame it needs some 30 bytes a row.
    """
    ranks = int(counts["rank"].max() or 1)
    numbered = _numbered(counts) if ranks <= DEEPEST else None
    if numbered is None:
        return None
    number, query, item = numbered
    size = len(query)
    day = _last_day(number, counts, size)
    interaction = _added(number, counts["interaction"], size)
    number *= ranks
    number += counts["rank"].to_numpy()
    number -= 1  # now each row's cell
    shown, clicked = (_added(number, counts[n], size * ranks) for n in ("impressions", "clicks"))
    there = np.bincount(number, minlength=size * ranks) > 0
    order = np.lexsort((item, query))
    order = order[day[order] > _NEVER]
    tables = {n: t.reshape(size, ranks)[order] for n, t in (("shown", shown), ("clicked", clicked), ("there", there))}
    return Pairs(query=query[order], item=item[order], interaction=interaction[order], day=day[order], **tables)


def _numbered(counts: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """A number from 0 for each row's pair of keys, by a hash table, and the keys by number; None after a clash."""
    query, item = counts["query_key"].to_numpy(), counts["item_key"].to_numpy()
    number, size = _codes(query, item)
    row = np.empty(size, np.int64)
    row[number] = np.arange(len(number))
    keys = query[row], item[row]
    for start in range(0, len(number), _BLOCK):
        part = slice(start, start + _BLOCK)
        if any((key[number[part]] != column[part]).any() for key, column in zip(keys, (query, item), strict=True)):
            return None
    return number, *keys


def whole_numbers(numbers: np.ndarray):
    """An Arrow array of int64 over the numbers; `pa.array` would load pandas, .6 s of every worker."""
    import pyarrow as pa

    held = np.ascontiguousarray(numbers, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(held), [None, pa.py_buffer(held)])


def _codes(query: np.ndarray, item: np.ndarray) -> tuple[np.ndarray, int]:
    with np.errstate(over="ignore"):
        mixed = item * np.int64(-0x61C8864680B583EB)
        mixed += query
    coded = whole_numbers(mixed).dictionary_encode()
    indices = np.frombuffer(coded.indices.buffers()[1], np.int32, len(coded))  # `to_numpy` would load pandas, too
    return indices.astype(np.int64), len(coded.dictionary)


def _last_day(number: np.ndarray, counts: pl.DataFrame, size: int) -> np.ndarray:
    """Last day, since 1970, on which each pair was shown."""
    day = np.full(size, _NEVER, np.int32)
    seen = counts["impressions"].to_numpy() > 0
    np.maximum.at(day, number[seen], counts["event_day"].to_physical().to_numpy()[seen])
    return day


def _added(place: np.ndarray, values: pl.Series, size: int) -> np.ndarray:
    return np.bincount(place, values.to_numpy(), size)


def weighed(pairs: Pairs, weights: np.ndarray) -> dict[str, np.ndarray]:
    """examined, examined_squared and curve_variance: `weights` holds a row a rank: examination, common error factors
    and last the rank's own.
    """
    p, common = weights[:, 0], weights[:, 1:-1]
    own = weights[:, -1] if weights.shape[1] > 1 else np.zeros(len(weights))
    factors = np.column_stack([p, p * p, common])
    sums, alone = np.zeros((len(pairs.query), factors.shape[1])), np.zeros(len(pairs.query))
    for k in range(len(weights)):  # rank by rank: a sum has one order, whatever the machine
        n = pairs.shown[:, k]
        sums += n[:, None] * factors[k]
        alone += n * n * (own[k] * own[k])
    variance = (sums[:, 2:] ** 2).sum(axis=1) + alone
    return {"examined": sums[:, 0], "examined_squared": sums[:, 1], "curve_variance": variance}


def inverse_sums(pairs: Pairs, p: np.ndarray) -> dict[str, np.ndarray]:
    """Sums of the inverse-weighted estimators, for examination by rank that is above 0."""
    return {
        "inverse_clicks": (pairs.clicked / p).sum(axis=1),
        "inverse_square_clicks": (pairs.clicked / p**2).sum(axis=1),
        "inverse_exposure": (pairs.shown / p).sum(axis=1),
    }


def by_rank(pairs: Pairs) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Offsets of each pair's cells, and the cells' ranks, impressions and clicks, ranks ascending."""
    offsets = np.append(0, np.cumsum(pairs.there.sum(axis=1)))
    ranks = np.nonzero(pairs.there)[1] + 1
    return offsets, {
        "ranks": ranks,
        "rank_impressions": pairs.shown[pairs.there],
        "rank_clicks": pairs.clicked[pairs.there],
    }
