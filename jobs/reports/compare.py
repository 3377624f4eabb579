"""Two reports side by side: what changed, by how much, whether it is more than noise, which pages flipped."""

import math
from typing import Any

from jobs.reports.association import STATISTICS

Z = 1.959964


def compare(before: dict[str, Any], after: dict[str, Any], *, pages: tuple[dict, dict] | None = None) -> dict[str, Any]:
    """Changes from one report.json to another. `pages` = both runs' {page_id: {variant: label}} for flips of pages.

    The two runs' figures are taken as independent: their standard errors, read off the intervals, are added in squares.
    Nights share most of their pages, so this interval is on the wide side: what it calls a change is one.
    """
    same = before["run"].get("config_sha256") == after["run"].get("config_sha256")
    return {
        "before": _name(before),
        "after": _name(after),
        "judge_changed": before["run"].get("judge") != after["run"].get("judge"),
        "configuration_changed": not same,
        "figures": [*_figures(before, after, "logs"), *_figures(before, after, "human")],
        "leakage": [before["leakage"].get("violations"), after["leakage"].get("violations")],
        "unscored": [before["logs"]["unscored"], after["logs"]["unscored"]],
        "pages": _flipped(*pages) if pages else None,
    }


def _name(report: dict[str, Any]) -> dict[str, Any]:
    return {k: report["run"].get(k) for k in ("run", "as_of", "judge", "config_sha256")}


def _figures(before: dict[str, Any], after: dict[str, Any], part: str) -> list[dict[str, Any]]:
    found = []
    shared = [v for v in after[part]["variants"] if v in before[part]["variants"]]
    for variant in shared:
        old, new = (r[part]["variants"][variant]["all"] for r in (before, after))
        for statistic in STATISTICS:
            found.append(
                {
                    "set": part,
                    "variant": variant,
                    "statistic": statistic,
                    "n": [old["n"], new["n"]],
                    **difference(old[statistic], new[statistic]),
                }
            )
    return found


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """{before, after, change, low, high, within_noise[, reason]} of two {value, low, high}."""
    values = {"before": old["value"], "after": new["value"]}
    if None in (old["value"], new["value"], old["low"], new["low"]):
        return {
            **values,
            "change": None,
            "low": None,
            "high": None,
            "within_noise": True,
            "reason": "one of the two is undefined or has no interval",
        }
    change = new["value"] - old["value"]
    half = math.hypot(old["high"] - old["low"], new["high"] - new["low"]) / 2
    noise = abs(change) <= half
    return {
        **values,
        "change": change,
        "low": change - half,
        "high": change + half,
        "within_noise": noise,
        "reason": None,
    }


def _flipped(before: dict[str, dict[str, float]], after: dict[str, dict[str, float]]) -> dict[str, Any]:
    common = sorted(before.keys() & after.keys())
    found: dict[str, Any] = {
        "common": len(common),
        "only_before": len(before) - len(common),
        "only_after": len(after) - len(common),
        "flips": {},
    }
    for variant in sorted({v for p in common for v in after[p]}):
        both = [p for p in common if None not in (before[p].get(variant), after[p].get(variant))]
        changed = [p for p in both if before[p][variant] != after[p][variant]]
        found["flips"][variant] = {"n": len(both), "flipped": len(changed), "page_ids": changed[:50]}
    return found
