"""Relevance labels of retrieval queries. Only evaluation imports this; a test holds discovery to that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.core.errors import InputError
from jobs.skills.documents import QUERY_ID
from jobs.skills.rows import JSON_LINES, first, rows, text_lines

LABEL_QUERY = ("query_id", "query-id", "q_id", "qid")
LABEL_DOCUMENT = ("document_id", "corpus-id", "p_id", "doc_id", "docno")
LABEL_GRADE = ("grade", "score", "relevance", "rel")


@dataclass(frozen=True)
class Qrels:
    """Grades by query and document id: whole numbers, above 0 is relevant."""

    grades: Mapping[str, Mapping[str, int]]

    def relevant(self, query_id: str) -> set[str]:
        """Ids of the documents graded above 0; empty for an unlabelled query."""
        return {name for name, grade in self.grades.get(query_id, {}).items() if grade > 0}


def read_qrels(path: Path) -> Qrels:
    """Labels from TREC qrels, JSON lines, Parquet, BEIR's tab-separated files, or BRIGHT's examples (gold_ids)."""
    if path.is_dir() or path.suffix == ".parquet" or path.name.endswith(JSON_LINES):
        triples = [triple for where, row in rows(path) for triple in _row_triples(where, row)]
    else:
        triples = _text_triples(path)
    grades: dict[str, dict[str, int]] = {}
    for query, document, grade in triples:
        grades.setdefault(query, {})[document] = grade
    if not grades:
        raise InputError(f"{path} holds no label: give TREC qrels or rows of query_id, document_id, grade")
    return Qrels(grades)


def _row_triples(where: str, row: dict[str, Any]) -> list[tuple[str, str, int]]:
    if "gold_ids" in row:
        return [(str(first(row, QUERY_ID)), str(one), 1) for one in row["gold_ids"]]
    query, document, grade = first(row, LABEL_QUERY), first(row, LABEL_DOCUMENT), first(row, LABEL_GRADE)
    if query is None or document is None:
        raise InputError(f"{where} lacks query_id or document_id: give both")
    return [(str(query), str(document), _grade(1 if grade is None else grade, where))]


def _text_triples(path: Path) -> list[tuple[str, str, int]]:
    found = []
    for number, line in text_lines(path):
        parts, where = line.split(), f"{path} line {number}"
        if number == 1 and parts[0] in LABEL_QUERY:
            continue
        if len(parts) not in (3, 4):
            raise InputError(f"{where} has {len(parts)} fields: qrels have 4 (query 0 document grade) or 3")
        found.append((parts[0], parts[-2], _grade(parts[-1], where)))
    return found


def _grade(value: Any, where: str) -> int:
    try:
        grade = float(value)
    except (TypeError, ValueError) as problem:
        raise InputError(f"{where}: grade {value!r} is no number") from problem
    if grade != int(grade):
        raise InputError(f"{where}: grade {value!r} is not whole, qrels grades are whole numbers")
    return int(grade)
