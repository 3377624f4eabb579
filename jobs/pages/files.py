"""Files of pages: JSON lines, Parquet or Delta tables in, JSON lines or Parquet out; bad lines come with reasons."""

import csv
import gzip
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pydantic import ValidationError

from jobs.core.errors import InputError, NotThereError
from jobs.core.storage import is_object_store, rust_uri, storage_options
from jobs.pages.model import Page

NESTED = ("context", "items", "made")
PARQUET, GZIP = b"PAR1", b"\x1f\x8b"  # what such files start with
SHOWN_REFUSALS = 5  # lines named in the summary; the rest is counted


@dataclass(frozen=True, kw_only=True)
class PagesFile:
    """Pages of a file as lines of pages.jsonl, and the refused lines as (line number, reason)."""

    pages: list[dict[str, Any]]
    refused: list[tuple[int, str]]

    @property
    def summary(self) -> dict[str, Any]:
        """Counts, and the first refused lines with their reasons."""
        first = [{"line": line, "reason": reason} for line, reason in self.refused[:SHOWN_REFUSALS]]
        return {"pages": len(self.pages), "refused": len(self.refused), "first_refused": first}


def read_pages(path: Path | str, *, defaults: dict[str, Any]) -> PagesFile:
    """Read pages.jsonl (.gz), Parquet, or a Delta table; there items, context and made may be nested or JSON text."""
    return parse_pages(read_rows(path, decode=True), name=str(path), defaults=defaults)


def parse_pages(rows: Iterable[tuple[int, dict[str, Any] | str]], *, name: str, defaults: dict[str, Any]) -> PagesFile:
    """Pages from numbered rows; `defaults` fill what a row leaves out (set, corpus, locale, system).

    A page id that stands twice refuses the second line. Raises InputError, naming the file `name`, if no row is a page.
    """
    pages, refused, seen = [], [], set()
    for number, row in rows:
        page = _page(row, defaults)
        if isinstance(page, Page) and page.page_id in seen:
            page = f"page_id {page.page_id!r} stands twice"
        if isinstance(page, str):
            refused.append((number, page))
        else:
            seen.add(page.page_id)
            pages.append(page.file_row())
    if not pages:
        reason = refused[0][1] if refused else "no lines"
        raise InputError(f"{name}: holds no page ({reason}): see formats, pages.jsonl")
    return PagesFile(pages=pages, refused=refused)


def json_rows(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Lines of JSON with their 1-based numbers; what is no JSON object comes as a text: the reason."""
    return ((number, _json_line(line)) for number, line in enumerate(lines, start=1) if line.strip())


def _page(row: dict[str, Any] | str, defaults: dict[str, Any]) -> Page | str:
    if isinstance(row, str):
        return row
    given = {name: value for name, value in row.items() if value is not None}
    try:
        return Page.model_validate({**defaults, **given})
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or 'page'}: {first['msg']}"


def content_rows(content: bytes, *, name: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Numbered rows of pages in the bytes of a file: Parquet, or JSON lines, packed or not."""
    if content.startswith(PARQUET):
        return _table_rows(_parquet(io.BytesIO(content), name), decode=True)
    raw = io.BytesIO(content)
    stream = _text(gzip.GzipFile(fileobj=raw) if content.startswith(GZIP) else raw)
    return _readable(json_rows(stream), name)


def is_table(path: str) -> bool:
    """Whether a path is a table rather than a file: a local folder, or an address without a file's ending."""
    if is_object_store(path):
        return not Path(path).name.endswith((".jsonl", ".ndjson", ".json", ".csv", ".gz", ".parquet"))
    return Path(path).is_dir()


def table_content(path: str) -> bytes:
    """A Delta table, or a folder of Parquet files, as one Parquet file."""
    buffer = io.BytesIO()
    _table(path).write_parquet(buffer)
    return buffer.getvalue()


def read_rows(path: Path | str, *, form: str = "", decode: bool = False) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Numbered rows of a JSON lines, CSV or Parquet file (`.gz` is unpacked), of a Parquet folder or a Delta table.

    form: jsonl, csv or parquet; empty: by the file's name. A line that is no JSON object, or no UTF-8, comes as a text:
    the reason. decode: JSON text in NESTED columns of tables is read.
    """
    if is_table(str(path)) or (form or _form(Path(path))) == "parquet":
        yield from _table_rows(_table(str(path)), decode=decode)
        return
    path = Path(path)
    if not path.is_file():
        raise NotThereError(f"{path}: there is no such file or table; give the path of an existing one")
    with open_text(path) as stream:
        numbered = enumerate(csv.DictReader(stream), start=1) if (form or _form(path)) == "csv" else json_rows(stream)
        yield from _readable(numbered, str(path))


def _readable(
    rows: Iterable[tuple[int, dict[str, Any] | str]], name: str
) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Rows as they come; one with bytes that are no UTF-8 as the reason, a file that cannot be unpacked as an error."""
    try:
        for number, row in rows:
            yield number, row if isinstance(row, str) or not _broken(row) else "line is no UTF-8"
    except (gzip.BadGzipFile, EOFError, csv.Error) as error:
        raise InputError(f"{name}: cannot be read ({error}): give a whole file") from None


def _broken(value: Any) -> bool:
    """Whether some text holds bytes that are no UTF-8 (kept by `surrogateescape`), or half of a surrogate pair."""
    if isinstance(value, str):
        return not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value)
    if isinstance(value, dict):
        return any(_broken(k) or _broken(v) for k, v in value.items())
    return isinstance(value, list) and any(map(_broken, value))


