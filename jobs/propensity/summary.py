"""Everything that a curve needs from the counts, as small sums over queries: parts of the data are added together.

`summarise` runs on a whole frame or in one task per range of query keys; `Summary.__add__` joins the parts.
Replicate 0 is the data itself, the others are one bootstrap sample of queries each, the same one in every part.
"""

import base64
import io
from dataclasses import dataclass

import numpy as np
import polars as pl

from jobs.core.errors import InputError
from jobs.propensity.bootstrap import Resample
from jobs.propensity.harvest import harvest

COLUMNS = ("query_key", "item_key", "rank", "ranker", "randomised", "impressions", "clicks")


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Arrays by name, all additive. With R replicates and K ranks:

    `shown_V`, `clicked_V` (R+1, K, K) and `pairs_V` (K,) per variation V; `random_shown`, `random_clicked` (R+1, K) and
    `random_pairs` (K,) of randomised traffic; `moved_pairs` (K,) pairs that stand at this and another rank;
    `impressions`, `clicks` (K+1,), the last for deeper ranks; `sizes` (4,): queries, pairs, pairs at two or more
    ranks, their impressions.
    """

    arrays: dict[str, np.ndarray]
    unit: str

    def __add__(self, other: "Summary") -> "Summary":
        if self.unit != other.unit:
            raise InputError(f"summaries resampled by {self.unit} and by {other.unit} cannot be added: use one unit")
        return Summary(arrays={k: v + other.arrays[k] for k, v in self.arrays.items()}, unit=self.unit)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    @property
    def ranks(self) -> int:
        """Number of ranks K."""
        return len(self.arrays["impressions"]) - 1

    def trimmed(self) -> "Summary":
        """The same for the ranks that were shown at all, at least two: a page of 3 places gives a curve of 3 ranks."""
        shown = np.flatnonzero(self["impressions"][:-1])
        depth = max(2, int(shown[-1]) + 1) if len(shown) else 2
        kept = {k: v if k == "sizes" else _cut(v, depth, self.ranks) for k, v in self.arrays.items()}
        return Summary(arrays=kept, unit=self.unit)

    def to_text(self) -> str:
        """Compressed text form (replicates in single precision), as tasks return it."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **{k: v.astype(np.float32) if v.ndim > 1 else v for k, v in self.arrays.items()})
        return self.unit + ":" + base64.b64encode(buffer.getvalue()).decode()

    @classmethod
    def from_text(cls, text: str) -> "Summary":
        """Inverse of `to_text`."""
        unit, body = text.split(":", 1)
        with np.load(io.BytesIO(base64.b64decode(body))) as found:
            return cls(arrays={k: found[k].astype(float) for k in found.files}, unit=unit)


def summarise(counts: pl.DataFrame, *, max_rank: int, replicates: int, unit: str = "query") -> Summary:
    """Sums of a frame with the columns of daily counts (extra columns are ignored, rows of one cell may repeat).

    `unit` is what the bootstrap resamples: "query", or "pair" where queries are too few to resample.
    """
    _check(counts)
    used = _with_unit(counts, unit).filter(pl.col("rank") <= max_rank)
    arrays = {"impressions": _by_rank(counts, "impressions", max_rank), "clicks": _by_rank(counts, "clicks", max_rank)}
    sample = Resample(used["unit"].to_numpy(), replicates=replicates)
    arrays |= _random(used, max_rank, sample) | _sizes(used, max_rank)
    arrays |= harvest(used, ranks=max_rank, sample=sample)
    return Summary(arrays=arrays, unit=unit)


def _cut(values: np.ndarray, depth: int, ranks: int) -> np.ndarray:
    """First `depth` places of every axis of ranks; the place of deeper ranks stays last."""
    if len(values) == ranks + 1 and values.ndim == 1:
        return np.append(values[:depth], values[ranks:])
    axes = [slice(None)] * (values.ndim > 1) + [slice(depth)] * (values.ndim - (values.ndim > 1))
    return values[tuple(axes)]


def _check(counts: pl.DataFrame) -> None:
    missing = [c for c in COLUMNS if c not in counts.columns]
    if missing:
        raise InputError(f"counts lack the columns {', '.join(missing)}: name them with --columns")
    low = counts.select(pl.min("rank"), pl.min("impressions"), pl.min("clicks")).row(0)
    if counts.height and (low[0] is None or low[0] < 1 or min(low[1:]) < 0):
        raise InputError(f"smallest rank, impressions and clicks are {low}: ranks start at 1 and counts at 0")


def _with_unit(counts: pl.DataFrame, unit: str) -> pl.DataFrame:
    if unit == "query":
        return counts.with_columns(pl.col("query_key").alias("unit"))
    query, item = counts["query_key"].to_numpy(), counts["item_key"].to_numpy()
    with np.errstate(over="ignore"):
        mixed = query.astype(np.int64) * np.int64(0x9E3779B97F4A7C1) + item.astype(np.int64)
    return counts.with_columns(pl.Series("unit", mixed))


def _by_rank(counts: pl.DataFrame, column: str, ranks: int) -> np.ndarray:
    place = np.minimum(counts["rank"].to_numpy(), ranks + 1) - 1
    return np.bincount(place, counts[column].to_numpy(), ranks + 1).astype(float)


def _place(rows: pl.DataFrame, column: str, ranks: int) -> np.ndarray:
    return np.bincount(rows["rank"].to_numpy() - 1, rows[column].to_numpy(), ranks).astype(float)


def _random(used: pl.DataFrame, ranks: int, sample: Resample) -> dict[str, np.ndarray]:
    """Counts by rank of randomised traffic, per replicate."""
    rows = used.filter("randomised")
    units, place = rows["unit"].to_numpy(), rows["rank"].to_numpy().astype(np.int64) - 1
    sums = {
        f"random_{name}": sample.sums(units, place, rows[column].to_numpy(), cells=ranks)
        for name, column in (("shown", "impressions"), ("clicked", "clicks"))
    }
    pairs = rows.select("query_key", "item_key", "rank").unique().group_by("rank").agg(pl.len().alias("pairs"))
    return sums | {"random_pairs": _place(pairs, "pairs", ranks)}


def _sizes(used: pl.DataFrame, ranks: int) -> dict[str, np.ndarray]:
    cells = used.group_by("query_key", "item_key", "rank").agg(pl.sum("impressions")).filter(pl.col("impressions") > 0)
    moved_cells = cells.filter(pl.len().over("query_key", "item_key") > 1).group_by("rank").agg(pl.len().alias("pairs"))
    pairs = cells.group_by("query_key", "item_key").agg(pl.len().alias("ranks"), pl.sum("impressions"))
    moved = pairs.filter(pl.col("ranks") > 1)
    sizes = [used["query_key"].n_unique(), pairs.height, moved.height, moved["impressions"].sum()]
    return {"sizes": np.array(sizes, float), "moved_pairs": _place(moved_cells, "pairs", ranks)}
