"""Negative controls on the run's own pages: does the gain vanish when each card is taken from another query's page?"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from jobs.reports.association import association
from jobs.reports.data import Options, known
from jobs.reports.judged import JudgedSet
from jobs.reports.resample import Subset, bootstrap, interval

Judge = Callable[[list[dict[str, Any]], Mapping[str, list[dict[str, Any]]]], list[dict[str, Any]]]
"""Grades pages with given cards under the main variant; jobs.judging's interface bound to judge and embedder."""

SHUFFLED = "shuffled"


def shuffled_cards(pages: pl.DataFrame, cards: pl.DataFrame, *, seed: int) -> dict[str, list[dict[str, Any]]]:
    """Each item's card replaced whole by that of a random item of another query's page of the same corpus and set.

    `pages` needs page_id, corpus, set, query_key, items (JSON); the result maps page id to card rows whose item_id is
    that of the receiving item. An item whose group holds no other query's card gets none.
    """
    owners = pages.select("page_id", "corpus", "set", "query_key")
    kept = cards.filter(pl.col("row").is_not_null() | pl.col("row_unfiltered").is_not_null())
    groups = (
        kept.drop("corpus", "set", "query_key", strict=False)
        .join(owners, on="page_id")
        .sort("page_id", "item_id", "row", "row_unfiltered")
    )
    donors: dict[tuple, list[tuple[int, list[dict[str, Any]]]]] = {}
    for (corpus, set_, query, _, _), rows in groups.group_by(
        "corpus", "set", "query_key", "page_id", "item_id", maintain_order=True
    ):
        donors.setdefault((corpus, set_), []).append((query, rows.to_dicts()))
    rng = np.random.default_rng(seed)
    return {p["page_id"]: _dealt(p, donors.get((p["corpus"], p["set"]), []), rng) for p in _sorted(pages)}


def _sorted(pages: pl.DataFrame) -> Sequence[dict[str, Any]]:
    items = pl.col("items").str.json_decode(pl.List(pl.Struct({"item_id": pl.String})))
    columns = pages.select("page_id", "corpus", "set", "query_key", items)
    return columns.sort("page_id").to_dicts()


def _dealt(page: dict[str, Any], donors: list, rng: np.random.Generator) -> list[dict[str, Any]]:
    found = []
    for item in page["items"]:
        card = _other(page["query_key"], donors, rng)
        found += [{**row, "item_id": item["item_id"], "page_id": page["page_id"]} for row in card]
    return found


def _other(query: int, donors: list, rng: np.random.Generator) -> list[dict[str, Any]]:
    for _ in range(50):
        if not donors:
            return []
        owner, card = donors[int(rng.integers(len(donors)))]
        if owner != query:
            return card
    return []


def control(judged: JudgedSet, shuffled: dict[str, float | None], options: Options) -> dict[str, Any]:
    """Gains in Spearman over plain with true and with shuffled cards, and their difference, with intervals.

    `shuffled` maps page id to the main variant's label under shuffled cards. Only pages that all three scored count.
    """
    base, main = judged.baseline, judged.main
    if main is None:
        return {"reason": "only one variant was judged"}
    values = [shuffled.get(p) for p in judged.pages["page_id"].to_list()]
    labels = {base: judged.labels[base], main: judged.labels[main], SHUFFLED: np.array(values, dtype=float)}
    rows = np.flatnonzero(judged.scored(base, main) & ~np.isnan(labels[SHUFFLED]))
    if len(rows) < 3:
        return {"reason": "fewer than three pages were scored with shuffled cards"}
    subset = Subset(name="control", rows=rows, labels={v: x[rows] for v, x in labels.items()})
    return _gains(judged, subset, base, main, options)


def _gains(judged: JudgedSet, subset: Subset, base: str, main: str, options: Options) -> dict[str, Any]:
    truth = judged.truth[subset.rows]
    point = {v: association(x, truth)["spearman"] for v, x in subset.labels.items()}
    drawn = bootstrap(
        truth=judged.truth,
        query=judged.query,
        subsets=[subset],
        samples=options.samples,
        seed=options.seed,
        workers=options.workers,
    )
    columns = {v: drawn["control", v][:, 0] for v in subset.labels}
    return {
        "n": len(subset.rows),
        "spearman": {v: known(x) for v, x in point.items()},
        "true_gain": _gain(point, columns, main, base),
        "shuffled_gain": _gain(point, columns, SHUFFLED, base),
        "true_minus_shuffled": _gain(point, columns, main, SHUFFLED),
        "reason": None,
    }


def _gain(point: dict[str, float], drawn: dict[str, np.ndarray], a: str, b: str) -> dict[str, Any]:
    ends = interval(drawn[a] - drawn[b])
    return {"value": known(point[a] - point[b]), "low": ends and ends[0], "high": ends and ends[1]}
