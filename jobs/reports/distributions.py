"""How labels lie against the truth: boxes of truth per label, and label shares by truth bucket and by human label."""

from typing import Any

import numpy as np

from jobs.reports.judged import JudgedSet

BUCKETS = 5
"""Truth buckets (equal counts): five still hold 50 pages each of a set of 250."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MAX_LEVELS = 12


def distributions(judged: JudgedSet) -> dict[str, Any]:
    """{"truth_by_label": {subset: {variant: [box, ...]}}, "label_share": {variant: [bucket, ...]}} of graded variants.

    The subset "flipped" is that of the main variant against the baseline, for both of them.
    """
    base, main = judged.baseline, judged.main
    if main is None:
        return {"truth_by_label": {}, "label_share": {}, "reason": "only one variant was judged"}
    flipped = judged.flipped(base, main)
    subsets = {"flipped": flipped, "all": judged.scored(base, main)}
    boxes = {
        name: {v: _boxes(judged.labels[v][rows], judged.truth[rows]) for v in (base, main)}
        for name, rows in subsets.items()
    }
    share = {v: _shares(judged.labels[v], judged.truth) for v in judged.graded}
    return {"truth_by_label": boxes, "label_share": share, "reason": None}


def _boxes(labels: np.ndarray, truth: np.ndarray) -> list[dict[str, Any]]:
    levels = np.unique(labels)
    if len(levels) > MAX_LEVELS:
        return []
    return [_box(float(level), truth[labels == level]) for level in levels]


def _box(label: float, truth: np.ndarray) -> dict[str, Any]:
    low, q1, median, q3, high = (float(q) for q in np.quantile(truth, QUANTILES))
    return {
        "label": label,
        "n": len(truth),
        "mean": float(truth.mean()),
        "low": low,
        "q1": q1,
        "median": median,
        "q3": q3,
        "high": high,
    }


def _shares(labels: np.ndarray, truth: np.ndarray) -> list[dict[str, Any]]:
    """Per truth bucket (distinct values where there are few, else equal counts): n and the share of each label."""
    scored = ~np.isnan(labels)
    labels, truth = labels[scored], truth[scored]
    levels = np.unique(labels)
    if not len(labels) or len(levels) > MAX_LEVELS:
        return []
    edges = np.unique(truth)
    if len(edges) > BUCKETS:
        edges = np.unique(np.quantile(truth, np.linspace(0, 1, BUCKETS + 1)[:-1]))
    place = np.searchsorted(edges, truth, side="right") - 1
    return [_bucket(labels[place == i], truth[place == i], levels) for i in range(len(edges)) if (place == i).any()]


def _bucket(labels: np.ndarray, truth: np.ndarray, levels: np.ndarray) -> dict[str, Any]:
    shares = {f"{level:g}": float((labels == level).mean()) for level in levels}
    return {"from": float(truth.min()), "to": float(truth.max()), "n": len(labels), "shares": shares}
