"""Recomposed pages of the Logs set: `good`, `omitted`, `low` and `substitute` (methods.md 3).

A page holds 3 to 5 relevant items that were really shown for its query. Every choice rests on the even event days and
on hashes of the query, never on the odd days that score the page: else the best looking item is overstated by its
noise.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from jobs.core.errors import UsageError
from jobs.core.sampling import unit_hashes
from jobs.pages.similar import most_similar

DEGRADED = ("omitted", "low", "substitute")
_SALT_DEGRADED, _SALT_KIND = 1, 2  # streams of the stable hash; 0 draws the sample of queries


@dataclass(frozen=True, kw_only=True)
class Composition:
    """What makes a page; the defaults are those of methods.md, the two without a source carry their reason."""

    min_item_relevance: float = 0.3
    min_item_impressions: int = 5  # on each side of the split; below it, one click moves the relevance by .2 and more
    min_items: int = 3
    max_items: int = 5
    degraded_share: float = 0.2
    min_substitute_drop: float = 0.2

    def __post_init__(self) -> None:
        if not 1 <= self.min_items <= self.max_items:
            raise UsageError(f"pages of {self.min_items} to {self.max_items} items cannot be made: exchange the bounds")
        if not 0 <= self.degraded_share <= 1:
            raise UsageError(f"pages.degraded_share is {self.degraded_share}: it must lie in [0, 1]")


@dataclass(frozen=True, kw_only=True)
class Composed:
    """Pages as rows, and what was changed on each.

    layout: query_key, configuration, rank, item_key, relevance (of the even days).
    changes: query_key, configuration, best_item_key, substitute_item_key, title_similarity (null where nothing
    stands in).
    excluded: queries without enough relevant items.
    """

    layout: pl.DataFrame
    changes: pl.DataFrame
    excluded: dict[str, int]


def compose_pages(candidates: pl.DataFrame, *, titles: pl.DataFrame, composition: Composition) -> Composed:
    """Compose one `good` page per query, and a degraded one for a stable share of the queries.

    candidates: query_key, item_key, relevance, impressions of the even days, one row per pair, enough impressions on
    both sides. titles: item_key, title (an item without one is like nothing else).
    """
    ranked = _ranked(candidates, composition)
    good = _good_items(ranked, composition)
    best = _to_degrade(good, composition)
    lower = _lower(best, good, ranked, composition)
    plan = _plan(best, lower, composition)
    stand_ins = _substitutes(plan, lower, titles)
    layouts = [_good(good), _omitted(good, plan), _low(good, plan), _substitute(good, stand_ins)]
    layout = pl.concat(layouts).sort("query_key", "configuration", "rank")
    lacking = candidates["query_key"].n_unique() - good["query_key"].n_unique()
    return Composed(
        layout=layout, changes=_changes(layout, good, stand_ins), excluded={"too_few_relevant_items": lacking}
    )


def _ranked(candidates: pl.DataFrame, composition: Composition) -> pl.DataFrame:
    """Candidates with enough impressions, best first within their query; ties go to the more shown, then to the key."""
    order = ["query_key", "relevance", "impressions", "item_key"]
    enough = candidates.filter(pl.col("impressions") >= composition.min_item_impressions)
    ranked = enough.sort(order, descending=[False, True, True, False])
    return ranked.with_columns(rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("query_key"))


def _good_items(ranked: pl.DataFrame, composition: Composition) -> pl.DataFrame:
    relevant = pl.col("relevance") >= composition.min_item_relevance
    top = ranked.filter(relevant & (pl.col("rank") <= composition.max_items))
    return top.with_columns(n=pl.len().over("query_key")).filter(pl.col("n") >= composition.min_items)


def _to_degrade(good: pl.DataFrame, composition: Composition) -> pl.DataFrame:
    """The stable share of queries that get a degraded page: query_key, n, best_item_key, best_relevance."""
    best = good.filter(pl.col("rank") == 1).select(
        "query_key", "n", best_item_key="item_key", best_relevance="relevance"
    )
    return best.filter(pl.Series(gets_degraded(best["query_key"], share=composition.degraded_share)))


def gets_degraded(query_keys: pl.Series, *, share: float) -> np.ndarray:
    """bool[n]: the queries that get a degraded page beside their good one; a hash decides, so they keep it."""
    return unit_hashes(query_keys.to_numpy(), salt=_SALT_DEGRADED) < share


def _lower(best: pl.DataFrame, good: pl.DataFrame, ranked: pl.DataFrame, composition: Composition) -> pl.DataFrame:
    """Items off the good page that are at least `min_substitute_drop` less relevant than their query's best one."""
    off_page = ranked.join(good.select("query_key", "item_key"), on=["query_key", "item_key"], how="anti")
    both = off_page.join(best.select("query_key", "best_item_key", "best_relevance"), on="query_key")
    return both.filter(pl.col("relevance") <= pl.col("best_relevance") - composition.min_substitute_drop)


