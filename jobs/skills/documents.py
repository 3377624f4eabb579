"""Documents and retrieval queries. Labels stand in labels.py, which nothing of discovery imports."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs.core.errors import InputError
from jobs.skills.rows import first, rows

DOCUMENT_ID = ("id", "_id", "doc_id", "document_id", "docno", "item_id")
DOCUMENT_TEXT = ("text", "content", "contents")
QUERY_ID = ("id", "_id", "query_id", "q_id", "qid")
QUERY_TEXT = ("text", "query")
NO_EXCLUSION = "N/A"  # what BRIGHT writes in place of an empty list


@dataclass(frozen=True, kw_only=True)
class Document:
    """One document of a corpus; `content` is what is embedded and shown to agents."""

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def content(self) -> str:
        """Title and text, one under the other."""
        return f"{self.title}\n{self.text}".strip()

    @property
    def hash(self) -> str:
        """16 hex digits of sha256 of the content: a changed document has a new one."""
        return hashlib.sha256(self.content.encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class RetrievalQuery:
    """A query to retrieve for; documents of `excluded_ids` are taken out of its ranking before it is cut."""

    id: str
    text: str
    excluded_ids: tuple[str, ...] = ()
    subject: str = ""


def read_documents(path: Path) -> list[Document]:
    """The documents of a file, Delta folder or folder of Parquet, in order, without those that hold no text.

    Raises InputError for a row without id, or for an id that stands twice.
    """
    found = [_document(where, row) for where, row in rows(path)]
    _refuse_doubles([one.id for one in found], path)
    return [one for one in found if one.content]


def read_queries(path: Path, *, subject: str = "") -> list[RetrievalQuery]:
    """The retrieval queries of a file; `subject` is given to those that name none."""
    found = [_query(where, row, subject) for where, row in rows(path)]
    _refuse_doubles([one.id for one in found], path)
    return found


def _document(where: str, row: dict[str, Any]) -> Document:
    name = _required(first(row, DOCUMENT_ID), where, "id")
    text = _text(first(row, DOCUMENT_TEXT), where, "text")
    metadata = row["metadata"] if isinstance(row.get("metadata"), dict) else {}
    if "item_id" in row and not text:  # a catalogue's items are documents too: type and metadata are their text
        text = " ".join(str(one) for one in (row.get("type"), *metadata.values()) if one)
    return Document(id=name, text=text, title=_text(row.get("title"), where, "title"), metadata=metadata)


def _query(where: str, row: dict[str, Any], subject: str) -> RetrievalQuery:
    excluded = row.get("excluded_ids") or ()
    if isinstance(excluded, str) or not isinstance(excluded, Iterable):
        raise InputError(f"{where}: excluded_ids is {excluded!r}, give a list of document ids")
    return RetrievalQuery(
        id=_required(first(row, QUERY_ID), where, "id"),
        text=_text(first(row, QUERY_TEXT), where, "text").strip(),
        excluded_ids=tuple(str(one) for one in excluded if one != NO_EXCLUSION),
        subject=str(row.get("subject") or subject),
    )


def _required(value: Any, where: str, name: str) -> str:
    if value is None or str(value).strip() == "":
        raise InputError(f"{where} has no {name}: every row needs one")
    return _encodable(str(value))


def _text(value: Any, where: str, name: str) -> str:
    if value is not None and not isinstance(value, str):
        raise InputError(f"{where}: {name} is {value!r:.60}, give text")
    return _encodable(value or "")


def _encodable(text: str) -> str:
    """JSON can hold half a surrogate pair, which no file, hash or request can: a question mark takes its place."""
    return text.encode("utf-8", "replace").decode()


def _refuse_doubles(ids: list[str], path: Path) -> None:
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            raise InputError(f"{path}: the id {one!r} stands twice, give each row an id of its own")
        seen.add(one)
