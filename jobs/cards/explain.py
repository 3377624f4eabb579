"""`hindcast cards explain`: one card with the counts behind each of its numbers, and what was dropped and why."""

from typing import Any

import numpy as np
import polars as pl

from jobs.cards.build import DECIMALS, select_rows
from jobs.cards.share import pooled
from jobs.cards.thresholds import thresholds
from jobs.core.context import Context
from jobs.core.embedding import embedder_for
from jobs.core.errors import NotThereError
from jobs.core.keys import item_key, query_key
from jobs.core.normalise import normalise_query
from jobs.core.sensitive import is_sensitive, sensitive_patterns
from jobs.core.tables import scan_files
from jobs.core.windows import evidence_filter
from schemas.evidence import EVIDENCE
from schemas.logs import DAILY_COUNTS, QUERIES

SHOWN = [
    "query", "similarity", "impressions", "clicks", "ctr", "examined", "relevance", "relevance_low", "relevance_high",
    "relevance_shrunk", "users", "last_shown_day", "row", "row_unfiltered", "dropped", "curve_id", "ranks",
    "rank_impressions", "rank_clicks",
]  # fmt: skip


def explain(ctx: Context, *, corpus: str, locale: str, item_id: str, query: str) -> dict[str, Any]:
    """The card of an item for a query, whether or not a page shows the two together.

    rows: the filtered card, each with counts by rank; dropped: the others with their reason; hidden: how many rare and
    sensitive queries the item has, never which. NotThereError if the item has no evidence in this run.
    """
    key = item_key(corpus, item_id)
    history = _history(ctx, corpus, key, [locale])
    hidden = _hidden(ctx, corpus, key, history)
    if not history.height:
        raise NotThereError(
            f"item {item_id!r} of {corpus} has no evidence in {ctx.run.key} that may be shown (hidden: {hidden});"
            " check --corpus, --locale and the item's id"
        )
    text = normalise_query(query, locale=locale)
    encoder = embedder_for(ctx.settings)
    limits = thresholds(ctx.store, model=encoder.name, revision=encoder.revision, settings=ctx.settings.evidence)
    placed = _placed(history, text, encoder.encode([text, *history["query"]], kind="query"), limits.of(locale))
    rows = select_rows(placed, top_k=ctx.settings.evidence.top_k).select(SHOWN).to_dicts()
    return {
        "run": ctx.run.key,
        "item_id": item_id,
        "corpus": corpus,
        "locale": locale,
        "query": text,
        "evidence": str(ctx.run.evidence),
        "cut": ctx.run.cut,
        "near_duplicate_cosine": limits.of(locale),
        "embedding_model": encoder.name,
        "rows": [row for row in rows if row["row"]],
        "dropped": [row for row in rows if not row["row"]],
        "hidden": hidden,
    }


def possible_locales(ctx: Context, *, corpus: str, item_id: str, query: str) -> list[str]:
    """Locales that a card of this item for this query may be meant in, sorted: those in which the item has evidence
    that may be shown, and of these the ones in which the query was issued, where there are any.
    """
    declared = list(ctx.settings.corpora[corpus].locales) or [""]
    if len(declared) < 2:
        return declared
    found = _history(ctx, corpus, item_key(corpus, item_id), None)["locale"].unique().sort().to_list()
    keys = {query_key(corpus, one, normalise_query(query, locale=one)): one for one in found}
    files = ctx.store.files("queries", version=ctx.table_version("queries"), where={"corpus": corpus})
    issued = scan_files(QUERIES, files, columns=["query_key"]).filter(pl.col("query_key").is_in(list(keys)))
    return sorted({keys[key] for key in issued.collect()["query_key"]}) or found or declared[:1]


def explained_text(card: dict[str, Any]) -> str:
    """The card as lines for people."""
    head = [
        f"card of {card['item_id']} ({card['corpus']}, {card['locale'] or 'no locale'}) for: {card['query']}",
        f"evidence {card['evidence']}, arrived before {card['cut']};"
        f" near-duplicates above {card['near_duplicate_cosine']} ({card['embedding_model']})",
    ]
    body = [line for row in card["rows"] for line in _lines(row)] or ["  no row is left"]
    dropped = [f"  {row['dropped']}: {row['query']} ({row['similarity']:.3f})" for row in card["dropped"]]
    hidden = ", ".join(f"{n} {kind}" for kind, n in card["hidden"].items())
    return "\n".join(
        [*head, *body, "dropped:", *(dropped or ["  nothing"]), f"hidden queries (only counted): {hidden}"]
    )


