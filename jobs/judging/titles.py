"""Titles of items in file mode: pages that know ids only are joined with a catalogue, and what stays empty is counted.

A judge that sees no titles grades what it cannot see, so nothing of this may happen silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jobs.core.errors import InputError
from jobs.judging.files import json_lines
from jobs.judging.inputs import Item, Page

Read = Callable[[], Iterable[Page]]
DEFAULT = "default"  # the corpus of pages that name none


@dataclass(kw_only=True)
class Untitled:
    """Items without a title, and pages with such items, of the last reading."""

    items: int = 0
    pages: int = 0

    def sentence(self, *, has_catalogue: bool) -> str:
        """What a person must know; empty where every item has a title."""
        if not self.items:
            return ""
        way = "they are not in the catalogue" if has_catalogue else "give a catalogue with --items"
        return f"{self.items:,} items on {self.pages:,} pages have no title, so the judge sees none: {way}"


class Titles:
    """Pages with titles, types and metadata from items.jsonl; without a catalogue pages pass as they are.

    Of the catalogue only the items that the pages lack are kept, whatever its size. Items match by corpus and id; pages
    without a corpus take an id that stands in one corpus only.
    """

    def __init__(self, catalogue: Path | None, read: Read):
        self.untitled = Untitled()
        self._has_catalogue = catalogue is not None
        self._known = _catalogue(catalogue, _lacking(read())) if catalogue else {}

    def pages(self, pages: Iterable[Page]) -> Iterator[Page]:
        """The pages with what the catalogue knows; counts what stays without a title anew."""
        self.untitled = Untitled()
        for page in pages:
            filled = self._filled(page) if self._known else page
            lacking = sum(not item.title for item in filled.items)
            self.untitled.items += lacking
            self.untitled.pages += lacking > 0
            yield filled

    def sentence(self) -> str:
        """What was counted, in words; empty where nothing is amiss."""
        return self.untitled.sentence(has_catalogue=self._has_catalogue)

    def _filled(self, page: Page) -> Page:
        if all(item.title for item in page.items):
            return page
        return replace(page, items=tuple(self._item(page.corpus, item) for item in page.items))

    def _item(self, corpus: str, item: Item) -> Item:
        found = None if item.title else self._known.get((corpus, item.item_id))
        if found is None and corpus == DEFAULT and not item.title:
            found = self._known.get((None, item.item_id))
        if not found:
            return item
        metadata = item.metadata or found["metadata"]
        return replace(item, title=found["title"], type=item.type or found["type"], metadata=metadata)


def _lacking(pages: Iterable[Page]) -> set[str]:
    return {item.item_id for page in pages for item in page.items if not item.title}


def _catalogue(path: Path, wanted: set[str]) -> dict[tuple[str | None, str], dict[str, Any]]:
    """The wanted items by (corpus, id), and by (None, id) where one corpus alone has the id."""
    known: dict[tuple[str | None, str], dict[str, Any]] = {}
    corpora: dict[str, set[str]] = {}
    for number, body in json_lines(path):
        name = body.get("item_id")
        if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
            raise InputError(f"{path}, line {number}: item_id is {name!r}, give every item its id")
        if str(name) in wanted:
            corpus = str(body.get("corpus") or DEFAULT)
            known[corpus, str(name)] = _described(body, f"{path}, line {number}")
            corpora.setdefault(str(name), set()).add(corpus)
    alone = {(None, name): known[next(iter(there)), name] for name, there in corpora.items() if len(there) == 1}
    return known | alone


def _described(body: Mapping[str, Any], where: str) -> dict[str, Any]:
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise InputError(f"{where}: metadata is {metadata!r:.60}, give an object")
    return {"title": str(body.get("title") or ""), "type": str(body.get("type") or ""), "metadata": metadata}
