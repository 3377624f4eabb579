"""TREC qrels, runs and topics as rows of ratings: a run gives the pages, the qrels rate their items."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobs.core.errors import InputError, NotThereError
from jobs.pages.files import open_text
from jobs.pages.labelmap import as_number

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
        score = as_number(sim)
        if score is None or not math.isfinite(score):
            raise InputError(f"{path}: similarity {sim!r} of {q} {d} is no number; give a TREC run")
        scored.setdefault(q, []).append((score, d))
    return {q: [d for _, d in sorted(found, reverse=True)[:depth]] for q, found in scored.items()}


def read_topics(path: Path) -> dict[str, str]:
    """Query id to text, from TREC topics (<num>, <title>), JSON lines ({"id", "text"}) or `id<TAB>text`."""
    if not path.is_file():
        raise NotThereError(f"{path}: there is no such file; give the path of the topics' texts")
    with open_text(path) as stream:
        text = stream.read()
    if "<num>" in text.lower():
        return {number: " ".join(title.split()) for number, title in _TOPIC.findall(text)}
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and lines[0].lstrip().startswith("{"):
        return dict(_topic(line, f"{path} line {number}") for number, line in enumerate(lines, start=1))
    return dict(line.split("\t", 1) for line in lines if "\t" in line)


def _topic(line: str, where: str) -> tuple[str, str]:
    try:
        row = json.loads(line)
        return str(row["id"]), str(row["text"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f'{where}: is no topic ({error!r:.80}): write {{"id": "...", "text": "..."}}') from None


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
    if not path.is_file():
        raise NotThereError(f"{path}: there is no such file; give the path of the TREC {kind}")
    with open_text(path) as stream:
        for number, line in enumerate(stream, start=1):
            parts = line.split()
            if parts and len(parts) != width:
                raise InputError(
                    f"{path}: line {number} has {len(parts)} fields, a TREC {kind} has {width}: mend that line"
                )
            if parts:
                yield parts
