"""Judging with files instead of a store: pages and cards as JSON lines in, judgments as JSON lines out.

Files of 100,000 pages are read as they are needed: of the cards only places are kept in memory.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from jobs.core.errors import InputError
from jobs.judging.inputs import CardRow, Page, page_from, rows_from


def read_pages(path: Path) -> Iterator[Page]:
    """Pages of a JSON-lines file in order. Raises InputError naming the line, or the page that stands twice."""
    seen: set[str] = set()
    for number, body in json_lines(path):
        try:
            page = page_from(body)
        except InputError as error:
            raise InputError(f"{path}, line {number}: {error}") from None
        if page.page_id in seen:
            raise InputError(f"{path}, line {number}: page {page.page_id!r} stands twice: give each page once")
        seen.add(page.page_id)
        yield page


class CardFile:
    """Cards of a JSON-lines file by page; `rows(page_id)` reads them when asked. Without a path no page has cards."""

    def __init__(self, path: Path | None, *, top_k: int):
        self._top_k = top_k
        self._places: dict[str, array[int]] = {}
        self._file: BinaryIO | None = None
        if path is not None:
            self._file = _opened(path)
            self._index(path)

    def __enter__(self) -> CardFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def rows(self, page_id: str) -> list[CardRow]:
        """Rows of the page's cards, in the file's order of items."""
        return [row for place in self._places.get(page_id, ()) for row in self._read(place)]

    def _read(self, place: int) -> list[CardRow]:
        self._file.seek(place)
        return rows_from(orjson.loads(self._file.readline()), top_k=self._top_k)

    def _index(self, path: Path) -> None:
        place = 0
        for number, line in enumerate(self._file, start=1):
            if line.strip():
                body = _parsed(line, path, number)
                if not isinstance(body.get("page_id"), str):
                    raise InputError(f"{path}, line {number}: page_id is {body.get('page_id')!r}, give it as text")
                self._places.setdefault(body["page_id"], array("q")).append(place)
            place += len(line)


class RowSpool:
    """Rows come in any order and leave as one file in order: a draft beside the target, places in memory.

    `rows` counts those that came.
    """

    def __init__(self, target: Path):
        target.parent.mkdir(parents=True, exist_ok=True)
        self._target = target
        # Without a name, so that nothing is left after a kill.
        self._file = tempfile.TemporaryFile(dir=target.parent)  # noqa: SIM115 - closed by __exit__
        self._places = array("q")
        self.rows = 0
        self._end = 0

    def __enter__(self) -> RowSpool:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._file.close()

    def add(self, index: int, row: dict[str, Any]) -> None:
        """Keep the row that belongs at place `index`."""
        if index >= len(self._places):
            self._places.extend([-1] * (index + 1 - len(self._places)))
        self._places[index] = self._end
        self.rows += 1
        self._end += self._file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))

    def finish(self) -> int:
        """Replace the target by the rows in order; returns their number. Places without a row are left out."""
        self._file.flush()
        part = self._target.with_name(f".{self._target.name}.{os.getpid()}.part")
        written = 0
        with part.open("wb") as out:
            for place in self._places:
                if place >= 0:
                    self._file.seek(place)
                    out.write(self._file.readline())
                    written += 1
        part.replace(self._target)
        return written


def works(pages: Iterator[Page], cards: CardFile) -> Iterator[tuple[int, Page, Sequence[CardRow]]]:
    """(place, page, card rows) in the order of the pages."""
    return ((place, page, cards.rows(page.page_id)) for place, page in enumerate(pages))


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): correct the path") from None


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects of a JSON-lines file with their line numbers. Raises InputError naming a line that is none."""
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, _parsed(line, path, number)


def _parsed(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        body = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{path}, line {number}: is no JSON ({error}): write one object a line") from None
    if not isinstance(body, dict):
        raise InputError(f"{path}, line {number}: is {str(body)[:60]!r}, not an object")
    return body
