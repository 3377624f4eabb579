"""Values of JSON documents as columns: texts, ids, places, lists; the quick way where all are well-formed."""

import re
from collections.abc import Callable
from decimal import Decimal
from itertools import accumulate, chain
from types import NoneType
from typing import Any

import polars as pl

from jobs.impressions import reasons

_WHOLE = re.compile(r"^(-?\d+)\.0+$")
_EXACT = 1 << 53
_MOST = 10**40
"""Ids of more digits are no numbers that any system counts with."""


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


def column_getter(path: str) -> Callable[[list[dict]], list]:
    """`getter` for many documents at once; paths of one and two names, which nearly all are, without a call each."""
    first, *rest = path.split(".")
    if not rest:
        return lambda documents: [d.get(first) for d in documents]
    if len(rest) == 1:
        last = rest[0]
        return lambda documents: [v.get(last) if type(v := d.get(first)) is dict else None for d in documents]
    get = getter(path)
    return lambda documents: [get(d) for d in documents]


def text(value: Any) -> str | None:
    """Text of a scalar (numbers as they are written, booleans as true and false); None for null, empty and nested
    values."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else None


def id_text(value: Any) -> str | None:
    """Text of an id: whole numbers without a fraction, so that 12345, 12345.0 and "12345.0" are one."""
    if isinstance(value, str):
        return _WHOLE.sub(r"\1", value) or None if value.endswith("0") else value or None
    if isinstance(value, float | Decimal) and value == value and abs(value) < _MOST and value == int(value):
        return str(int(value))
    return str(value) if isinstance(value, Decimal) else text(value)


def rounded(value: Any) -> bool:
    """True for a number that a float cannot hold: an id written so must be read again from its text."""
    return type(value) is float and abs(value) >= _EXACT


def item_of(value: Any) -> tuple[str | None, str | None]:
    """An id as text: 12345 and "12345" are one item; the reason where it is neither text nor a whole number."""
    if value is None or isinstance(value, str):
        return id_text(value), None
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if not number or value != value or abs(value) >= _MOST or value != int(value):
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


def id_texts_of(values: list) -> pl.Series:
    """`id_text` of each value."""
    if not set(map(type, values)) <= {str, NoneType}:
        values = [id_text(v) for v in values]
    return texts_of(values)


def ids_of(values: list) -> tuple[pl.Series, pl.Series]:
    """`item_of` of each value, and the reasons."""
    kinds = set(map(type, values))
    if kinds <= {str, int, NoneType} and all(-_MOST < v < _MOST for v in values if type(v) is int):
        texts = [str(v) if type(v) is int else v for v in values] if int in kinds else values
        return texts_of(texts), pl.Series([None], dtype=pl.String).new_from_index(0, len(values))
    found = [item_of(v) for v in values]
    return pl.Series([i for i, _ in found], dtype=pl.String), pl.Series([r for _, r in found], dtype=pl.String)


def wholes_of(values: list) -> tuple[pl.Series, pl.Series]:
    """`whole` of each value, and the reasons."""
    if set(map(type, values)) == {int} and min(values) > -1e9 and max(values) < 1e9:
        return pl.Series(values, dtype=pl.Int64), pl.Series([None], dtype=pl.String).new_from_index(0, len(values))
    found = [(v, None) if type(v) is int and -1e9 < v < 1e9 else whole(v) for v in values]
    return pl.Series([n for n, _ in found], dtype=pl.Int64), pl.Series([r for _, r in found], dtype=pl.String)


def lists_of(values: list[list[str] | None]) -> pl.Series:
    """Lists of texts as one series, null where there is none; through Arrow, a series made of lists is slow."""
    import pyarrow as pa

    ends = list(accumulate((len(v) if v is not None else 0 for v in values), initial=0))
    starts = [None if v is None else e for v, e in zip(values, ends, strict=False)]
    # through Polars, since pa.array of a list imports pandas: half a second of every worker
    offsets = pl.Series([*starts, ends[-1]], dtype=pl.Int32).to_arrow()
    flat = pl.Series(list(chain.from_iterable(filter(None, values))), dtype=pl.String).to_arrow()
    return pl.Series(pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), flat), dtype=pl.List(pl.String))
