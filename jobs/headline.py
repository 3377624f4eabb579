"""What a finished night or launch says at its end: how much went in, how well the judges did, where the report is."""

from typing import Any

from jobs.core.context import Context

SETS = {"logs": "users", "human": "people"}


def rows_of_day(ctx: Context) -> int:
    """Impressions of the night's event day in the version of the table that the run reads; from the table's log."""
    version = ctx.manifest()["tables"].get("impressions")
    if version is None:
        return 0
    return sum(f.rows for f in ctx.store.files("impressions", version=version, where={"event_day": ctx.run.as_of}))


def headline(ctx: Context) -> dict[str, Any]:
    """Counts, correlations and sign agreement of a run that has a report. Undefined values are null."""
    steps = ctx.manifest()["steps"]
    report = ctx.store.read_json(f"reports/{ctx.run.key}/report.json")
    launch = report.get("launch") or {}
    judged = steps.get("judging", {})
    found = {
        "impressions": None if ctx.run.launch_id else rows_of_day(ctx),
        "pages": counted_pages(steps.get("pages", {})),
        "labels": judged.get("labels", 0),
        "unscored": sum(judged.get("unscored", {}).values()),
        "correlations": {name: _correlations(report.get(name) or {}) for name in SETS},
        "sign_agreement": {v: x.get("half_credit") for v, x in (launch.get("variants") or {}).items()},
        "report": f"{ctx.settings.store_uri}/reports/{ctx.run.key}/index.html",
        "jvm_starts": ctx.spark.starts,
        "seconds_of_jvm_start": round(ctx.spark.start_seconds, 1),
    }
    return found if ctx.run.launch_id else {k: v for k, v in found.items() if k != "sign_agreement"}


def headline_text(key: str, found: dict[str, Any]) -> str:
    """The headline as lines for people."""
    counts = [f"{found[n]:,} {n}" for n in ("impressions", "pages", "labels", "unscored") if found[n] is not None]
    lines = [f"{key}: {', '.join(counts)}"]
    for name, who in SETS.items():
        lines += _row(f"agreement with {who}, Spearman", found["correlations"][name])
    lines += _row("agreement with the A/B test's sign", found.get("sign_agreement", {}))
    return "\n".join([*lines, f"  report: {found['report']}"])


def _row(what: str, values: dict[str, float | None]) -> list[str]:
    told = ", ".join(f"{variant} {value:.3f}" for variant, value in values.items() if value is not None)
    return [f"  {what}: {told}"] if told else []


def counted_pages(step: dict[str, Any]) -> int:
    """Pages of all sets, as the pages step counted them."""
    return sum(step[name]["pages"] for name in ("logs", "human", "launch") if isinstance(step.get(name), dict))


def _correlations(section: dict[str, Any]) -> dict[str, float | None]:
    return {v: x["all"]["spearman"]["value"] for v, x in (section.get("variants") or {}).items()}
