"""Impressions in a file of one's own (CSV, JSON lines, Parquet) as the counts that estimators take."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from jobs.core.errors import InputError, UsageError
from jobs.core.flags import FALSE, TRUE
from jobs.core.keys import key_of

FIELDS = ("query", "item", "rank", "click", "impressions", "page", "ranker", "randomised")
_REQUIRED = ("item", "rank", "click")
_READ_AS = ("query", "item", "ranker", "rank", "click", "impressions", "randomised")
MAX_LEFT_OUT = 0.05
"""Share of rows that may be left out as unreadable; above it the columns are more likely named wrongly."""


@dataclass(frozen=True, kw_only=True)
class Log:
    """Counts of files of impressions, and what was left out of them, in sentences."""

    counts: pl.DataFrame
    notes: tuple[str, ...]


def read_impressions(paths: list[str], *, columns: str, randomised: bool = False) -> pl.DataFrame:
    """Rows query_key, item_key, rank, ranker, randomised, impressions, clicks: `read_log` without its notes."""
    return read_log(paths, columns=columns, randomised=randomised).counts


def read_log(paths: list[str], *, columns: str, randomised: bool = False) -> Log:
    """Counts, one row a query, item, rank and ranker, and notes on rows that were left out.

    `columns` is "field=column,…"; fields that are not named use their own name where the file has it. Without a query
    column all rows count as one query; items of several files are kept apart only by their ids. `impressions` names a
    column of counts (then `click` counts clicks); else each row is one impression and `page` is not needed. Clicks and
    flags may be whole numbers, true/false or yes/no. Rows with a cell that cannot be read are left out and noted with
    the first one's line and value; InputError where they are more than MAX_LEFT_OUT of a file.
    """
    names = parse_columns(columns)
    parts = [_kept(_fields(_read(path), names, path), path) for path in paths]
    counts = _counts(pl.concat([part for part, _ in parts]), randomised=randomised)
    return Log(counts=counts, notes=tuple(note for _, note in parts if note))


def parse_columns(text: str) -> dict[str, str]:
    """ "query=q,item=doc" as {field: column}; UsageError for a field that does not exist."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    names = {field.strip(): column.strip() for field, _, column in pairs}
    wrong = [field for field, column in names.items() if field not in FIELDS or not column]
    if wrong:
        raise UsageError(f"--columns: {wrong[0]!r} is no field=column pair: fields are {', '.join(FIELDS)}")
    return names


def _read(path: str) -> pl.DataFrame:
    if not Path(path).exists():
        raise InputError(f"{path}: no such file; correct --impressions")
    name = path.removesuffix(".gz")
    try:
        if name.endswith(".parquet"):
            return pl.read_parquet(path, glob=False)
        if name.endswith((".jsonl", ".ndjson")):
            return pl.scan_ndjson(path, infer_schema_length=10_000).collect()
        return pl.read_csv(path, infer_schema=False, separator="\t" if name.endswith(".tsv") else ",")
    except pl.exceptions.PolarsError as problem:
        raise InputError(f"{path}: cannot be read as a table ({str(problem).splitlines()[0]})") from None


def _fields(frame: pl.DataFrame, names: dict[str, str], path: str) -> pl.DataFrame:
    chosen = {f: names.get(f, f) for f in FIELDS if f in names or f in frame.columns}
    missing = [f"{f}={c}" for f, c in chosen.items() if c not in frame.columns]
    missing += [f for f in _REQUIRED if f not in chosen]
    if missing:
        raise InputError(f"{path} has no column for {missing[0]}: its columns are {', '.join(frame.columns)}")
    text = [
        pl.col(chosen[f]).cast(pl.String).alias(f) if f in chosen else pl.lit(None, pl.String).alias(f)
        for f in ("query", "item", "ranker")
    ]
    shown = pl.col(chosen["impressions"]) if "impressions" in names else pl.lit("1")
    random = pl.col(chosen["randomised"]) if "randomised" in chosen else pl.lit("0")
    rest = {
        "rank": pl.col(chosen["rank"]),
        "click": pl.col(chosen["click"]),
        "impressions": shown,
        "randomised": random,
    }
    raw = [pl.col(chosen[f]).cast(pl.String).alias(f"{f}_raw") for f in (*_REQUIRED,)]
    whole = [_whole(column, flag=name in ("click", "randomised")).alias(name) for name, column in rest.items()]
    return frame.select(*text, *raw, *whole)


def _whole(column: pl.Expr, *, flag: bool) -> pl.Expr:
    """A cell as a whole number: 1, "1", "1.0", of a flag also true, "Yes"; null for what is none and for an empty
    cell.
    """
    text = column.cast(pl.String).str.strip_chars().str.to_lowercase()
    number = text.cast(pl.Float64, strict=False)
    return (
        pl.when(text.is_in(TRUE) & flag).then(1)
        .when(text.is_in(FALSE) & flag).then(0)
        .when(number.is_finite() & (number == number.round()) & (number.abs() < 2**53)).then(number)
        .cast(pl.Int64)
    )  # fmt: skip


def _kept(rows: pl.DataFrame, path: str) -> tuple[pl.DataFrame, str | None]:
    """Rows that can be used, and a sentence on the others, naming the first of them."""
    rows = rows.with_columns(pl.col("randomised").fill_null(0) > 0)
    needed = ["item", "rank", "click", "impressions"]
    bad = rows.with_row_index("row").filter(pl.any_horizontal(pl.col(needed).is_null()))
    good = rows.select(*_READ_AS) if not bad.height else rows.drop_nulls(needed).select(*_READ_AS)
    if not bad.height:
        return good, None
    first = bad.row(0, named=True)
    field = next(name for name in needed if first[name] is None)
    line = first["row"] + (1 if path.removesuffix(".gz").endswith((".jsonl", ".ndjson", ".parquet")) else 2)
    value = first.get(f"{field}_raw")
    said = f"{path}: {bad.height} of {rows.height} rows lack a whole number or an item, first line {line}: {field} is"
    said += " empty" if value is None else f" {str(value)[:40]!r}"
    if bad.height > MAX_LEFT_OUT * rows.height:
        raise InputError(f"{said}: clean them, or correct --columns")
    return good, f"{said}; they are left out"


def _counts(rows: pl.DataFrame, *, randomised: bool) -> pl.DataFrame:
    by = ["query", "item", "rank", "ranker", "randomised"]
    sums = (
        rows.with_columns(pl.col("randomised") | randomised)
        .group_by(by)
        .agg(pl.sum("impressions"), pl.sum("click").alias("clicks"))
    )
    keyed = [_keys(sums, ["query"], "query_key"), _keys(sums, ["query", "item"], "item_key")]
    return sums.with_columns(*keyed, pl.col("rank").cast(pl.Int32)).sort("query_key", "item_key", "rank", "ranker")


def _keys(frame: pl.DataFrame, columns: list[str], name: str) -> pl.Series:
    keys = {row: key_of(*(part or "" for part in row)) for row in frame.select(columns).unique().iter_rows()}
    return pl.Series(name, [keys[row] for row in frame.select(columns).iter_rows()], dtype=pl.Int64)
