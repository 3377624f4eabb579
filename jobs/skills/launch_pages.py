"""A rewriting change as a launch: pages of the original queries (system a) beside those of the rewritten ones (b).

Both systems' pages carry the original query and its key, so that cards, judges and sign alignment treat them like any
ranker's. Items are the documents that were retrieved; with a catalogue as documents they are the log's items.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobs.core.errors import UsageError
from jobs.core.keys import key_hex, query_key
from jobs.core.normalise import normalise_query
from jobs.skills.bench import Bench, Unavailable, texts_of
from jobs.skills.collection import Subject
from jobs.skills.commands import Endpoint, Say, rewriting_bench, write_lines
from jobs.skills.documents import RetrievalQuery, read_documents, read_queries
from jobs.skills.labels import Qrels
from jobs.skills.methods import METHODS, check_deployable
from jobs.skills.retrieval import Hit
from jobs.skills.rewriting import RewriteOptions
from schemas.names import plain_name


def write_pages(
    documents: Path, queries: Path, *, skills: Path, corpus: str, locale: str, out: Path, method: str, depth: int,
    endpoint: Endpoint, retriever: str, say: Say,
) -> dict[str, Any]:
    """Write pages-a.jsonl and pages-b.jsonl into `out`; queries whose page would be empty are left out of both."""
    plain_name(corpus, kind="corpus")
    check_deployable(method)
    if not locale:
        raise UsageError("--locale is missing: name that of the log, without it no page finds its evidence")
    if depth < 1:
        raise UsageError(f"--depth is {depth}: a page has 1 item or more")
    asked = distinct(read_queries(queries), corpus=corpus, locale=locale)
    subject = Subject(name="", documents=tuple(read_documents(documents)), queries=asked, qrels=Qrels({}))
    bench = rewriting_bench(
        subject, skills, method, endpoint=endpoint, rewriting=RewriteOptions(), retriever=retriever, say=say
    )
    try:
        rewrites = METHODS[method](bench).rewrites
    except Unavailable as absent:
        raise UsageError(f"method {method!r} gave no rewrite ({absent}): choose another") from absent
    found = {
        "a": bench.search({one.id: one.text for one in subject.queries}, depth=depth),
        "b": bench.search(texts_of(rewrites), depth=depth),
    }
    for system, hits in found.items():
        rows = (page(bench, one, hits[one.id], corpus=corpus, locale=locale, system=system) for one in subject.queries)
        write_lines(out / f"pages-{system}.jsonl", (row for row in rows if row["items"]))
    same = sum([h.document_id for h in found["a"][q.id]] == [h.document_id for h in found["b"][q.id]]
               for q in subject.queries)
    return {
        "pages_a": str(out / "pages-a.jsonl"), "pages_b": str(out / "pages-b.jsonl"), "queries": len(subject.queries),
        "same_pages": same, "method": method, "model": bench.name,
        "fallbacks": sum(one.fallback is not None for one in rewrites.values()),
    }


def distinct(queries: Sequence[RetrievalQuery], *, corpus: str, locale: str) -> tuple[RetrievalQuery, ...]:
    """The queries without empty ones and those that have the key of an earlier one: a query has one page a system."""
    found: dict[str, RetrievalQuery] = {}
    for one in queries:
        if normalise_query(one.text, locale=locale):
            found.setdefault(_key(one, corpus, locale), one)
    return tuple(found.values())


def page(
    bench: Bench, query: RetrievalQuery, hits: list[Hit], *, corpus: str, locale: str, system: str
) -> dict[str, Any]:
    """One page of formats.md's pages.jsonl."""
    text, key = normalise_query(query.text, locale=locale), _key(query, corpus, locale)
    return {
        "page_id": f"rewriting-{system}-{key}", "set": "launch", "corpus": corpus, "locale": locale, "query_key": key,
        "query": text, "context": None, "system": system, "instance": 0, "configuration": "shown",
        "items": [_item(bench, rank, hit) for rank, hit in enumerate(hits, start=1)],
    }


def _key(query: RetrievalQuery, corpus: str, locale: str) -> str:
    return key_hex(query_key(corpus, locale, normalise_query(query.text, locale=locale)))


def _item(bench: Bench, rank: int, hit: Hit) -> dict[str, Any]:
    document = bench.retriever.document(hit.document_id)
    kind = document.metadata.get("type") or "document"
    return {
        "item_id": document.id, "rank": rank, "title": document.title or document.text[:80], "type": str(kind),
        "metadata": as_json(document.metadata),
    }


def as_json(value: Any) -> Any:
    """A value of Parquet or Delta as JSON has it: dates and decimals as text, NaN as null."""
    text = json.dumps(value, default=str, ensure_ascii=False).encode("utf-8", "replace").decode()
    return json.loads(text, parse_constant=lambda _: None)
