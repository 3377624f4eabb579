"""Any declared file to batches of rows as read, with what a refused row looked like."""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import orjson
import polars as pl

from jobs.core.errors import InputError
from jobs.core.storage import filesystem
from jobs.impressions.layout import Layout
from jobs.impressions.lines import RAW_LIMIT, Line, read_lines, unpacked
from jobs.impressions.privacy import Hidden, Salt, mask_loose, mask_object
from jobs.impressions.text_tables import CsvReader, JsonReader
from jobs.impressions.ubi import Tally, UbiReader

_LINES, _BYTES = 100_000, 48 << 20
"""A batch of lines ends at either bound, so that memory depends neither on a file's length nor on its lines'."""

_UBI_QUERIES = frozenset({"user_query", "message"})
_UBI_IDS = frozenset({"user_id", "client_id", "session_id"})

RawOf = Callable[[list[int]], list[str]]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows as read, and `raw`: line numbers to the masked content of those rows."""

    rows: pl.DataFrame
    raw: RawOf


def read_batches(
    uri: str, *, layout: Layout, salt: Salt, constants: dict[str, str] | None = None
) -> Iterator[tuple[Batch, Tally]]:
    """Batches of a file with the running tally; InputError for what no row of it can be read from."""
    if layout.format in ("parquet", "delta"):
        yield from _columnar(uri, layout, salt, constants)
        return
    fs, path = filesystem(uri)
    try:
        stream = fs.open_input_file(path)
    except OSError as error:
        raise InputError(f"{uri}: cannot be opened ({error}): check its path and permissions") from error
    with stream:
        yield from _text(read_lines(unpacked(stream), name=uri), uri, layout, salt)


def _text(lines: Iterator[Line], uri: str, layout: Layout, salt: Salt) -> Iterator[tuple[Batch, Tally]]:
    reader = _reader(layout, uri)
    fields = hidden_fields(layout)
    for chunk, last in _chunks(lines):
        if isinstance(reader, CsvReader):
            known = [*reader.waiting, *chunk]
            rows = reader.read(chunk, last=last)
            raw = _raw_lines(known, reader.header, reader.separator, fields, salt)
        else:
            rows, raw = reader.read(chunk), _raw_lines(chunk, [], "", fields, salt)
        yield Batch(rows=rows, raw=raw), reader.tally


def _reader(layout: Layout, uri: str) -> UbiReader | JsonReader | CsvReader:
    if layout.format == "ubi":
        return UbiReader(layout)
    return JsonReader(layout, name=uri) if layout.format == "jsonl" else CsvReader(layout, name=uri)


def _chunks(lines: Iterator[Line]) -> Iterator[tuple[list[Line], bool]]:
    """Lists of lines, each with whether it is the last."""
    held: list[Line] = []
    size = 0
    for line in lines:
        if len(held) >= _LINES or size >= _BYTES:
            yield held, False
            held, size = [], 0
        held.append(line)
        size += len(line.content)
    yield held, True


def _raw_lines(chunk: list[Line], header: list[str], separator: str, fields: Hidden, salt: Salt) -> RawOf:
    def raw(numbers: list[int]) -> list[str]:
        by_number = {line.number: line for line in chunk}
        return [
            raw_text(by_number[n].content if n in by_number else b"", header, separator, fields, salt) for n in numbers
        ]

    return raw


def raw_text(content: bytes, header: list[str], separator: str, fields: Hidden, salt: Salt) -> str:
    """Refused bytes as they may be kept: masked JSON where they are an object or a CSV row, else masked text; at most
    RAW_LIMIT bytes."""
    document = _object(content, header, separator)
    if document is None:
        return mask_loose(content[:RAW_LIMIT].decode("utf-8", "backslashreplace"))[:RAW_LIMIT]
    kept = mask_object(document, salt=salt, hidden=fields)
    return kept[:RAW_LIMIT].decode("utf-8", "ignore")


def _object(content: bytes, header: list[str], separator: str) -> dict | None:
    try:
        if not header:
            document = orjson.loads(content)
            return document if isinstance(document, dict) else None
        row = next(csv.reader([content.decode("utf-8")], delimiter=separator, strict=True), [])
    except (orjson.JSONDecodeError, UnicodeDecodeError, csv.Error):
        return None
    return dict(zip(header, row, strict=True)) if len(row) == len(header) else None


def hidden_fields(layout: Layout) -> Hidden:
    """Names of the fields that a refused row may not keep as they came.

    UBI's `query` is the engine's own request: it repeats what the user typed and who did, nothing here reads it, so
    it goes.
    """
    named = {f: layout.column(f).rsplit(".", 1)[-1] for f in ("query", "user", "session")}
    mapped = {c.rsplit(".", 1)[-1] for c in layout.columns.values()}
    dropped = frozenset({"query"} - mapped) if layout.format == "ubi" else frozenset()
    queries = (_UBI_QUERIES | {named["query"]}) - dropped
    return Hidden(queries=queries, ids=_UBI_IDS | {named["user"], named["session"]}, dropped=dropped)


def _columnar(uri: str, layout: Layout, salt: Salt, constants: dict[str, str] | None) -> Iterator[tuple[Batch, Tally]]:
    from jobs.impressions.columnar import ColumnarReader

    reader = ColumnarReader(layout, name=uri, constants=constants)
    hidden = hidden_fields(layout)
    for rows, held in reader.batches(uri):
        first = rows["line"][0] if rows.height else 1

        def raw(numbers: list[int], held: pl.DataFrame = held, first: int = first) -> list[str]:
            found = held[[n - first for n in numbers]].to_dicts()
            return [mask_object(d, salt=salt, hidden=hidden)[:RAW_LIMIT].decode("utf-8", "ignore") for d in found]

        yield Batch(rows=rows, raw=raw), reader.tally
