"""Impressions in a file of one's own (CSV, JSON lines, Parquet) as the counts that estimators take."""

from pathlib import Path

import polars as pl

from jobs.core.errors import InputError, UsageError
from jobs.core.keys import key_of

FIELDS = ("query", "item", "rank", "click", "impressions", "page", "ranker", "randomised")
_REQUIRED = ("item", "rank", "click")


def read_impressions(paths: list[str], *, columns: str, randomised: bool = False) -> pl.DataFrame:
    """Rows query_key, item_key, rank, ranker, randomised, impressions, clicks: one a query, item, rank and ranker.

    `columns` is "field=column,…"; fields that are not named use their own name where the file has it. Without a query
    column all rows count as one query; items of several files are kept apart only by their ids. `impressions` names a
    column of counts (then `click` counts clicks); else each row is one impression and `page` is not needed.
    """
    names = parse_columns(columns)
    frames = [_fields(_read(path), names, path) for path in paths]
    return _counts(pl.concat(frames), randomised=randomised)


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
            return pl.read_parquet(path)
        if name.endswith((".jsonl", ".ndjson")):
            return pl.scan_ndjson(path, infer_schema_length=10_000).collect()
        return pl.read_csv(path, infer_schema_length=100_000, separator="\t" if name.endswith(".tsv") else ",")
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
    whole = [pl.col(chosen[f]).cast(pl.Int64, strict=False).alias(f) for f in ("rank", "click")]
    shown = (
        pl.col(chosen["impressions"]).cast(pl.Int64, strict=False) if "impressions" in names else pl.lit(1, pl.Int64)
    )
    random = pl.col(chosen["randomised"]).cast(pl.Boolean) if "randomised" in chosen else pl.lit(value=False)
    rows = frame.select(*text, *whole, shown.alias("impressions"), random.alias("randomised"))
    bad = rows.filter(pl.any_horizontal(pl.col("item", "rank", "click", "impressions").is_null())).height
    if bad:
        raise InputError(
            f"{path}: {bad} of {rows.height} rows lack a whole number or an item: clean them, or ingest the log"
        )
    return rows


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
