"""Values of JSON documents as columns: texts, ids, places, lists; the quick way where all are well-formed."""

from collections.abc import Callable
from itertools import accumulate
from types import NoneType
from typing import Any

import polars as pl

from jobs.impressions import reasons


def getter(path: str) -> Callable[[dict], Any]:
    """A function that follows a dotted path through objects; None where the path ends early."""
    *outer, last = path.split(".")

    def get(document: dict) -> Any:
        value: Any = document
        for key in outer:
            value = value.get(key)
            if type(value) is not dict:
                return None
        return value.get(last)

    return get


def text(value: Any) -> str | None:
    """Text of a scalar (numbers as they are written, booleans as true and false); None for null, empty and nested
    values."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else None


def item_of(value: Any) -> tuple[str | None, str | None]:
    """An id as text: 12345 and "12345" are one item; the reason where it is neither text nor a whole number."""
    if isinstance(value, str):
        return (value, None) if value else (None, None)
    if value is None:
        return None, None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        return None, reasons.BAD_ITEM
    return str(int(value)), None


def whole(value: Any) -> tuple[int | None, str | None]:
    """A place on the page as a whole number, or the reason why it is none."""
    if value is None or value == "":
        return None, reasons.MISSING_RANK
    if isinstance(value, bool):
        return None, reasons.BAD_RANK
    if isinstance(value, float) and value == value and abs(value) < 1e9 and value == int(value):
        return int(value), None
    if isinstance(value, int) and abs(value) < 1e9:
        return value, None
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 10:
        return int(value), None
    return None, reasons.BAD_RANK


def texts_of(values: list) -> pl.Series:
    """`text` of each value: at once where all are texts already."""
    if not set(map(type, values)) <= {str, NoneType}:
        values = [text(v) for v in values]
    texts = pl.Series("texts", values, dtype=pl.String)
    return texts.to_frame().select(pl.when(pl.col("texts") != "").then("texts")).to_series()


def ids_of(values: list) -> tuple[pl.Series, pl.Series]:
    """`item_of` of each value, and the reasons."""
    if set(map(type, values)) <= {str, NoneType}:
        return texts_of(values), pl.Series([None] * len(values), dtype=pl.String)
    found = [item_of(v) for v in values]
    return pl.Series([i for i, _ in found], dtype=pl.String), pl.Series([r for _, r in found], dtype=pl.String)


def wholes_of(values: list) -> tuple[pl.Series, pl.Series]:
    """`whole` of each value, and the reasons."""
    found = [(v, None) if type(v) is int and -1e9 < v < 1e9 else whole(v) for v in values]
    return pl.Series([n for n, _ in found], dtype=pl.Int64), pl.Series([r for _, r in found], dtype=pl.String)


def lists_of(values: list[list[str] | None]) -> pl.Series:
    """Lists of texts as one series, null where there is none; through Arrow, a series made of lists is slow."""
    import pyarrow as pa

    ends = list(accumulate((len(v) if v is not None else 0 for v in values), initial=0))
    offsets = pa.array([None if v is None else e for v, e in zip(values, ends, strict=False)] + ends[-1:], pa.int32())
    flat = pa.array([hit for v in values if v is not None for hit in v], pa.string())
    return pl.Series(pa.ListArray.from_arrays(offsets, flat), dtype=pl.List(pl.String))
