"""Parquet files and Delta tables, whose rows each say all, to rows as read: columns stay typed, batches stay small."""

from collections.abc import Iterator
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.core.errors import InputError
from jobs.core.storage import filesystem
from jobs.impressions import reasons
from jobs.impressions.documents import READ, Kind
from jobs.impressions.layout import Layout
from jobs.impressions.text_tables import completed, mapped_columns, number_of, rank_of, rank_reason, read_name
from jobs.impressions.ubi import Tally

BATCH = 500_000
"""Rows of a batch: enough for vectorised work, 200 to 400 MB at the widest."""

_KEPT_TYPED = ("time", "arrived", "click_arrived", "randomised", "clicked")


class ColumnarReader:
    """Reads one Parquet file in batches; partition values of a table are passed as constants."""

    def __init__(self, layout: Layout, *, name: str, constants: dict[str, str] | None = None) -> None:
        self._layout, self._name = layout, name
        self._constants = constants or {}
        self.tally = Tally()

    def batches(self, uri: str) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """Pairs (rows as read, the same rows as the file holds them)."""
        fs, path = filesystem(uri)
        file = _opened(fs.open_input_file(path), name=self._name)
        own = file.schema_arrow.names
        constants = {n: v for n, v in self._constants.items() if n not in own}
        mapped = mapped_columns([*own, *constants], layout=self._layout, name=self._name)
        wanted = [c for c in dict.fromkeys(mapped.values()) if c not in constants]
        first = 1
        for batch in file.iter_batches(batch_size=BATCH, columns=wanted):
            held = pl.from_arrow(pa.Table.from_batches([batch]))
            held = held.with_columns(pl.lit(v).alias(c) for c, v in constants.items() if c in mapped.values())
            yield self._rows(held, mapped, first), held
            first += held.height

    def _rows(self, held: pl.DataFrame, mapped: dict[str, str], first: int) -> pl.DataFrame:
        self.tally.documents += held.height
        columns = [self._column(held[c], f) for f, c in mapped.items() if f not in ("rank", "interaction")]
        rank, why = _rank(held[mapped["rank"]]) if "rank" in mapped else (None, None)
        extra = [s for s in (rank, why) if s is not None]
        if "interaction" in mapped:
            extra.append(_interaction(held[mapped["interaction"]]))
        frame = _undecodable(pl.DataFrame([*columns, *extra]), held, mapped).with_columns(
            pl.int_range(first, first + held.height, dtype=pl.Int64, eager=False).alias("line"),
            pl.lit(int(Kind.ROW), pl.Int8).alias("kind"),
        )
        return completed(frame)

    def _column(self, values: pl.Series, field: str) -> pl.Series:
        name = read_name(field)
        if values.dtype.is_nested() or values.dtype == pl.Object:
            raise InputError(
                f"{self._name}: columns.{field} is {values.name!r}, which holds {values.dtype}: name a column of plain"
                " values"
            )
        if name in _KEPT_TYPED:
            return values.alias(name)
        if values.dtype.is_float():
            values = values.fill_nan(None)
            whole = values.cast(pl.Int64, strict=False)
            values = pl.select(
                pl.when(whole == values).then(whole.cast(pl.String)).otherwise(values.cast(pl.String))
            ).to_series()
        texts = _decoded(values) if values.dtype == pl.Binary else values.cast(READ[name])
        return pl.select(pl.when(texts != "").then(texts).alias(name)).to_series()


def _decoded(values: pl.Series) -> pl.Series:
    """Bytes as UTF-8 texts, null where they are none (Polars refuses the whole column for one of them)."""
    return pl.Series(values.name, [_text_of(v) for v in values], dtype=pl.String)


def _text_of(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _undecodable(frame: pl.DataFrame, held: pl.DataFrame, mapped: dict[str, str]) -> pl.DataFrame:
    """The rows with the reason of those whose bytes are no text, which else would be null."""
    texts = {f: held[c] for f, c in mapped.items() if held[c].dtype == pl.Binary and f not in ("rank", "interaction")}
    wrong = [(v.is_not_null() & (v.bin.size() > 0) & frame[read_name(f)].is_null()) for f, v in texts.items()]
    if not wrong:
        return frame
    lost = pl.DataFrame(wrong).select(pl.any_horizontal(pl.all())).to_series()
    other = pl.col("reason") if "reason" in frame.columns else pl.lit(None, pl.String)
    return frame.with_columns(pl.when(lost).then(pl.lit(reasons.UNDECODABLE)).otherwise(other).alias("reason"))


def rows_of_footer(stream: Any, *, name: str) -> int:
    """Rows of a Parquet file; InputError if it is none."""
    return _opened(stream, name=name).metadata.num_rows


def _opened(stream: Any, *, name: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(stream)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{name}: cannot be read as Parquet ({error}): fetch the file again") from error


def _rank(values: pl.Series) -> tuple[pl.Series, pl.Series]:
    if values.dtype.is_integer():
        return values.cast(pl.Int64).alias("rank"), pl.Series("reason", [None], dtype=pl.String).new_from_index(
            0, len(values)
        )
    if values.dtype.is_float():
        whole = values.cast(pl.Int64, strict=False)
        wrong = pl.when((whole.cast(pl.Float64) != values) | (whole.is_null() & values.is_not_null()))
        reason = pl.select(wrong.then(pl.lit(reasons.BAD_RANK)).alias("reason")).to_series()
        return whole.alias("rank"), reason
    texts = values.cast(pl.String)
    return rank_of(texts), rank_reason(texts)


def _interaction(values: pl.Series) -> pl.Series:
    return (values.cast(pl.Float64) if values.dtype.is_numeric() else number_of(values.cast(pl.String))).alias(
        "interaction"
    )