def _lines(row: dict[str, Any]) -> list[str]:
    ranks = zip(row["ranks"], row["rank_impressions"], row["rank_clicks"], strict=True)
    by_rank = ", ".join(f"rank {rank}: {clicks}/{shown}" for rank, shown, clicks in ranks)
    return [
        f"  {row['row']:>2}. {row['query']}  cosine {row['similarity']:.3f}",
        f"      relevance {row['relevance']:.3f} [{row['relevance_low']:.3f}, {row['relevance_high']:.3f}]"
        f" = {row['clicks']} clicks / {row['examined']:.1f} examined ({row['curve_id']}), shrunk"
        f" {row['relevance_shrunk']:.3f}, ctr {row['ctr']:.3f}",
        f"      clicks/impressions by {by_rank}; {row['users']} users, last shown {row['last_shown_day']}",
    ]


def _history(ctx: Context, corpus: str, key: int, locales: list[str] | None) -> pl.DataFrame:
    """The item's evidence that may be shown, of these locales, or of all where locales are no bound."""
    where = {"run": ctx.run.key, "corpus": corpus}
    files = ctx.store.files("evidence", version=ctx.table_version("evidence"), where=where)
    mine = pl.col("item_key") == key
    if locales is not None and not ctx.settings.evidence.other_locales:
        mine &= pl.col("locale").is_in(locales)
    rows = scan_files(EVIDENCE, files).filter(mine & (pl.col("users") >= ctx.settings.evidence.min_users)).collect()
    return _over_segments(rows.filter(~is_sensitive(sensitive_patterns(ctx.settings))))


def _over_segments(rows: pl.DataFrame) -> pl.DataFrame:
    """One row a query, as cards have it: segments are added up, their counts rank by rank."""
    if rows["segment"].null_count() == rows.height:
        return rows
    counts = ["rank_impressions", "rank_clicks"]
    by_rank = rows.select("query_key", "ranks", *counts).explode("ranks", *counts).group_by("query_key", "ranks")
    lists = by_rank.agg(pl.col(counts).sum()).sort("query_key", "ranks").group_by("query_key").agg("ranks", *counts)
    texts = rows.group_by("query_key").agg(pl.col("item_id", "query", "curve_id").first())
    return pooled(rows).join(texts, on="query_key").join(lists, on="query_key")


def _placed(history: pl.DataFrame, text: str, vectors: np.ndarray, threshold: float) -> pl.DataFrame:
    cosine = np.round(vectors[1:].astype(np.float64) @ vectors[0].astype(np.float64), DECIMALS)
    return history.with_columns(
        page_id=pl.lit("explained"),
        similarity=pl.Series(cosine),
        exact=pl.col("query") == text,
        near=pl.Series(cosine > threshold),
    )


def _hidden(ctx: Context, corpus: str, key: int, history: pl.DataFrame) -> dict[str, int]:
    """How many queries showed the item in the window and may not stand in a card."""
    files = ctx.store.files("daily_counts", version=ctx.table_version("daily_counts"), where={"corpus": corpus})
    columns = ["query_key", "item_key", "event_day", "arrival_day"]
    seen = scan_files(DAILY_COUNTS, files, columns=columns).filter(
        (pl.col("item_key") == key) & evidence_filter(ctx.run)
    )
    keys = seen.select("query_key").unique()
    files = ctx.store.files("queries", version=ctx.table_version("queries"), where={"corpus": corpus})
    queries = scan_files(QUERIES, files, columns=["query_key", "locale", "query"])
    shown = pl.col("query_key").is_in(history["query_key"].implode())
    texts = keys.join(queries, on="query_key").filter(~shown).collect()
    if not ctx.settings.evidence.other_locales and history.height:
        texts = texts.filter(pl.col("locale").is_in(history["locale"].unique().implode()))
    sensitive = texts.filter(is_sensitive(sensitive_patterns(ctx.settings))).height
    return {"rare": texts.height - sensitive, "sensitive": sensitive}
