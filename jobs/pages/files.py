"""Files of pages: JSON lines or Parquet in, JSON lines or Parquet out; bad lines are refused with reasons."""

import csv
import gzip
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from jobs.core.errors import InputError, NotThereError
from jobs.pages.model import Page

NESTED = ("context", "items", "made")
PARQUET = b"PAR1"  # what a Parquet file starts with
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


def read_pages(path: Path, *, defaults: dict[str, Any]) -> PagesFile:
    """Read pages.jsonl (.gz) or its Parquet form, where items, context and made are JSON text (see `parse_pages`)."""
    rows = parquet_rows(path) if path.suffix == ".parquet" else read_rows(path)
    return parse_pages(rows, name=str(path), defaults=defaults)


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


def parquet_rows(source: Path | bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of pages in a Parquet file, or in its bytes, with their numbers; JSON text in NESTED columns is read."""
    if isinstance(source, Path) and not source.exists():
        raise NotThereError(f"{source}: no such file; give the path of an existing one")
    return ((n, _decoded(row)) for n, row in enumerate(pl.read_parquet(source).to_dicts(), start=1))


def read_rows(path: Path, *, form: str = "") -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Rows of a JSON lines, CSV or Parquet file with their 1-based line (row) numbers; `.gz` is unpacked.

    form: jsonl, csv or parquet; empty: by the file's name. A line that is no JSON object comes as a text: the reason.
    """
    if not path.exists():
        raise NotThereError(f"{path}: no such file; give the path of an existing one")
    kind = form or _form(path)
    if kind == "parquet":
        yield from enumerate(pl.read_parquet(path).to_dicts(), start=1)
        return
    with open_text(path) as stream:
        if kind == "csv":
            yield from enumerate(csv.DictReader(stream), start=1)
        else:
            yield from json_rows(stream)


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


def _decoded(row: dict[str, Any]) -> dict[str, Any]:
    return {k: json.loads(v) if k in NESTED and isinstance(v, str) else v for k, v in row.items()}


def _form(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    return "csv" if name.endswith(".csv") else "parquet" if name.endswith(".parquet") else "jsonl"


def open_text(path: Path) -> io.TextIOBase:
    """A text stream of UTF-8 (a byte-order mark is skipped), unpacked where the name ends in .gz."""
    raw = gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115 - the stream closes it
    return io.TextIOWrapper(raw, encoding="utf-8-sig", errors="strict", newline="")


def _json_line(line: str) -> dict[str, Any] | str:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        return f"line is no JSON ({error.msg})"
    return value if isinstance(value, dict) else "line is no JSON object"
