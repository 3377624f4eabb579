"""Evidence of a run: files and curves gathered by the driver, one Spark task per key range, one commit a corpus."""

from datetime import date
from typing import Any

from jobs.core.context import Context
from jobs.core.keys import range_bounds
from jobs.core.sensitive import sensitive_patterns
from jobs.core.spark import run_tasks
from jobs.core.tables import DataFile
from jobs.evidence.tasks import build_range, fit_prior_range
from jobs.evidence.window import How
from jobs.propensity.curve import Curve
from jobs.propensity.fitting import read_curves
from jobs.propensity.reading import days_of, deepest_rank, shares, window_files

PRIOR_PARTS = (64, 4, 1)  # a 64th of a window that several tasks share has pairs enough, unless queries are very few
_SUMMED = ("rows", "queries", "impressions", "dropped_rare", "dropped_sensitive", "count_rows")


def build(ctx: Context) -> dict[str, dict[str, Any]]:
    """Write the evidence partitions of the run's corpora and return counts by corpus.

    All corpora's ranges are one job, so that no core waits for the last range of one of them. A window with fewer than
    windows.min_evidence_days days of data gives no rows and says so: only plain is judged then.
    """
    files = {corpus: window_files(ctx, "daily_counts", corpus) for corpus in ctx.corpora}
    days = {corpus: days_of(own) for corpus, own in files.items()}
    enough = {corpus: len(own) >= ctx.settings.windows.min_evidence_days for corpus, own in days.items()}
    specs = {corpus: _specs(ctx, corpus, own) if enough[corpus] else [] for corpus, own in files.items()}
    priors = _shared_priors(ctx, specs)
    tasks = [{**spec, "prior": priors[corpus]} for corpus, own in specs.items() for spec in own]
    results: dict[str, list[dict[str, Any]]] = {corpus: [] for corpus in specs}
    for spec, result in zip(tasks, run_tasks(ctx.spark, build_range, tasks, label="evidence"), strict=True):
        results[spec["corpus"]].append(result)
    return {
        corpus: _committed(ctx, corpus, results[corpus])
        | {
            "prior": priors[corpus] or (results[corpus][0]["prior"] if own else None),
            "curve_id": own[0]["curve_id"] if own else None,
            **_window(ctx, days[corpus], enough[corpus]),
        }
        for corpus, own in specs.items()
    }


def _committed(ctx: Context, corpus: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Replace the corpus's partition by what its tasks staged; their counts, summed."""
    staged = [r["staged"] for r in results if r["staged"]]
    ctx.store.commit_files("evidence", staged, replaced=[{"run": ctx.run.key, "corpus": corpus}])
    return {name: sum(r[name] for r in results) for name in _SUMMED}


def _window(ctx: Context, days: list[str], enough: bool) -> dict[str, Any]:
    least, wanted = ctx.settings.windows.min_evidence_days, ctx.run.evidence.days
    if not enough:
        state = f"no evidence: {len(days)} days of data in {ctx.run.evidence}, at least {least} are needed"
    elif len(days) < wanted:
        state = f"cold start: {len(days)} of {wanted} days of data in {ctx.run.evidence}"
    else:
        state = f"{wanted} days {ctx.run.evidence}"
    return {"days": len(days), "days_wanted": wanted, "cold_start": len(days) < wanted, "state": state}


def _specs(ctx: Context, corpus: str, files: list[DataFile]) -> list[dict[str, Any]]:
    curves = read_curves(ctx, corpus)
    texts = {n: _text_files(ctx, n, corpus) for n in ("queries", "item_keys")}
    common = {
        "run": ctx.run,
        "corpus": corpus,
        "table_uri": ctx.store.table_uri("evidence"),
        "daily_counts": files,
        "daily_users": window_files(ctx, "daily_users", corpus),
        **texts,
        "curve": curve_entries(curves, deepest=deepest_rank(files)),
        "curve_id": curves[0].curve_id,
        "window_start": max(ctx.run.evidence.start, date.fromisoformat(days_of(files)[0])),
        "how": _how(ctx),
        "sensitive": list(sensitive_patterns(ctx.settings)),
    }
    return [{**common, "range": part} for part in shares(sum(file.rows for file in files))]


def _how(ctx: Context) -> How:
    s = ctx.settings.evidence
    return How(
        min_users=s.min_users,
        relevance=s.relevance,
        prior_kind=s.prior,
        by_segment=s.by_segment,
        floor=ctx.settings.propensity.floor,
    )


def _text_files(ctx: Context, name: str, corpus: str) -> list[DataFile]:
    return ctx.store.files(name, version=ctx.table_version(name), where={"corpus": corpus})


def curve_entries(curves: list[Curve], *, deepest: int) -> list[tuple]:
    """(segment, rank, examination, error factors) for every rank that occurs; deeper than a curve, its last errors
    scale.
    """
    entries = []
    for curve in curves:
        loadings = curve.loadings()
        for rank in range(1, deepest + 1):
            row = min(rank, len(curve.ranks)) - 1
            scale = curve.at(rank) / max(curve.ranks[row].propensity, 1e-300)
            entries.append((curve.segment, rank, curve.at(rank), tuple(float(v) * scale for v in loadings[row])))
    return entries


def _shared_priors(ctx: Context, specs: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any] | None]:
    """One prior for all ranges of a corpus, from the first part of the keys that holds a click; None where one task
    sees all.
    """
    found: dict[str, dict[str, Any] | None] = dict.fromkeys(specs)
    for parts in PRIOR_PARTS:
        wanting = [c for c, own in specs.items() if len(own) > 1 and not (found[c] and found[c]["mean"] > 0)]
        samples = [{**specs[corpus][0], "range": range_bounds(ranges=parts)[0]} for corpus in wanting]
        found |= zip(wanting, run_tasks(ctx.spark, fit_prior_range, samples, label="evidence: priors"), strict=True)
    return found