def _plan(best: pl.DataFrame, lower: pl.DataFrame, composition: Composition) -> pl.DataFrame:
    """Which query gets which degraded page: query_key, configuration.

    The kind is drawn by a hash of the query; a query whose items do not allow it takes the next kind in turn.
    """
    allowed = best.select(
        omitted=pl.col("n") > composition.min_items,
        low=pl.lit(value=True),
        substitute=pl.col("query_key").is_in(lower["query_key"].unique().implode()),
    )
    first = (unit_hashes(best["query_key"].to_numpy(), salt=_SALT_KIND) * len(DEGRADED)).astype(int)
    kinds = [_first_allowed(start, row) for start, row in zip(first, allowed.select(DEGRADED).iter_rows(), strict=True)]
    return best.select("query_key", configuration=pl.Series(kinds, dtype=pl.String))


def _first_allowed(start: int, allowed: tuple[bool, ...]) -> str:
    turns = [(start + step) % len(DEGRADED) for step in range(len(DEGRADED))]
    return next(DEGRADED[turn] for turn in turns if allowed[turn])


def _substitutes(plan: pl.DataFrame, lower: pl.DataFrame, titles: pl.DataFrame) -> pl.DataFrame:
    """The stand-in of each page to be substituted: query_key, item_key, relevance, title_similarity."""
    chosen = plan.filter(pl.col("configuration") == "substitute")
    some = lower.join(chosen, on="query_key", how="semi")
    named = some.join(titles.select("item_key", "title"), on="item_key", how="left", maintain_order="left")
    named = named.join(titles.select(best_item_key="item_key", best_title="title"), on="best_item_key", how="left")
    return most_similar(named.with_columns(pl.col("title", "best_title").fill_null("")))


def _good(good: pl.DataFrame) -> pl.DataFrame:
    return _layout(good, "good")


def _omitted(good: pl.DataFrame, plan: pl.DataFrame) -> pl.DataFrame:
    rest = _pages_of(good, plan, "omitted").filter(pl.col("rank") > 1)
    return _layout(rest.with_columns(rank=pl.col("rank") - 1), "omitted")


def _low(good: pl.DataFrame, plan: pl.DataFrame) -> pl.DataFrame:
    sunk = pl.when(pl.col("rank") == 1).then(pl.col("n").cast(pl.Int32)).otherwise(pl.col("rank") - 1)
    return _layout(_pages_of(good, plan, "low").with_columns(rank=sunk), "low")


def _substitute(good: pl.DataFrame, stand_ins: pl.DataFrame) -> pl.DataFrame:
    pages = good.join(stand_ins.select("query_key"), on="query_key", how="semi")
    first = stand_ins.select("query_key", rank=pl.lit(1, pl.Int32), item_key="item_key", relevance="relevance")
    rest = pages.filter(pl.col("rank") > 1).select(first.columns)
    return _layout(pl.concat([first, rest]), "substitute")


def _pages_of(good: pl.DataFrame, plan: pl.DataFrame, configuration: str) -> pl.DataFrame:
    return good.join(plan.filter(pl.col("configuration") == configuration), on="query_key", how="semi")


def _layout(items: pl.DataFrame, configuration: str) -> pl.DataFrame:
    return items.select(
        "query_key",
        pl.lit(configuration).alias("configuration"),
        pl.col("rank").cast(pl.Int32),
        "item_key",
        "relevance",
    )


def _changes(layout: pl.DataFrame, good: pl.DataFrame, stand_ins: pl.DataFrame) -> pl.DataFrame:
    best = good.filter(pl.col("rank") == 1).select("query_key", best_item_key="item_key")
    pages = layout.select("query_key", "configuration").unique(maintain_order=True)
    by = stand_ins.select("query_key", "title_similarity", substitute_item_key="item_key")
    marked = by.with_columns(configuration=pl.lit("substitute"))
    return pages.join(best, on="query_key", how="left", maintain_order="left").join(
        marked, on=["query_key", "configuration"], how="left", maintain_order="left"
    )
