"""Agreement by slice, and the fairness view: does grounding favour popular items or large locales beyond the truth?"""

from typing import Any

import numpy as np
import polars as pl

from jobs.reports.association import association
from jobs.reports.data import Options, known
from jobs.reports.effects import midranks
from jobs.reports.judged import JudgedSet
from jobs.reports.resample import Subset, bootstrap, interval, mean_samples

SAMPLES = 1_000
"""Resamples at most: a slice is a pointer to look closer, and there are many of them."""
DIMENSIONS = ("corpus", "locale", "query class", "popularity", "evidence")


def dimensions(pages: pl.DataFrame, cards: pl.DataFrame) -> pl.DataFrame:
    """page_id and one text column per dimension (null = unknown), in the order of `pages`.

    Popularity: impressions of the page's items in the evidence window (all card rows), in thirds. Evidence: rows of the
    filtered cards. Query class: number of words.
    """
    seen = cards.group_by("page_id").agg(seen=pl.col("impressions").sum())
    rows = pages.join(seen, on="page_id", how="left", maintain_order="left")
    words = pl.col("query").str.split(" ").list.len()
    count = pl.col("qri_count")
    return rows.select(
        "page_id",
        pl.col("corpus"),
        pl.when(pl.col("locale") == "").then(None).otherwise("locale").alias("locale"),
        pl.when(pl.col("query") == "")
        .then(None)
        .when(words == 1)
        .then(pl.lit("1 word"))
        .when(words <= 3)
        .then(pl.lit("2-3 words"))
        .otherwise(pl.lit("4 words or more"))
        .alias("query class"),
        _thirds(rows).alias("popularity"),
        pl.when(count == 0)
        .then(pl.lit("0 rows"))
        .when(count < 5)
        .then(pl.lit("1-4 rows"))
        .when(count < 10)
        .then(pl.lit("5-9 rows"))
        .otherwise(pl.lit("10 rows or more"))
        .alias("evidence"),
    )


def _thirds(rows: pl.DataFrame) -> pl.Expr:
    known_seen = rows["seen"].drop_nulls()
    if known_seen.n_unique() < 3:
        return pl.lit(None, pl.String)
    low, high = known_seen.quantile(1 / 3), known_seen.quantile(2 / 3)
    seen = pl.col("seen")
    return (
        pl.when(seen.is_null())
        .then(pl.lit("no evidence"))
        .when(seen <= low)
        .then(pl.lit("low third"))
        .when(seen <= high)
        .then(pl.lit("middle third"))
        .otherwise(pl.lit("top third"))
    )


def merged_small(column: list[str | None], *, smallest: int) -> list[str | None]:
    """Slices with fewer pages than `smallest` become "others (k)"; None if even together they are too few."""
    counts: dict[str, int] = {}
    for value in column:
        if value is not None:
            counts[value] = counts.get(value, 0) + 1
    small = {v for v, n in counts.items() if n < smallest}
    together = sum(counts[v] for v in small)
    name = f"others ({len(small)})" if together >= smallest else None
    return [name if v in small else v for v in column]


def slices(judged: JudgedSet, table: pl.DataFrame, options: Options) -> list[dict[str, Any]]:
    """[{dimension, slice, n, variants: {V: spearman}, difference, low, high, ...}] on pages both variants scored.

    `table` is `dimensions` of the set's pages. Dimensions with a single known slice are left out.
    """
    base, main = judged.baseline, judged.main
    if main is None:
        return []
    subsets = list(_subsets(judged, table, options))
    drawn = bootstrap(
        truth=judged.truth,
        query=judged.query,
        subsets=[s for _, _, s in subsets],
        samples=min(options.samples, SAMPLES),
        seed=options.seed,
        workers=options.workers,
    )
    return [_slice(judged, d, name, s, drawn, base, main) for d, name, s in subsets]


