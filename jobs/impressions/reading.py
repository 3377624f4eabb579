"""Any declared file to batches of rows as read, with what a refused row looked like."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import polars as pl

from jobs.core.errors import InputError
from jobs.core.storage import filesystem
from jobs.impressions.layout import Layout
from jobs.impressions.lines import Line, read_lines, unpacked
from jobs.impressions.masking import Hidden, Masker
from jobs.impressions.privacy import Salt
from jobs.impressions.text_tables import CsvReader, JsonReader
from jobs.impressions.ubi import Tally, UbiReader

_LINES, _BYTES = 100_000, 48 << 20
_STEP = 32
"""A batch of lines ends at either bound (looked at every so many lines), so that memory depends neither on a file's
length nor on its lines'."""

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
    for chunk, last in _chunks(lines):
        if isinstance(reader, CsvReader):
            known = [*reader.waiting, *chunk]
            rows = reader.read(chunk, last=last)
            raw = _raw_lines([*known, *reader.spread], masker_of(layout, salt, reader))
        else:
            rows, raw = reader.read(chunk), _raw_lines(chunk, masker_of(layout, salt))
        yield Batch(rows=rows, raw=raw), reader.tally


def masker_of(layout: Layout, salt: Salt, reader: CsvReader | None = None) -> Masker:
    """How refused rows of a file are kept; a CSV reader that has read its header knows the columns."""
    if reader is None:
        return Masker(hidden=hidden_fields(layout), salt=salt)
    header = tuple(reader.header)
    return Masker(hidden=hidden_fields(layout), salt=salt, header=header, separator=reader.separator)


def whole_rows(uri: str, layout: Layout, salt: Salt) -> Iterator[tuple[Line, Masker]]:
    """Every row of a text file with all of its lines, and how it is masked; InputError as `read_batches`."""
    fs, path = filesystem(uri)
    with fs.open_input_file(path) as stream:
        lines = read_lines(unpacked(stream), name=uri)
        if layout.format != "csv":
            masker = masker_of(layout, salt)
            yield from ((line, masker) for line in lines)
            return
        reader = CsvReader(layout, name=uri)
        for chunk, last in _chunks(lines):
            found = reader.records(chunk, last=last)
            masker = masker_of(layout, salt, reader)
            yield from ((line, masker) for line, _ in found)


def _reader(layout: Layout, uri: str) -> UbiReader | JsonReader | CsvReader:
    if layout.format == "ubi":
        return UbiReader(layout)
    return JsonReader(layout, name=uri) if layout.format == "jsonl" else CsvReader(layout, name=uri)


def _chunks(lines: Iterator[Line]) -> Iterator[tuple[list[Line], bool]]:
    """Lists of lines, each with whether it is the last."""
    held: list[Line] = []
    while more := list(islice(lines, _STEP)):
        if held and (len(held) >= _LINES or more[0].offset - held[0].offset >= _BYTES):
            yield held, False
            held = []
        held += more
    yield held, True


def _raw_lines(chunk: list[Line], masker: Masker) -> RawOf:
    def raw(numbers: list[int]) -> list[str]:
        by_number = {line.number: line for line in chunk}
        found = [by_number.get(n) for n in numbers]
        return [masker.kept(line.content, cut=line.cut) if line else "" for line in found]

    return raw


def hidden_fields(layout: Layout) -> Hidden:
    """Names of the fields that a refused row may not keep as they came.

    UBI's `query` is the engine's own request: it repeats what the user typed and who did, nothing here reads it, so
    it goes.
    """
    named = {f: layout.column(f).rsplit(".", 1)[-1] for f in ("query", "user", "session")}
    mapped = {c.rsplit(".", 1)[-1] for c in layout.columns.values()}
    dropped = frozenset({"query"} - mapped) if layout.format == "ubi" else frozenset()
    queries = (_UBI_QUERIES | {named["query"]}) - dropped
    ids = _UBI_IDS | {named["user"], named["session"]}
    return Hidden(queries=queries, ids=ids, dropped=dropped, locales=tuple(layout.locales))


def _columnar(uri: str, layout: Layout, salt: Salt, constants: dict[str, str] | None) -> Iterator[tuple[Batch, Tally]]:
    from jobs.impressions.columnar import ColumnarReader

    reader = ColumnarReader(layout, name=uri, constants=constants)
    masker = masker_of(layout, salt)
    for rows, held in reader.batches(uri):
        first = rows["line"][0] if rows.height else 1

        def raw(numbers: list[int], held: pl.DataFrame = held, first: int = first) -> list[str]:
            found = held[[n - first for n in numbers]].to_dicts()
            return [masker.kept_object(d) for d in found]

        yield Batch(rows=rows, raw=raw), reader.tally
