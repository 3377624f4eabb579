"""The report in other tools' formats: TREC qrels and run with a sidecar, workbench import, Parquet."""

import io
import json
from typing import Any

import numpy as np
import polars as pl

from jobs.core.keys import key_hex
from jobs.reports.judged import with_value

GRADES = (0.0, 0.5, 1.0)
"""Labels that TREC's whole numbers 0, 1, 2 can stand for; a page with any other label is left out of qrels."""


def trec_rows(pages: pl.DataFrame, judgments: pl.DataFrame, *, variant: str) -> pl.DataFrame:
    """One row per page that the variant scored: qid (16 hexadecimal digits), page_id, label, score, query."""
    rows = with_value(judgments).filter((pl.col("variant") == variant) & pl.col("value").is_not_null())
    known = pages.select("page_id", "corpus", "locale", "query", "items", key="query_key")
    joined = rows.select("page_id", label="value", score=pl.coalesce("expected_label", "value")).join(
        known, on="page_id"
    )
    return joined.with_columns(qid=pl.Series([key_hex(k) for k in joined["key"]], dtype=pl.String)).sort(
        "qid", "page_id"
    )


def qrels(rows: pl.DataFrame) -> str:
    """`qid 0 page_id grade` with grade 0, 1, 2 for the labels 0, 0.5, 1."""
    graded = rows.filter(pl.col("label").is_in(GRADES))
    columns = graded.select("qid", "page_id", grade=(pl.col("label") * 2).cast(pl.Int64))
    return "".join(f"{q} 0 {_token(p)} {g}\n" for q, p, g in columns.iter_rows())


def run_file(rows: pl.DataFrame, *, tag: str) -> str:
    """`qid Q0 page_id rank sim tag`, best score first; similarities fall strictly, so that no reader breaks ties anew.

    Pages of equal score stand in descending order of their ids, as trec_eval itself would order them.
    """
    lines = []
    for (qid,), group in rows.group_by("qid", maintain_order=True):
        ordered = group.sort("score", "page_id", descending=[True, True])
        sims = strictly_falling(ordered["score"].to_numpy())
        for rank, (page, sim) in enumerate(zip(ordered["page_id"], sims, strict=True), 1):
            lines.append(f"{qid} Q0 {_token(page)} {rank} {float(sim)!r} {tag}\n")
    return "".join(lines)


def strictly_falling(scores: np.ndarray) -> list[float]:
    """Scores (descending) with each tie lowered to the next float below its predecessor."""
    found: list[float] = []
    for score in map(float, scores):
        found.append(score if not found or score < found[-1] else float(np.nextafter(found[-1], -np.inf)))
    return found


def sidecar(rows: pl.DataFrame) -> str:
    """JSON lines that say what a qid and a page id stand for: query, corpus, locale, items."""
    lines = []
    for r in rows.select("qid", "page_id", "corpus", "locale", "query", "items").iter_rows(named=True):
        items = [i.get("item_id") for i in json.loads(r["items"])]
        lines.append(json.dumps({**r, "items": items, "docno": _token(r["page_id"])}, ensure_ascii=False) + "\n")
    return "".join(lines)


def _token(text: str) -> str:
    """TREC files are split at white space: a page id with any keeps its place with underscores (see the sidecar)."""
    return "_".join(text.split()) or "_"


def workbench(rows: pl.DataFrame, *, name: str, description: str) -> dict[str, Any]:
    """The import format of OpenSearch's Search Relevance Workbench: per query and item the mean label of the pages that
    show the item, weighted by 1/log2(rank + 1); ratings are strings."""
    totals: dict[str, dict[str, list[float]]] = {}
    for query, label, items in rows.select("query", "label", "items").iter_rows():
        for item in json.loads(items):
            weight = 1 / np.log2(item["rank"] + 1)
            cell = totals.setdefault(query, {}).setdefault(str(item["item_id"]), [0.0, 0.0])
            cell[0] += weight * label
            cell[1] += weight
    ratings = [
        {"query": q, "ratings": [{"docId": d, "rating": f"{s / w:.4g}"} for d, (s, w) in sorted(by.items())]}
        for q, by in sorted(totals.items())
    ]
    return {"name": name, "description": description, "type": "IMPORT_JUDGMENT", "judgmentRatings": ratings}


def all_rows(pages: pl.DataFrame, judgments: pl.DataFrame) -> bytes:
    """Every judgment with its page's query and truths, as a Parquet file."""
    columns = [
        "page_id",
        "locale",
        "query",
        "context",
        "items",
        "truth",
        "truth_standard_error",
        "human_label",
        "human_label_source",
    ]
    buffer = io.BytesIO()
    judgments.join(pages.select(columns), on="page_id", how="left").write_parquet(buffer)
    return buffer.getvalue()
