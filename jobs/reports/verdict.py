"""The one sentence that decides, and the gates that mark a report: both made from its figures alone."""

from typing import Any

from jobs.reports.data import Options

HELPS, NOTHING, HURTS, UNKNOWN = "helps", "no_difference", "hurts", "cannot_say"
FORECAST = "forecast"
WORST = 3


def verdict(report: dict[str, Any]) -> dict[str, Any]:
    """{"form", "sentence"}: grounding helps, no difference can be shown, it hurts, or why it cannot be said.

    Judged on Spearman over all pages of the Logs set, of the human labels where there is no Logs set. The report of a
    launch says its forecast and, once the outcome is known, whether the grounded judge saw it better than plain.
    """
    for part, who in (("logs", "users"), ("human", "people")):
        found = headline(report[part])
        if found:
            return _sentence(found, who)
    launch = report.get("launch") or {}
    if launch.get("variants"):
        return _of_launch(launch)
    cold = (report.get("evidence") or {}).get("short") or []
    reasons = [f"{name}: {_why(report[part])}" for part, name in (("logs", "Logs"), ("human", "human labels"))]
    told = "; ".join([*cold, *reasons])
    return {"form": UNKNOWN, "sentence": f"Whether grounding helps cannot be said, because {told}."}


def _of_launch(launch: dict[str, Any]) -> dict[str, Any]:
    """The headline of a launch: its forecast and, once known, how both judges stand beside the outcome."""
    frozen = launch["forecast"]
    told = _forecast(launch, frozen) if frozen and frozen.get("main") else None
    outcome = _outcome(launch) if launch.get("online_difference") is not None else None
    if outcome and told:
        return {"form": outcome["form"], "sentence": f"{told['sentence']} Its outcome is known. {outcome['sentence']}"}
    nothing = f"Nothing can be said of this launch: {launch['reason'] or 'it has no frozen forecast'}."
    return outcome or told or {"form": UNKNOWN, "sentence": nothing}


def _forecast(launch: dict[str, Any], frozen: dict[str, Any]) -> dict[str, Any]:
    main = frozen["main"]
    f = frozen["variants"][main]
    figures = f"preference A − B {short(f['preference'])}, interval {short(f['low'])} to {short(f['high'])}"
    on = f"on {f['n_queries']:,} queries"
    if f["preferred"] in ("a", "b"):
        side = f["preferred"].upper()
        said = (
            f"Forecast for {launch['launch_id']}: system {side} should win: {on} {main} prefers its pages ({figures})."
        )
        return {"form": FORECAST, "sentence": said}
    if f["low"] is None:
        said = f"Forecast for {launch['launch_id']}: nothing can be said, because {on} there is no interval."
        return {"form": UNKNOWN, "sentence": said}
    needed = f"; about {f['queries_needed']:,} queries would decide" if f["queries_needed"] else ""
    said = (
        f"Forecast for {launch['launch_id']}: no winner can be named: {on} {main} prefers neither ({figures}){needed}."
    )
    return {"form": NOTHING, "sentence": said}


def _outcome(launch: dict[str, Any]) -> dict[str, Any] | None:
    """Both judges against the A/B test's signs, by exact McNemar; None where only one of them judged."""
    main = next((v for v in launch["mcnemar"] if v == "qri"), next(iter(launch["mcnemar"]), None))
    test = launch["mcnemar"].get(main)
    if test is None or test["p"] is None:
        return None
    plain, grounded = (launch["variants"][v] for v in ("plain", main))
    shares = f"({_share(grounded)} against {_share(plain)} of {grounded['n']:,} queries, McNemar p {_p(test['p'])})"
    if test["p"] >= 0.05:
        said = f"No difference can be shown: {main} and plain have the A/B test's sign alike, within noise {shares}."
        return {"form": NOTHING, "sentence": said}
    form, how = (HELPS, "helps") if test["only_b"] > test["only_a"] else (HURTS, "hurts")
    more = "more" if form == HELPS else "less"
    return {"form": form, "sentence": f"Grounding {how}: {main} has the A/B test's sign {more} often {shares}."}


def _share(found: dict[str, Any]) -> str:
    return "–" if found["aligned"] is None else f"{100 * found['aligned']:.1f}%"


def _p(value: float) -> str:
    return "< .001" if value < 0.001 else short(value)


def _why(section: dict[str, Any]) -> str:
    """Why a set has no headline: its own reason, that of its comparison, or that there is nothing to compare."""
    if section["reason"]:
        return section["reason"]
    wanted = (section["baseline"], section["main"], "all", "spearman")
    for c in section["comparisons"]:
        if (c["a"], c["b"], c["subset"], c["statistic"]) == wanted:
            return c.get("reason") or "too many resamples are undefined for an interval"
    return f"only one variant was judged{_alone(section)}"


def _alone(section: dict[str, Any]) -> str:
    """The figure of the only variant, for a reader who wants to know that much."""
    name = section["baseline"]
    if name is None:
        return ""
    found = section["variants"][name]["all"]
    value = found["spearman"]
    if value["value"] is None:
        return f" ({name}: Spearman undefined, {value['reason']})"
    ends = "" if value["low"] is None else f", interval {short(value['low'])} to {short(value['high'])}"
    return f" ({name}: Spearman {short(value['value'])}{ends}, on {found['n']:,} pages)"


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
