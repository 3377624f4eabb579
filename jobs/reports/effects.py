"""The three effects: how much a spoilt page loses under each variant, and which kind of page flips."""

from typing import Any

import numpy as np
import polars as pl

from jobs.reports.data import Options
from jobs.reports.judged import JudgedSet
from jobs.reports.resample import interval, mean_samples

DEGRADED = ("omitted", "low", "substitute")
EFFECTS = {
    "ambiguity": ("good", "shown"),
    "severity": ("omitted", "substitute"),
    "ranking": ("low",),
}
"""Effect to page configurations. A page as it should be flips because query or items are read differently (ambiguity);
one that lost or changed its best item, because the loss is weighed differently (severity); one whose best item moved to
the end, because order is weighed differently (ranking)."""


def label_drops(judged: JudgedSet, options: Options) -> dict[str, dict[str, Any]]:
    """{configuration: {variant or "truth": {value, low, high, n}}}: mean of good minus degraded of the same query."""
    pairs = _pairs(judged)
    found: dict[str, dict[str, Any]] = {}
    for configuration in DEGRADED:
        rows = pairs.filter(pl.col("configuration") == configuration)
        if rows.height:
            good, bad, query = (rows[c].to_numpy() for c in ("good", "bad", "query_key"))
            columns = {**judged.labels, "truth": judged.truth}
            found[configuration] = {v: _drop(x[good] - x[bad], query, options) for v, x in columns.items()}
    return found


def _pairs(judged: JudgedSet) -> pl.DataFrame:
    """Row numbers of each query's good page and of its degraded pages: query_key, configuration, good, bad."""
    rows = judged.pages.select("query_key", "configuration").with_row_index("bad")
    good = rows.filter(pl.col("configuration") == "good").select("query_key", good="bad")
    return rows.filter(pl.col("configuration").is_in(DEGRADED)).join(good.unique("query_key"), on="query_key")


def _drop(drops: np.ndarray, query: np.ndarray, options: Options) -> dict[str, Any]:
    kept = ~np.isnan(drops)
    drops, query = drops[kept], query[kept]
    if len(drops) < 2:
        reason = "fewer than two pairs were scored"
        return {"value": None, "low": None, "high": None, "n": len(drops), "reason": reason}
    drawn = mean_samples(drops[:, None], query, samples=options.samples, seed=options.seed)
    low, high = interval(drawn[:, 0]) or (None, None)
    return {"value": float(drops.mean()), "low": low, "high": high, "n": len(drops), "reason": None}


def flips_by_effect(judged: JudgedSet) -> dict[str, dict[str, Any]]:
    """{effect: {n, flipped, flip_rate, up, down, towards_truth}} of the main variant against the baseline.

    `towards_truth`: flips whose new label stands nearer to the truth, both as mid-ranks in [0, 1] over this set.
    """
    base, main = judged.baseline, judged.main
    if main is None:
        return {}
    scored, flipped = judged.scored(base, main), judged.flipped(base, main)
    nearer = towards_truth(judged, base, main)
    up = judged.labels[main] > judged.labels[base]
    configuration = judged.pages["configuration"].to_numpy()
    found = {}
    for effect, kinds in EFFECTS.items():
        here = np.isin(configuration, kinds)
        flips = flipped & here
        n, k = int((scored & here).sum()), int(flips.sum())
        found[effect] = {
            "n": n,
            "flipped": k,
            "flip_rate": k / n if n else None,
            "up": int((flips & up).sum()),
            "down": int((flips & ~up).sum()),
            "towards_truth": int((flips & nearer).sum()),
            "reason": None if n else f"no page is {' or '.join(kinds)}",
        }
    return found


def towards_truth(judged: JudgedSet, a: str, b: str) -> np.ndarray:
    """Boolean (n,): the label of `b` stands nearer to the truth than that of `a`, compared as mid-ranks."""
    scored = judged.scored(a, b)
    found = np.zeros(len(scored), bool)
    if scored.any():
        place = {v: midranks(judged.labels[v][scored]) for v in (a, b)}
        truth = midranks(judged.truth[scored])
        found[scored] = np.abs(place[b] - truth) < np.abs(place[a] - truth)
    return found


def midranks(values: np.ndarray) -> np.ndarray:
    """Mid-ranks scaled to [0, 1]: the share of values below, ties counting half."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - counts / 2)[place] / len(values)
