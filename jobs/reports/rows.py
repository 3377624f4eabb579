"""report.json as rows of the metrics table: one statistic a row."""

from typing import Any

import polars as pl

from jobs.reports.association import STATISTICS
from schemas.metrics import METRICS


def metric_rows(report: dict[str, Any], *, run: str) -> pl.DataFrame:
    """Every figure of the sets, their comparisons, slices and the launch, in the columns of the metrics table."""
    rows = []
    for part in ("logs", "human"):
        rows += [r for v, x in report[part]["variants"].items() for r in _variant(part, v, x)]
        rows += [_comparison(part, c) for c in report[part]["comparisons"]]
        rows += [_slice(part, s) for s in report["slices"].get(part, [])]
    rows += [r for v, x in report["launch"]["variants"].items() for r in _launch(v, x)]
    excluded = {p: sum(report[p]["excluded"].values()) for p in ("logs", "human")}
    filled = [{"run": run, "slice": "all", "excluded": excluded.get(r["set"], 0), "reason": None, **r} for r in rows]
    return pl.DataFrame(filled, schema=METRICS.polars()).unique(METRICS.key, keep="first", maintain_order=True)


def _variant(part: str, variant: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for subset in ("all", "flipped", "equal"):
        values = body.get(subset)
        for statistic in STATISTICS if values else ():
            cell = values[statistic]
            found.append(
                {
                    "set": part,
                    "subset": subset,
                    "variant": variant,
                    "statistic": statistic,
                    "n": values["n"],
                    "value": cell["value"],
                    "low": cell["low"],
                    "high": cell["high"],
                    "reason": cell.get("reason"),
                }
            )
    return found


def _comparison(part: str, c: dict[str, Any]) -> dict[str, Any]:
    return {
        "set": part,
        "subset": c["subset"],
        "variant": f"{c['b']}-{c['a']}",
        "statistic": c["statistic"],
        "value": c["difference"],
        "low": c["low"],
        "high": c["high"],
        "n": c["n"],
        "reason": c["reason"],
    }


def _slice(part: str, s: dict[str, Any]) -> dict[str, Any]:
    names = list(s["variants"])
    return {
        "set": part,
        "subset": "all",
        "slice": f"{s['dimension']}={s['slice']}",
        "variant": f"{names[1]}-{names[0]}",
        "statistic": "spearman",
        "value": s["difference"],
        "low": s["low"],
        "high": s["high"],
        "n": s["n"],
        "reason": s["reason"],
    }


def _launch(variant: str, x: dict[str, Any]) -> list[dict[str, Any]]:
    cells = {
        "aligned": ("aligned", "low", "high"),
        "half_credit": ("half_credit", "half_credit_low", "half_credit_high"),
    }
    return [
        {
            "set": "launch",
            "subset": "all",
            "variant": variant,
            "statistic": name,
            "value": x.get(v),
            "low": x.get(low),
            "high": x.get(high),
            "n": x["n"],
            "reason": x.get("reason"),
        }
        for name, (v, low, high) in cells.items()
    ]
