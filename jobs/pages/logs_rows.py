"""Rows of the table `pages` for composed pages: texts, titles, truth, and how each page was made."""

import json
from typing import Any

import polars as pl

from jobs.core.context import Context
from jobs.core.keys import key_hex
from schemas.pages import PAGES


def with_page_ids(layout: pl.DataFrame) -> pl.DataFrame:
    """Add `page`, the id that a query and configuration keep from night to night."""
    key = pl.col("query_key").map_elements(key_hex, pl.String)
    return layout.with_columns(page=pl.concat_str(pl.lit("logs-"), key, pl.lit("-"), "configuration"))


def page_rows(
    ctx: Context,
    *,
    layout: pl.DataFrame,
    truths: pl.DataFrame,
    changes: pl.DataFrame,
    queries: pl.DataFrame,
    items: pl.DataFrame,
) -> pl.DataFrame:
    """The pages of `layout` (page, query_key, configuration, rank, item_key, relevance) as rows of the table.

    truths: one row a page (truth.py). changes: what was changed (compose.py). queries: query_key, corpus, locale,
    users. items: the catalogue.
    """
    texts = _texts(ctx, queries)
    shown = _with_items(ctx, layout.join(texts, on="query_key", how="semi"), items)
    if not shown.height:
        return pl.DataFrame(schema=PAGES.polars())
    changed = changes.join(_good_items(shown), on="query_key")
    pages = shown.group_by("page", "query_key", "configuration", maintain_order=True).agg(
        items=pl.struct("item_id", "rank", "title", "type", "metadata"), relevance=pl.col("relevance")
    )
    pages = pages.join(truths, on="page").join(texts, on="query_key").join(changed, on=["query_key", "configuration"])
    rows = [_row(ctx, page) for page in pages.sort("page").iter_rows(named=True)]
    return pl.DataFrame(rows, schema=PAGES.polars(), orient="row")


def _texts(ctx: Context, chosen: pl.DataFrame) -> pl.DataFrame:
    queries = ctx.store.read("queries", version=ctx.table_version("queries"), where={"corpus": ctx.corpora})
    return chosen.join(queries.select("query_key", "query"), on="query_key")


def _with_items(ctx: Context, layout: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    ids = ctx.store.read("item_keys", version=ctx.table_version("item_keys"), where={"corpus": ctx.corpora})
    named = layout.join(ids.select("item_key", "item_id"), on="item_key", how="left", maintain_order="left")
    described = items.select("item_key", "title", "type", "metadata").unique("item_key")
    joined = named.join(described, on="item_key", how="left", maintain_order="left")
    filled = joined.with_columns(
        title=pl.coalesce("title", "item_id"),
        type=pl.col("type").fill_null(""),
        metadata=pl.col("metadata").fill_null("{}"),
    )
    return filled.sort("page", "rank")


def _good_items(shown: pl.DataFrame) -> pl.DataFrame:
    """Ids of the items of each good page, best first: what degraded pages were made from."""
    good = shown.filter(pl.col("configuration") == "good")
    return good.group_by("query_key", maintain_order=True).agg(good_items=pl.col("item_id"))


def _row(ctx: Context, page: dict[str, Any]) -> dict[str, Any]:
    items = [{**item, "metadata": json.loads(item["metadata"])} for item in page["items"]]
    return {
        "run": ctx.run.key,
        "set": "logs",
        "page_id": page["page"],
        "corpus": page["corpus"],
        "locale": page["locale"],
        "query_key": page["query_key"],
        "query": page["query"],
        "context": None,
        "system": None,
        "instance": 0,
        "configuration": page["configuration"],
        "items": json.dumps(items, ensure_ascii=False),
        "truth": page["truth"],
        "truth_standard_error": page["truth_standard_error"],
        "human_label": None,
        "human_label_source": None,
        "made": json.dumps(_made(ctx, page), ensure_ascii=False),
    }


def _made(ctx: Context, page: dict[str, Any]) -> dict[str, Any]:
    ids = [item["item_id"] for item in page["items"]]
    changed = {"omitted": page["good_items"][0], "low": page["good_items"][0], "substitute": page["good_items"][0]}
    made = {
        "from": "log",
        "evaluation": str(ctx.run.evaluation),
        "composed_on": "even event days",
        "scored_on": "odd event days",
        "users": page["users"],
        "relevance_when_composed": [round(r, 4) for r in page["relevance"]],
        "truth_variance": page["truth_variance"],
        "truth_impressions": page["truth_impressions"],
        "truth_clicks": page["truth_clicks"],
        "good_items": page["good_items"],
        "changed_item": changed.get(page["configuration"]),
    }
    if page["configuration"] == "substitute":
        made |= {"substitute_item": ids[0], "title_similarity": round(page["title_similarity"], 4)}
    return made
