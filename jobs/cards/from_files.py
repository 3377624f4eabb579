"""Cards without a store: a file of pages and a file of evidence rows in, cards.jsonl out. The same code as in a run."""

import json
from pathlib import Path
from typing import Any

import polars as pl

from jobs.cards.inputs import items_of
from jobs.cards.share import card_rows
from jobs.cards.thresholds import thresholds
from jobs.core.embedding import Embedder, Encoder, embedder_for
from jobs.core.errors import InputError
from jobs.core.keys import with_item_key, with_query_key
from jobs.core.normalise import normalise_query
from jobs.core.sensitive import is_sensitive, sensitive_patterns
from jobs.core.settings import Settings
from jobs.pages.files import read_pages, read_rows
from jobs.pages.model import pages_frame

NEEDED = ("item_id", "query", "impressions", "relevance")
_KINDS = {"impressions": pl.Int64, "clicks": pl.Int64, "users": pl.Int64, "relevance": pl.Float64}


def build_from_files(pages: Path, evidence: Path, out: Path, *, settings: Settings | None) -> dict[str, Any]:
    """Write the cards of `pages` from the rows of `evidence`; returns counts as a run records them.

    Settings give model, k and thresholds; without them the defaults hold. Rows that state fewer than min_users users,
    and sensitive queries, are left out and counted; rows that state no users are taken as safe.
    """
    chosen = settings or Settings()
    encoder = embedder_for(chosen) if settings else Embedder(chosen.evidence.embedding_model)
    read = read_pages(pages, defaults={})
    items = items_of(pages_frame(read.pages, run="files", set_name="other"))
    history, hidden = _history(evidence, chosen)
    limits = thresholds(None, model=encoder.name, revision=encoder.revision, settings=chosen.evidence)
    texts = pl.concat([history["query"], items["page_query"].alias("query")]).unique().sort()
    numbers = pl.DataFrame({"query": texts}).with_row_index("vector")
    ready = items.join(numbers.rename({"query": "page_query", "vector": "page_vector"}), on="page_query").with_columns(
        threshold=pl.col("locale").map_elements(limits.of, pl.Float64)
    )
    spec = {"top_k": chosen.evidence.top_k, "other_locales": chosen.evidence.other_locales}
    texted = history.join(numbers, on="query")
    names = texted.select("query_key", "query").unique("query_key")
    rows, counts = card_rows(ready, texted.drop("query"), _vectors(encoder, texts), texts=names, spec=spec)
    lines = _lines(rows)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return {**read.summary, "cards": len(lines), **counts, **hidden, **limits.summary(sorted(set(items["locale"])))}


def _vectors(encoder: Encoder, texts: pl.Series):
    return encoder.encode(texts.to_list(), kind="query")


def _history(path: Path, settings: Settings) -> tuple[pl.DataFrame, dict[str, int]]:
    """Evidence rows of the file with keys, and how many were left out."""
    rows = [_evidence_row(path, number, row) for number, row in read_rows(path)]
    frame = with_item_key(with_query_key(pl.DataFrame(rows, infer_schema_length=None)))
    common = frame.filter(pl.col("users").is_null() | (pl.col("users") >= settings.evidence.min_users))
    open_ = common.filter(~is_sensitive(sensitive_patterns(settings)))
    distinct = open_.unique(["item_key", "query_key"], keep="first", maintain_order=True).drop("item_id", "corpus")
    kept = distinct.with_columns(pl.lit(0.0).alias("examined_squared"))
    return kept, {"rare": frame.height - common.height, "sensitive": common.height - open_.height}


def _evidence_row(path: Path, number: int, row: dict[str, Any] | str) -> dict[str, Any]:
    lacking = [name for name in NEEDED if isinstance(row, str) or row.get(name) in (None, "")]
    if lacking:
        raise InputError(
            f"{path} line {number}: has no {', '.join(lacking)}; an evidence row needs {', '.join(NEEDED)}"
        )
    locale = row.get("locale") or ""
    try:
        numbers = {name: kind.to_python()(row.get(name) or 0) for name, kind in _KINDS.items()}
    except ValueError as error:
        raise InputError(f"{path} line {number}: {error}; mend the number") from None
    users = None if row.get("users") in (None, "") else numbers["users"]
    return {
        "corpus": row.get("corpus") or "",
        "locale": locale,
        "item_id": str(row["item_id"]),
        "query": normalise_query(str(row["query"]), locale=locale),
        **numbers,
        "users": users,
        "ctr": numbers["clicks"] / numbers["impressions"] if numbers["impressions"] else 0.0,
    }


def _lines(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Lines of cards.jsonl: what either card shows, most similar first."""
    shown = rows.filter(pl.col("row").is_not_null() | pl.col("row_unfiltered").is_not_null())
    columns = ["query", "relevance", "impressions", "clicks", "ctr", "similarity"]
    marked = shown.sort("page_id", "item_id", "similarity", descending=[False, False, True]).select(
        "page_id",
        "item_id",
        *columns,
        near_duplicate=pl.col("dropped").is_in(["near_duplicate", "exact_match"]).fill_null(value=False),
    )
    grouped = marked.group_by("page_id", "item_id", maintain_order=True).agg(rows=pl.struct(*columns, "near_duplicate"))
    return grouped.to_dicts()
