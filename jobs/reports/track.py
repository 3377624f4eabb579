"""The track record over all launches: were the forecasts right, and were they as sure as they should have been?"""

import itertools
import math
from typing import Any

from jobs.reports.alignment import sign

BINS = (0.0, 0.05, 0.2, 0.8, 0.95, 1.0)
"""Edges of forecast probability: surely b, rather b, open, rather a, surely a."""


def track_record(launches: list[dict[str, Any]]) -> dict[str, Any]:
    """Calibration and running alignment over launches with a known outcome, in order of their start.

    Each launch: {"launch_id", "start", "forecast" (frozen), "alignment" (variants' figures and online_difference, or
    None)}. Every figure is null with a reason where no launch has an outcome.
    """
    rows = [_row(x) for x in sorted(launches, key=lambda x: (x["start"], x["launch_id"]))]
    done = [r for r in rows if r["outcome_sign"] is not None]
    called = [r for r in done if r["preferred"] in ("a", "b") and r["outcome_sign"] != 0]
    return {
        "n_launches": len(rows),
        "n_with_outcome": len(done),
        "launches": _running(rows),
        "called": len(called),
        "called_right": sum(r["right"] for r in called),
        "called_right_interval": wilson(sum(r["right"] for r in called), len(called)),
        "brier": _brier(done),
        "calibration": _calibration(done),
        "reason": None if done else "no launch has an outcome yet",
    }


def wilson(right: int, n: int, *, z: float = 1.959964) -> list[float] | None:
    """Wilson's 95% interval of a share; None for n = 0."""
    if not n:
        return None
    share = right / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return [max(0.0, centre - half), min(1.0, centre + half)]


def _row(launch: dict[str, Any]) -> dict[str, Any]:
    frozen, known = launch["forecast"], launch.get("alignment") or {}
    main = frozen.get("main")
    told = (frozen.get("variants") or {}).get(main) or {}
    online = known.get("online_difference")
    outcome = None if online is None else sign(online)
    figures = (known.get("variants") or {}).get(main) or {}
    preferred = told.get("preferred", "undecided")
    return {
        "launch_id": launch["launch_id"],
        "start": launch["start"],
        "variant": main,
        "preferred": preferred,
        "chance_a_better": told.get("chance_a_better"),
        "outcome_sign": outcome,
        "right": {"a": 1, "b": -1}.get(preferred) == outcome if preferred != "undecided" and outcome else None,
        "n_queries": figures.get("n"),
        "n_aligned": figures.get("n_aligned"),
        "half_credit": figures.get("half_credit"),
    }


def _running(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    right = n = 0
    found = []
    for row in rows:
        right, n = right + (row["n_aligned"] or 0), n + (row["n_queries"] or 0)
        found.append({**row, "running_aligned": right / n if n else None, "running_interval": wilson(right, n)})
    return found


def _brier(done: list[dict[str, Any]]) -> float | None:
    known = [r for r in done if r["chance_a_better"] is not None and r["outcome_sign"]]
    if not known:
        return None
    return sum((r["chance_a_better"] - (r["outcome_sign"] > 0)) ** 2 for r in known) / len(known)


def _calibration(done: list[dict[str, Any]]) -> list[dict[str, Any]]:
    known = [r for r in done if r["chance_a_better"] is not None and r["outcome_sign"]]
    found = []
    for low, high in itertools.pairwise(BINS):
        there = [r for r in known if low <= r["chance_a_better"] < high or r["chance_a_better"] == high == 1]
        wins = sum(r["outcome_sign"] > 0 for r in there)
        found.append({"from": low, "to": high, "n": len(there), "a_won": wins, "interval": wilson(wins, len(there))})
    return found
