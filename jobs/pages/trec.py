"""TREC qrels, runs and topics as rows of ratings: a run gives the pages, the qrels rate their items."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobs.core.errors import InputError
from jobs.pages.files import open_text

DEFAULT_DEPTH = 10  # a first page of results
_TOPIC = re.compile(
    r"<num>\s*(?:Number:)?\s*(\S+?)\s*(?:</num>|\n).*?<title>\s*(.*?)\s*(?:</title>|<desc>|</top>)", re.S | re.I
)


def read_qrels(path: Path) -> dict[tuple[str, str], str]:
    """(query id, document id) to grade as written, from `qid iter docno rel`."""
    return {(q, d): grade for q, _, d, grade in _fields(path, 4, "qrels")}


def read_run(path: Path, *, depth: int) -> dict[str, list[str]]:
    """Query id to its `depth` best documents, from `qid Q0 docno rank sim tag`.

    As trec_eval does, the rank column is ignored: order by sim, ties by document id descending.
    """
    scored: dict[str, list[tuple[float, str]]] = {}
    for q, _, d, _, sim, _ in _fields(path, 6, "run"):
        try:
            scored.setdefault(q, []).append((float(sim), d))
        except ValueError:
            raise InputError(f"{path}: similarity {sim!r} of {q} {d} is no number; give a TREC run") from None
    return {q: [d for _, d in sorted(found, reverse=True)[:depth]] for q, found in scored.items()}


def read_topics(path: Path) -> dict[str, str]:
    """Query id to text, from TREC topics (<num>, <title>), JSON lines ({"id", "text"}) or `id<TAB>text`."""
    with open_text(path) as stream:
        text = stream.read()
    if "<num>" in text.lower():
        return {number: " ".join(title.split()) for number, title in _TOPIC.findall(text)}
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and lines[0].lstrip().startswith("{"):
        rows = [json.loads(line) for line in lines]
        return {str(row["id"]): row["text"] for row in rows}
    return dict(line.split("\t", 1) for line in lines if "\t" in line)


def trec_rows(*, qrels: Path, run: Path, topics: Path, depth: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Numbered rows (query, item, rank, label) of the run's pages; topics without text are left without query."""
    grades, texts = read_qrels(qrels), read_topics(topics)
    number = 0
    for query_id, documents in read_run(run, depth=depth or DEFAULT_DEPTH).items():
        for rank, document in enumerate(documents, start=1):
            number += 1
            label = grades.get((query_id, document))
            yield number, {"query": texts.get(query_id), "item": document, "rank": rank, "label": label}


def _fields(path: Path, width: int, kind: str) -> Iterator[list[str]]:
    with open_text(path) as stream:
        for number, line in enumerate(stream, start=1):
            parts = line.split()
            if parts and len(parts) != width:
                raise InputError(
                    f"{path}: line {number} has {len(parts)} fields, a TREC {kind} has {width}: mend that line"
                )
            if parts:
                yield parts