def _table(path: str) -> pl.DataFrame:
    """A Delta table (a folder with _delta_log), a folder of Parquet files, or one such file."""
    uri, options = rust_uri(path), storage_options(path)
    try:
        if Path(path).is_dir() and not (Path(path) / "_delta_log").is_dir():
            return pl.read_parquet(sorted(map(str, Path(path).rglob("*.parquet"))), glob=False)
        if uri.endswith(".parquet") or Path(path).is_file():
            return _parquet(uri, path)
        return pl.from_arrow(DeltaTable(uri, storage_options=options or None).to_pyarrow_table())
    except (pl.exceptions.PolarsError, DeltaError, FileNotFoundError) as error:
        raise NotThereError(
            f"{path}: is no Delta table and no folder of Parquet files ({str(error).splitlines()[0][:120]})"
        ) from None


def _parquet(source: Any, name: str) -> pl.DataFrame:
    try:
        return pl.read_parquet(source, glob=False)
    except FileNotFoundError:
        raise NotThereError(f"{name}: no such file; give the path of an existing one") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{name}: is no Parquet file ({str(error).splitlines()[0][:120]})") from None


def _table_rows(frame: pl.DataFrame, *, decode: bool) -> Iterator[tuple[int, dict[str, Any] | str]]:
    for number, row in enumerate(frame.iter_rows(named=True), start=1):
        yield number, _decoded(row) if decode else row


def write_pages(pages: Iterable[dict[str, Any]], path: Path) -> None:
    """Write lines of pages.jsonl, or Parquet where the name ends so; the folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        flat = [{k: json.dumps(v) if k in NESTED and v is not None else v for k, v in page.items()} for page in pages]
        pl.DataFrame(flat, infer_schema_length=None).write_parquet(path)
        return
    part = path.with_name(f".{path.name}.part")
    with part.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(page, ensure_ascii=False) + "\n" for page in pages)
    part.replace(path)


def _decoded(row: dict[str, Any]) -> dict[str, Any] | str:
    """A table's row as a line of JSON would be: JSON text is read, maps become objects, null means left out."""
    try:
        read = {k: _from_json(k, v) if k in NESTED and isinstance(v, str) else _plain(v) for k, v in row.items()}
    except ValueError as error:
        return f"items or made is no JSON ({str(error)[:80]})"
    return {k: v for k, v in read.items() if v is not None}


def _from_json(name: str, text: str) -> Any:
    """JSON text of a column; a context may be any text, which is then itself."""
    try:
        return json.loads(text)
    except ValueError:
        if name == "context":
            return text
        raise


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        if value and all(isinstance(v, dict) and v.keys() == {"key", "value"} for v in value):
            return {v["key"]: _plain(v["value"]) for v in value}
        if value and all(isinstance(v, tuple) and len(v) == 2 for v in value):
            return {k: _plain(v) for k, v in value}
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    return value


def _form(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    return "csv" if name.endswith(".csv") else "parquet" if name.endswith(".parquet") else "jsonl"


def open_text(path: Path) -> io.TextIOBase:
    """A text stream of UTF-8 (a byte-order mark is skipped), unpacked where the name ends in .gz.

    Bytes that are no UTF-8 come as lone surrogates, so that one bad line does not stop a file.
    """
    return _text(gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb"))


def _text(raw: Any) -> io.TextIOBase:
    return io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="")


def _json_line(line: str) -> dict[str, Any] | str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"line is no JSON ({str(error)[:80]})"
    return value if isinstance(value, dict) else "line is no JSON object"
