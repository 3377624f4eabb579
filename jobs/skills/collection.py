"""Collections of subjects: one file, a BEIR folder, or BRIGHT's and R2MED's Parquet files, read as they are.

A subject is a corpus with its own documents, queries and labels (in BRIGHT: biology, economics, ...); scores are means
within a subject, then equally over subjects. A plain file is one subject without a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jobs.core.errors import InputError
from jobs.skills.documents import Document, RetrievalQuery, read_documents, read_queries
from jobs.skills.labels import Qrels, read_qrels


@dataclass(frozen=True, kw_only=True)
class SubjectFiles:
    """Where one subject's files are; `queries` and `qrels` are None where the folder has none."""

    name: str
    documents: Path
    queries: Path | None
    qrels: Path | None


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One subject, read."""

    name: str
    documents: tuple[Document, ...]
    queries: tuple[RetrievalQuery, ...]
    qrels: Qrels


def find_subjects(path: Path) -> list[SubjectFiles]:
    """The subjects under `path`, by name, without reading them: BRIGHT, R2MED or BEIR folders, or one file."""
    if not path.is_dir() or (path / "_delta_log").is_dir():
        return [SubjectFiles(name="", documents=path, queries=None, qrels=None)]
    if (path / "documents").is_dir() and (path / "examples").is_dir():
        return _bright(path)
    own = _folder_subject(path, name="")
    if own:
        return [own]
    below = [_folder_subject(one, name=one.name) for one in sorted(path.iterdir()) if one.is_dir()]
    found = [one for one in below if one]
    return found or [SubjectFiles(name="", documents=path, queries=None, qrels=None)]


def read_subjects(documents: Path, queries: Path, qrels: Path) -> list[Subject]:
    """Read documents, queries and labels; the three may be one collection's folder, or separate files.

    With separate files a query's own `subject` makes the subjects, over the same documents. Of a folder only the
    labelled queries are taken: BEIR keeps those of its training part in the same file.
    """
    parts = find_subjects(documents)
    if len(parts) > 1 or parts[0].documents != documents:
        if queries != documents or qrels != documents:
            return [_read(_with(parts[0], queries, qrels))] if len(parts) == 1 else _refuse(documents)
        return [_read(one) for one in parts]
    return _by_subject(read_documents(documents), read_queries(queries), read_qrels(qrels))


def _with(part: SubjectFiles, queries: Path, qrels: Path) -> SubjectFiles:
    own = part.documents.parent
    return SubjectFiles(
        name=part.name, documents=part.documents,
        queries=part.queries if queries == own else queries, qrels=part.qrels if qrels == own else qrels,
    )


def _refuse(path: Path) -> list[Subject]:
    raise InputError(f"{path} holds several subjects: give the same folder for documents, queries and qrels")


def _by_subject(documents: list[Document], queries: list[RetrievalQuery], qrels: Qrels) -> list[Subject]:
    names = sorted({one.subject for one in queries})
    return [
        Subject(
            name=name, documents=tuple(documents), qrels=qrels,
            queries=tuple(one for one in queries if one.subject == name),
        )
        for name in names
    ]


def _read(files: SubjectFiles) -> Subject:
    if not files.queries or not files.qrels:
        raise InputError(f"{files.documents.parent}: no queries or no qrels found beside the documents")
    qrels = read_qrels(files.qrels)
    queries = tuple(one for one in read_queries(files.queries, subject=files.name) if one.id in qrels.grades)
    if not queries:
        raise InputError(f"{files.qrels} labels no query of {files.queries}: give the labels of these queries")
    return Subject(name=files.name, documents=tuple(read_documents(files.documents)), queries=queries, qrels=qrels)


def _bright(path: Path) -> list[SubjectFiles]:
    """documents/NAME-00000-of-00001.parquet or documents/NAME/*.parquet, and the same under examples/."""
    found = []
    for entry in sorted((path / "documents").iterdir()):
        name = _subject_name(entry)
        examples = [one for one in (path / "examples").iterdir() if _subject_name(one) == name]
        if not examples:
            raise InputError(f"{path}: subject {name!r} has documents and no examples, complete the folder")
        found.append(SubjectFiles(name=name, documents=entry, queries=examples[0], qrels=examples[0]))
    return found


def _subject_name(entry: Path) -> str:
    return entry.name if entry.is_dir() else entry.name.split("-0000")[0].removesuffix(".parquet")


def _folder_subject(path: Path, *, name: str) -> SubjectFiles | None:
    documents = _one_of(path, "corpus.jsonl", "corpus.jsonl.gz", "corpus.parquet", "corpus")
    if documents is None:
        return None
    return SubjectFiles(
        name=name,
        documents=documents,
        queries=_one_of(path, "queries.jsonl", "queries.jsonl.gz", "query.jsonl", "query.parquet", "query", "queries"),
        qrels=_one_of(
            path, "qrels/test.tsv", "qrels/dev.tsv", "qrels/train.tsv", "qrels.txt", "qrels.parquet", "qrels.jsonl",
            "qrels",
        ),
    )


def _one_of(path: Path, *names: str) -> Path | None:
    return next((path / name for name in names if (path / name).exists()), None)
