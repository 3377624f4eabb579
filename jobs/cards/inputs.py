"""What the tasks of cards get: page items in shares, every text embedded once, the evidence files."""

import math
from typing import Any

import numpy as np
import polars as pl

from jobs.cards.thresholds import Thresholds
from jobs.core.context import Context
from jobs.core.embedding import Embedder
from jobs.core.errors import InputError
from jobs.core.keys import with_item_key
from jobs.core.normalise import normalise_query
from jobs.core.sensitive import is_sensitive, sensitive_patterns
from jobs.core.storage import filesystem, rust_uri, storage_options
from jobs.core.tables import DataFile, scan_files
from schemas.evidence import EVIDENCE

ROWS_A_TASK = 2_500_000  # evidence rows of a share: some 600 MiB in a task, which reads all files of evidence
_ITEM = pl.Struct({"item_id": pl.String})
_PAGE_ITEMS = {
    "set": pl.String,
    "page_id": pl.String,
    "corpus": pl.String,
    "locale": pl.String,
    "page_query": pl.String,
    "item_id": pl.String,
}


def items_of(pages: pl.DataFrame) -> pl.DataFrame:
    """One row a page item: set, page_id, corpus, locale, page_query (normalised), item_id, item_key."""
    keyed = pages.select("set", "page_id", "corpus", "locale", "query", "items").with_columns(
        items=pl.col("items").str.json_decode(pl.List(_ITEM))
    )
    distinct = keyed.select("query", "locale").unique()
    texts = [normalise_query(query, locale=locale) for query, locale in distinct.iter_rows()]
    normal = distinct.with_columns(page_query=pl.Series(texts, dtype=pl.String))
    exploded = keyed.join(normal, on=["query", "locale"]).explode("items").unnest("items")
    return with_item_key(exploded.select(pl.col(name).cast(kind) for name, kind in _PAGE_ITEMS.items()))


def share_specs(
    ctx: Context, page_items: pl.DataFrame, evidence: list[DataFile], embedder: Embedder, limits: Thresholds
) -> list[dict[str, Any]]:
    """One spec a share of items; the texts of all shares are embedded here, once each."""
    settings = ctx.settings.evidence
    if not page_items.height:
        return []
    history, rows = _distinct_history(ctx, evidence, page_items["item_key"].unique())
    texts, ready = _embedded(ctx, page_items, history, embedder, limits)
    shares = max(1, math.ceil(rows / ROWS_A_TASK))
    common = {
        "texts": texts,
        "vectors": ctx.store.documents.uri(f"{ctx.folder}/cards/staged/vectors.npy"),
        "evidence": evidence,
        "table": ctx.store.table_uri("cards"),
        "run": ctx.run.key,
        "top_k": settings.top_k,
        "min_users": settings.min_users,
        "other_locales": settings.other_locales,
        "model": f"{embedder.name}@{embedder.revision}",
    }
    mine = pl.col("item_key").mod(shares)
    parts = [ready.filter(mine == share) for share in range(shares)]
    return [
        {**common, "page_items": _write(ctx, part, f"items-{n}.parquet")} for n, part in enumerate(parts) if part.height
    ]


def _distinct_history(ctx: Context, evidence: list[DataFile], items: pl.Series) -> tuple[pl.DataFrame, int]:
    """Queries (query_key, query) that any card may show, sensitive ones withheld, and the evidence rows behind them."""
    rows = scan_files(EVIDENCE, evidence, columns=["item_key", "query_key", "query", "users"])
    mine = rows.filter(pl.col("item_key").is_in(items.implode()) & (pl.col("users") >= ctx.settings.evidence.min_users))
    most = ctx.settings.spark.max_collected_rows
    found = mine.group_by("query_key").agg(pl.col("query").first(), n=pl.len()).head(most + 1).collect()
    if found.height > most:
        raise InputError(
            f"cards of {ctx.run.key} need more distinct queries than spark.max_collected_rows = {most:,}:"
            " lower pages.queries or raise that setting"
        )
    open_ = found.filter(~is_sensitive(sensitive_patterns(ctx.settings)))
    return open_.select("query_key", "query").sort("query_key"), int(found["n"].sum())


def _embedded(
    ctx: Context, page_items: pl.DataFrame, history: pl.DataFrame, embedder: Embedder, limits: Thresholds
) -> tuple[str, pl.DataFrame]:
    """Write the vectors of all texts; returns where (query_key, query, vector) stands, and page items numbered."""
    texts = pl.concat([history["query"], page_items["page_query"].alias("query")]).unique().sort()
    _write_array(ctx, embedder.encode(texts.to_list(), kind="query"))
    numbers = pl.DataFrame({"query": texts}).with_row_index("vector")
    locales = page_items["locale"].unique()
    cosines = pl.DataFrame({"locale": locales, "threshold": [limits.of(locale) for locale in locales]})
    ready = page_items.join(numbers.rename({"query": "page_query", "vector": "page_vector"}), on="page_query")
    where = _write(ctx, history.join(numbers, on="query").select("query_key", "query", "vector"), "texts.parquet")
    return where, ready.join(cosines, on="locale")


def _write(ctx: Context, frame: pl.DataFrame, name: str) -> str:
    uri = ctx.store.documents.uri(f"{ctx.folder}/cards/staged/{name}")
    frame.write_parquet(rust_uri(uri), storage_options=storage_options(uri) or None, mkdir=True)
    return uri


def _write_array(ctx: Context, vectors: np.ndarray) -> None:
    fs, inner = filesystem(ctx.store.documents.uri(f"{ctx.folder}/cards/staged/vectors.npy"))
    fs.create_dir(inner.rsplit("/", 1)[0], recursive=True)
    with fs.open_output_stream(inner, compression=None) as stream:
        np.save(stream, vectors)