def _subsets(judged: JudgedSet, table: pl.DataFrame, options: Options):
    base, main = judged.baseline, judged.main
    scored = judged.scored(base, main)
    for dimension in DIMENSIONS:
        merged = merged_small(table[dimension].to_list(), smallest=options.min_slice)
        column = np.array(["" if v is None else v for v in merged], dtype=object)
        names = sorted({v for v in merged if v is not None})
        for name in names if len(names) > 1 else ():
            rows = np.flatnonzero((column == name) & scored)
            labels = {v: judged.labels[v][rows] for v in (base, main)}
            yield dimension, name, Subset(name=f"{dimension}:{name}", rows=rows, labels=labels)


def _slice(
    judged: JudgedSet, dimension: str, name: str, subset: Subset, drawn: dict, base: str, main: str
) -> dict[str, Any]:
    truth = judged.truth[subset.rows]
    values = {v: known(association(subset.labels[v], truth)["spearman"]) for v in (base, main)}
    defined = len(subset.rows) > 0 and None not in values.values()
    ends = interval(drawn[subset.name, main][:, 0] - drawn[subset.name, base][:, 0]) if defined else None
    own = interval(drawn[subset.name, main][:, 0]) if defined else None
    return {
        "dimension": dimension,
        "slice": name,
        "n": len(subset.rows),
        "variants": values,
        "main_low": own and own[0],
        "main_high": own and own[1],
        "difference": values[main] - values[base] if defined else None,
        "low": ends and ends[0],
        "high": ends and ends[1],
        "within_noise": ends is None or ends[0] <= 0 <= ends[1],
        "flip_rate": float((subset.labels[base] != subset.labels[main]).mean()) if len(subset.rows) else None,
        "reason": None if defined else "fewer than two distinct labels or truths in this slice",
    }


def fairness(judged: JudgedSet, table: pl.DataFrame, options: Options) -> list[dict[str, Any]]:
    """[{dimension, slice, n, truth, plain, qri, shift, low, high, favoured}]: mean places of a slice's pages in [0, 1].

    A place is the mid-rank over the whole set. `shift` = place under the main variant minus place under the baseline;
    `beyond_truth` = main's place minus the truth's, with interval: grounding favours a slice if both point up.
    """
    base, main = judged.baseline, judged.main
    if main is None or not judged.scored(base, main).any():
        return []
    scored = judged.scored(base, main)
    places = np.stack([midranks(x[scored]) for x in (judged.truth, judged.labels[base], judged.labels[main])], axis=1)
    query = judged.query[scored]
    rows = table.filter(pl.Series(scored))
    return [
        _favour(dimension, name, places[mask], query[mask], options)
        for dimension in ("popularity", "locale")
        for name, mask in _cells(rows[dimension].to_list(), options.min_slice)
    ]


def _cells(column: list[str | None], smallest: int):
    merged = merged_small(column, smallest=smallest)
    names = sorted({v for v in merged if v is not None})
    for name in names if len(names) > 1 else ():
        yield name, np.array([v == name for v in merged])


def _favour(dimension: str, name: str, places: np.ndarray, query: np.ndarray, options: Options) -> dict[str, Any]:
    truth, plain, main = places.mean(axis=0)
    columns = np.stack([places[:, 2] - places[:, 1], places[:, 2] - places[:, 0]], axis=1)
    drawn = mean_samples(columns, query, samples=min(options.samples, SAMPLES), seed=options.seed)
    shift, beyond = (interval(drawn[:, i]) or (None, None) for i in (0, 1))
    favoured = None not in (*shift, *beyond) and shift[0] > 0 and beyond[0] > 0
    return {
        "dimension": dimension,
        "slice": name,
        "n": len(places),
        "truth": float(truth),
        "baseline": float(plain),
        "main": float(main),
        "shift": float(main - plain),
        "shift_low": shift[0],
        "shift_high": shift[1],
        "beyond_truth": float(main - truth),
        "low": beyond[0],
        "high": beyond[1],
        "favoured": favoured,
    }
