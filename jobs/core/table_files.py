"""Data files of tables: what a version of a table names, and their rows read alike in tasks and in the driver.

Pure of any session and of the Delta log: jobs.core.tables finds the files.
"""

import re
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any
from urllib.parse import unquote

import polars as pl

from jobs.core.storage import rust_uri, storage_options
from schemas.contract import Table

_PLAIN = re.compile(r"\w+=[\w.-]+")
"""A folder of a partition that means the same to everybody who reads paths: nothing in it is escaped."""


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A live file of a table version: absolute URI, partition values as text, rows, and minima/maxima of columns."""

    uri: str
    partition: dict[str, str]
    rows: int
    size: int
    low: dict[str, Any] = field(default_factory=dict)
    high: dict[str, Any] = field(default_factory=dict)


def read_files(spec: Table, files: list[DataFile], *, columns: list[str] | None = None) -> pl.DataFrame:
    """Rows of the given files with the declared columns (or `columns`), partition columns included; empty if none.

    Pure of any session. A column that the contract gained after a file was written reads as null.
    """
    wanted = columns or spec.names
    kinds = {n: t for n, t in spec.polars().items() if n in wanted}
    frames = [_read_one(spec, file, kinds) for file in files]
    empty = pl.DataFrame(schema=kinds)
    return pl.concat([empty, *frames], how="vertical").select(wanted) if frames else empty.select(wanted)


def scan_uris(uris: list[str]) -> pl.LazyFrame:
    """Parquet files by their URIs, whatever characters their names have; at least one."""
    options = storage_options(rust_uri(uris[0])) or None
    return pl.scan_parquet([rust_uri(u) for u in uris], storage_options=options, hive_partitioning=False, glob=False)


def scan_files(spec: Table, files: list[DataFile], *, columns: list[str] | None = None) -> pl.LazyFrame:
    """The given files as one lazy frame with the declared columns (or `columns`), partition columns included.

    For tasks: filters reach the files, so that row groups outside a key range are not read. Empty if no file is given.
    """
    kinds = {n: t for n, t in spec.polars().items() if n in (columns or spec.names)}
    if len(files) > 1 and all(_tells_its_partition(spec, file) for file in files):
        return _scan_together(spec, files, kinds)
    scans = [_scan_one(spec, file, kinds) for file in files]
    return pl.concat(scans) if scans else pl.LazyFrame(schema=kinds)


def _tells_its_partition(spec: Table, file: DataFile) -> bool:
    """True if the file's path holds its partition values as they are, and no other `name=value` folder."""
    folders = [part for part in file.uri.split("/") if "=" in part]
    return folders == [f"{p}={file.partition[p]}" for p in spec.partition] and all(map(_PLAIN.fullmatch, folders))


def _scan_together(spec: Table, files: list[DataFile], kinds: dict) -> pl.LazyFrame:
    """One scan of all files: in a task over a month, half the time of a scan a file.

    Contracts only ever gain nullable columns, so that nothing but missing columns can differ between files.
    """
    every = spec.polars()
    partition = {name: every[name] for name in spec.partition}
    scan = pl.scan_parquet(
        [rust_uri(file.uri) for file in files],
        schema={name: kind for name, kind in every.items() if name not in partition},
        hive_partitioning=bool(partition),
        hive_schema=partition or None,
        missing_columns="insert",
        extra_columns="ignore",
        glob=False,
        storage_options=storage_options(rust_uri(files[0].uri)) or None,
    )
    return scan.select(list(kinds))


def _scan_one(spec: Table, file: DataFile, kinds: dict) -> pl.LazyFrame:
    scan = scan_uris([file.uri])
    there = set(scan.collect_schema().names())
    stored = [
        pl.col(n).cast(t) if n in there else pl.lit(None, t).alias(n)
        for n, t in kinds.items()
        if n not in spec.partition
    ]
    literals = [_literal(file.partition[n], t).alias(n) for n, t in kinds.items() if n in spec.partition]
    return scan.select(*stored).with_columns(literals).select(list(kinds))


def _read_one(spec: Table, file: DataFile, kinds: dict) -> pl.DataFrame:
    if all(n in spec.partition for n in kinds):
        literals = [_literal(file.partition[n], t).alias(n) for n, t in kinds.items()]
        return pl.DataFrame({"n": [None] * file.rows}).select(literals)
    return _scan_one(spec, file, kinds).collect()


def _literal(value: str, kind: pl.DataType) -> pl.Expr:
    """A partition value, kept as text in paths and logs, in its declared type ("01" of a text column stays "01")."""
    return pl.lit(date.fromisoformat(value)) if kind == pl.Date else pl.lit(value, kind)


def data_file(table_uri: str, partition: tuple[str, ...], row: dict) -> DataFile:
    low = {k.removeprefix("min."): v for k, v in row.items() if k.startswith("min.")}
    high = {k.removeprefix("max."): v for k, v in row.items() if k.startswith("max.")}
    values = {p: str_of(row[f"partition.{p}"]) for p in partition}
    uri = f"{table_uri}/{unquote(row['path'])}"
    return DataFile(uri=uri, partition=values, rows=row["num_records"] or 0, size=row["size_bytes"], low=low, high=high)


def str_of(value: Any) -> str:
    """A partition value as paths and logs spell it."""
    return value.isoformat() if isinstance(value, date | datetime) else str(value)
