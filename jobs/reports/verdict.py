"""The one sentence that decides, and the gates that mark a report: both made from its figures alone."""

from typing import Any

from jobs.reports.data import Options

HELPS, NOTHING, HURTS, UNKNOWN = "helps", "no_difference", "hurts", "cannot_say"
WORST = 3


def verdict(report: dict[str, Any]) -> dict[str, Any]:
    """{"form", "sentence"}: grounding helps, no difference can be shown, it hurts, or why it cannot be said.

    Judged on Spearman over all pages of the Logs set, of the human labels where there is no Logs set.
    """
    for part, who in (("logs", "users"), ("human", "people")):
        found = headline(report[part])
        if found:
            return _sentence(found, who)
    reasons = [f"{name}: {_why(report[part])}" for part, name in (("logs", "Logs"), ("human", "human labels"))]
    return {"form": UNKNOWN, "sentence": f"Whether grounding helps cannot be said, because {'; '.join(reasons)}."}


def _why(section: dict[str, Any]) -> str:
    """Why a set has no headline: its own reason, that of its comparison, or that there is nothing to compare."""
    if section["reason"]:
        return section["reason"]
    wanted = (section["baseline"], section["main"], "all", "spearman")
    for c in section["comparisons"]:
        if (c["a"], c["b"], c["subset"], c["statistic"]) == wanted:
            return c.get("reason") or "too many resamples are undefined for an interval"
    return "only one variant was judged"


def headline(section: dict[str, Any]) -> dict[str, Any] | None:
    """The comparison baseline to main variant on all pages by Spearman, or None where it is undefined."""
    for c in section["comparisons"]:
        ours = (c["a"], c["b"]) == (section["baseline"], section["main"])
        if ours and c["subset"] == "all" and c["statistic"] == "spearman":
            return c if c["difference"] is not None and c["low"] is not None else None
    return None


def _sentence(c: dict[str, Any], who: str) -> dict[str, Any]:
    values = (
        f"(Spearman {short(c['value_b'])} against {short(c['value_a'])}, difference {short(c['difference'])},"
        f" interval {short(c['low'])} to {short(c['high'])})"
    )
    on = f"on {c['n']:,} pages"
    if c["low"] > 0:
        said = f"Grounding helps: {on} the grounded judge ({c['b']}) agrees with {who} more than {c['a']} {values}."
        return {"form": HELPS, "sentence": said}
    if c["high"] < 0:
        said = f"Grounding hurts: {on} the grounded judge ({c['b']}) agrees with {who} less than {c['a']} {values}."
        return {"form": HURTS, "sentence": said}
    said = f"No difference can be shown: {on} {c['b']} and {c['a']} agree with {who} alike, within noise {values}."
    return {"form": NOTHING, "sentence": said}


def short(value: float | None, *, digits: int = 3) -> str:
    """Three digits without a leading zero (.438, -.012, 12.3, 0 below .0005); a dash for None."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 10**digits:
        return f"{value:,.0f}"
    if abs(value) < 0.0005:
        return "0"
    places = max(0, digits - len(str(int(abs(value))))) if abs(value) >= 1 else digits
    text = f"{value:.{places}f}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def gates(report: dict[str, Any], options: Options) -> dict[str, Any]:
    """{"min_spearman", "max_unscored": {limit, value, passed, reason}, "failed": [sentence], "worst_slices"}.

    A gate whose figure does not exist because nothing was judged does not fail, and says so; one whose figure is
    undefined although pages were judged (constant labels, all unscored) fails: a constant judge must not pass.
    """
    section = report["logs"] if report["logs"]["variants"] else report["human"]
    main = section["main"] or section["baseline"]
    spearman = section["variants"][main]["all"]["spearman"]["value"] if main else None
    judged = bool(main) and section["n_pages"] > 0
    checks = {
        "min_spearman": _gate(options.min_spearman, spearman, at_least=True, judged=judged),
        "max_unscored": _gate(options.max_unscored, unscored_share(section), at_least=False, judged=judged),
    }
    worst = _worst(report.get("slices", {}).get("logs") or [])
    failed = [_failure(name, gate, main, worst) for name, gate in checks.items() if not gate["passed"]]
    return {**checks, "failed": failed, "worst_slices": worst}


def unscored_share(section: dict[str, Any]) -> float | None:
    """Unscored / (pages x judged variants), evidence_only left out; None without pages."""
    judged = [v for v in section["variants"] if v != "evidence_only"]
    asked = section["n_pages"] * len(judged)
    return sum(section["unscored"].values()) / asked if asked else None


def _gate(limit: float | None, value: float | None, *, at_least: bool, judged: bool) -> dict[str, Any]:
    if limit is None:
        return {"limit": limit, "value": value, "passed": True, "reason": "no limit is configured"}
    if value is None:
        why = "the figure is undefined although pages were judged" if judged else "nothing was judged in this run"
        return {"limit": limit, "value": value, "passed": not judged, "reason": why}
    return {"limit": limit, "value": value, "passed": value >= limit if at_least else value <= limit, "reason": None}


def _failure(name: str, gate: dict[str, Any], main: str | None, worst: list[dict[str, Any]]) -> str:
    told = {"min_spearman": f"Spearman of {main}", "max_unscored": "share of unscored pages"}[name]
    if gate["value"] is None:
        return f"{told} is undefined although pages were judged (limit {short(gate['limit'])})"
    side = "below" if name == "min_spearman" else "above"
    where = ", ".join(f"{s['dimension']} {s['slice']} ({short(s['value'])})" for s in worst)
    text = f"{told} is {short(gate['value'])}, {side} the limit {short(gate['limit'])}"
    return f"{text}; worst slices: {where}" if where and name == "min_spearman" else text


def _worst(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    known = [r for r in rows if r["variants"]]
    pairs = [(list(r["variants"].values())[-1], r) for r in known]
    low = sorted((p for p in pairs if p[0] is not None), key=lambda p: (p[0], p[1]["dimension"], p[1]["slice"]))[:WORST]
    return [{"dimension": r["dimension"], "slice": r["slice"], "n": r["n"], "value": v} for v, r in low]
