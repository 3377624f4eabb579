"""Likeness of titles by character trigrams (Dice): any script, no model.

A substitute must look like the item that it replaces. The likeness is lexical on purpose: were it the judge's own
embedding, the pages would be built to be as hard as possible for exactly that judge.
"""

import polars as pl


def trigrams(title: str) -> frozenset[str]:
    """The distinct character trigrams of a lower-cased title with a blank at both ends; empty for an empty title."""
    text = " ".join(title.lower().split())
    padded = f" {text} "
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2)) if text else frozenset()


def dice(one: frozenset[str], other: frozenset[str]) -> float:
    """2 |common| / (|one| + |other|), 0 where both are empty."""
    total = len(one) + len(other)
    return 2 * len(one & other) / total if total else 0.0


def most_similar(candidates: pl.DataFrame) -> pl.DataFrame:
    """Of each query's candidates the one whose title is most like best_title.

    candidates: query_key, item_key, relevance, title, best_title. Returns query_key, item_key, relevance,
    title_similarity, one row per query; ties go to the smaller item_key.
    """
    known = {title: trigrams(title) for name in ("title", "best_title") for title in candidates[name].unique()}
    pairs = candidates.select("title", "best_title").iter_rows()
    likeness = pl.Series("title_similarity", [dice(known[a], known[b]) for a, b in pairs], dtype=pl.Float64)
    ordered = candidates.with_columns(likeness).sort(
        "query_key", "title_similarity", "item_key", descending=[False, True, False]
    )
    best = ordered.unique("query_key", keep="first", maintain_order=True)
    return best.select("query_key", "item_key", "relevance", "title_similarity")
