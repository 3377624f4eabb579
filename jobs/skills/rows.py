"""Rows of the files that skills read: JSON lines (also .gz), Parquet, Delta, and tab-separated qrels."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobs.core.errors import InputError, NotThereError

JSON_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")


def rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, row) of each row, in order; `where` names file and line for messages.

    Raises NotThereError for a path that does not exist and InputError, naming the line, for what is no JSON object.
    """
    if not path.exists():
        raise NotThereError(f"{path} does not exist: give a JSON lines or Parquet file, or a Delta folder")
    if path.is_dir():
        yield from _folder_rows(path)
    elif path.name.endswith(JSON_LINES) or path.suffix == ".json":
        yield from _json_rows(path)
    elif path.suffix == ".parquet":
        yield from _parquet_rows(path)
    else:
        raise InputError(f"{path} ends in {path.suffix!r}: give .jsonl, .jsonl.gz, .parquet or a Delta folder")


def first(row: dict[str, Any], names: tuple[str, ...]) -> Any:
    """The value of the first of `names` that the row has and that is not null; None where it has none."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, line without its end) of a UTF-8 text file, gzip or not; empty lines are left out."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig") as file:
            yield from ((n, line.rstrip("\r\n")) for n, line in enumerate(file, start=1) if line.strip())
    except UnicodeDecodeError as problem:
        raise InputError(f"{path} is not UTF-8 ({problem.reason} at byte {problem.start}): convert it") from problem
    except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise InputError(f"{path} is no whole gzip file ({problem}): compress it again, or drop .gz") from problem


def _folder_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if (path / "_delta_log").is_dir():
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            table = DeltaTable(str(path)).to_pyarrow_table()
        except DeltaError as problem:
            raise InputError(f"{path} is no readable Delta table ({problem}): write it again") from problem
        yield from ((f"{path} row {n}", row) for n, row in enumerate(table.to_pylist(), start=1))
        return
    files = sorted(file for file in path.rglob("*") if file.suffix == ".parquet" or file.name.endswith(JSON_LINES))
    if not files:
        raise InputError(f"{path} holds no .jsonl or .parquet file: give the folder that holds them")
    for file in files:
        yield from rows(file)


def _json_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in text_lines(path):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise InputError(f"{path} line {number} is no JSON ({problem}): correct it") from problem
        if not isinstance(row, dict):
            raise InputError(f"{path} line {number} holds {type(row).__name__}: each line must be one JSON object")
        yield f"{path} line {number}", row


def _parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    from pyarrow import ArrowException, parquet

    number = 0
    try:
        for batch in parquet.ParquetFile(path).iter_batches(batch_size=8192):
            for row in batch.to_pylist():
                number += 1
                yield f"{path} row {number}", row
    except (ArrowException, OSError) as problem:
        first_line = str(problem).splitlines()[0]
        raise InputError(f"{path} is no readable Parquet file ({first_line}): write it again") from problem
