"""Titles, types and metadata of items as of a day, for pages whose source knows ids only."""

import json
from typing import Any

import polars as pl

from jobs.core.context import Context
from jobs.core.keys import with_item_key


def catalogue(ctx: Context, *, corpora: list[str]) -> pl.DataFrame:
    """Items as of the run: corpus, item_key, item_id, title, type, metadata (JSON), the newest version by as_of.

    Empty where no catalogue was ever imported. An item whose first version is younger than the run shows that version.
    """
    versions = ctx.manifest()["tables"]
    items = ctx.store.read("items", version=versions.get("items"), where={"corpus": corpora})
    known = pl.col("valid_from") <= ctx.run.as_of
    ordered = items.with_columns(known=known).sort("corpus", "item_id", "known", "valid_from")
    newest = ordered.group_by("corpus", "item_id", maintain_order=True).agg(
        pl.col("title", "type", "metadata").filter("known").last(),
        first=pl.struct("title", "type", "metadata").first(),
    )
    filled = newest.with_columns(
        pl.coalesce(name, pl.col("first").struct.field(name)).alias(name) for name in ("title", "type", "metadata")
    )
    return with_item_key(filled.drop("first"))


def fill_titles(pages: list[dict[str, Any]], items: pl.DataFrame) -> tuple[list[dict[str, Any]], int]:
    """Pages with empty titles filled from the catalogue; returns them and the number of items that stay without one."""
    lacking = {(p["corpus"], i["item_id"]) for p in pages for i in p["items"] if not i["title"]}
    known = {}
    if lacking and items.height:
        wanted = pl.DataFrame(sorted(lacking), schema=["corpus", "item_id"], orient="row")
        rows = items.join(wanted, on=["corpus", "item_id"], how="semi").iter_rows(named=True)
        known = {(row["corpus"], row["item_id"]): row for row in rows}
    filled = [{**page, "items": [_filled(page["corpus"], item, known) for item in page["items"]]} for page in pages]
    return filled, len(lacking - known.keys())


def _filled(corpus: str, item: dict[str, Any], known: dict[tuple[str, str], dict]) -> dict[str, Any]:
    row = None if item["title"] else known.get((corpus, item["item_id"]))
    if row is None:
        return item
    metadata = item.get("metadata") or json.loads(row["metadata"] or "{}")
    return {**item, "title": row["title"], "type": item.get("type") or row["type"], "metadata": metadata}
