"""A report's data from one run of a store: tables at the versions of the run's manifest, and what steps recorded."""

from typing import Any

import polars as pl

from jobs.core.context import Context
from jobs.core.tables import scan_files
from jobs.reports.data import RUN_HEAD, Options, ReportData
from jobs.reports.explorer import page_labels
from jobs.reports.files import outcome_frame
from jobs.reports.given import json_object
from jobs.reports.output import read_explorer
from jobs.reports.parts import propensity_part
from schemas.cards import CARDS
from schemas.evidence import EVIDENCE
from schemas.judgments import JUDGMENTS
from schemas.pages import PAGES
from schemas.skills import REWRITES, SKILLS

MAIN = "qri"
OFFLINE = "offline-baseline"
OWN_TABLES = ("metrics", "launches")
"""Tables that reports write themselves: their versions would make a report differ from its own repetition."""


def options_of(ctx: Context) -> Options:
    """The options that the settings declare."""
    report = ctx.settings.report
    return Options(
        samples=report.bootstrap,
        seed=report.seed,
        min_slice=report.min_slice,
        min_spearman=report.gates.min_spearman,
        max_unscored=report.gates.max_unscored,
    )


def from_store(ctx: Context) -> ReportData:
    """Everything that the report of `ctx.run` reads; tables that the run has not written are empty."""
    manifest = ctx.manifest()
    judgments = _rows(ctx, manifest, "judgments", JUDGMENTS)
    curves = _rows(ctx, manifest, "propensities", None)
    previous, labels = previous_report(ctx)
    return ReportData(
        run=run_head(ctx, manifest, judgments),
        pages=_rows(ctx, manifest, "pages", PAGES),
        judgments=judgments,
        cards=shown_cards(ctx, manifest),
        skills=_rows(ctx, manifest, "skills", SKILLS),
        rewrites=_rows(ctx, manifest, "rewrites", REWRITES),
        outcomes=_outcomes(ctx),
        propensity=propensity_part(curves, _curve_files(ctx)) if curves.height else [],
        evidence=_evidence(ctx, manifest),
        audit=_document(ctx, f"{ctx.folder}/cards/audit.json"),
        launch=launch_parameters(ctx),
        steps=manifest["steps"],
        previous=previous,
        previous_labels=labels,
        checks={n: _document(ctx, f"{ctx.folder}/impressions/{n}.json") for n in ("expectations", "figures")},
        skill_files={c: _document(ctx, f"{ctx.folder}/skills/{c}.json") or {} for c in _skill_corpora(ctx)},
    )


def run_head(ctx: Context, manifest: dict[str, Any], judgments: pl.DataFrame) -> dict[str, Any]:
    """The head of report.json from the manifest; `judge` is offline-baseline only if every label came from it."""
    models = sorted(set(judgments["model"].unique().to_list()) - {"none"})
    named = {k: manifest.get(k) for k in ("run", "launch_id", "as_of", "cut", "windows", "config_sha256", "versions")}
    return {
        **RUN_HEAD,
        **named,
        "judge": judge_name(models, ctx.settings.judging.judge),
        "model": ", ".join(models) or None,
        "models": models,
        "simulated": bool(manifest.get("simulated")),
        "tables": {k: v for k, v in manifest["tables"].items() if k not in OWN_TABLES},
        "created_at": manifest.get("created_at"),
    }


def judge_name(models: list[str], declared: str) -> str | None:
    """offline-baseline only if every label came from it; otherwise the declared judge, or that models answered."""
    if not models:
        return None
    if models == [OFFLINE]:
        return OFFLINE
    if OFFLINE in models:
        return "mixed: offline-baseline and models"
    return declared if declared != OFFLINE else "openai"


def _rows(ctx: Context, manifest: dict[str, Any], table: str, spec: Any) -> pl.DataFrame:
    version = manifest["tables"].get(table)
    if version is None:
        return pl.DataFrame(schema=spec.polars()) if spec else pl.DataFrame()
    return ctx.store.read(table, version=version, where={"run": ctx.run.key})


def shown_cards(ctx: Context, manifest: dict[str, Any]) -> pl.DataFrame:
    """Card rows that some card holds, and those dropped as near-duplicate or exact match (not the tail beyond k)."""
    version = manifest["tables"].get("cards")
    if version is None:
        return pl.DataFrame(schema=CARDS.polars())
    files = ctx.store.files("cards", version=version, where={"run": ctx.run.key})
    kept = pl.col("row").is_not_null() | pl.col("row_unfiltered").is_not_null()
    named = pl.col("dropped").is_in(["near_duplicate", "exact_match"])
    return scan_files(CARDS, files).filter(kept | named).collect()


def dropped_counts(ctx: Context) -> dict[str, dict[str, int]]:
    """Page id -> how many card rows were left out by reason, for the explorer."""
    version = ctx.manifest()["tables"].get("cards")
    if version is None:
        return {}
    files = ctx.store.files("cards", version=version, where={"run": ctx.run.key})
    rows = scan_files(CARDS, files, columns=["page_id", "dropped"]).filter(pl.col("dropped").is_not_null())
    found: dict[str, dict[str, int]] = {}
    for page, reason, n in rows.group_by("page_id", "dropped").len().sort("page_id", "dropped").collect().iter_rows():
        found.setdefault(page, {})[reason] = n
    return found


def _evidence(ctx: Context, manifest: dict[str, Any]) -> dict[str, Any] | None:
    version = manifest["tables"].get("evidence")
    if version is None:
        return None
    files = ctx.store.files("evidence", version=version, where={"run": ctx.run.key})
    columns = ["corpus", "item_key", "query_key"]
    counted = scan_files(EVIDENCE, files, columns=columns).select(
        rows=pl.len(), items=pl.struct("corpus", "item_key").n_unique(), queries=pl.col("query_key").n_unique()
    )
    counts = counted.collect().row(0, named=True)
    return {**counts, "min_users": ctx.settings.evidence.min_users}


def _document(ctx: Context, path: str) -> Any:
    return ctx.store.read_json(path) if ctx.store.exists(path) else None


def _skill_corpora(ctx: Context) -> list[str]:
    return [c for c in ctx.corpora if ctx.store.exists(f"{ctx.folder}/skills/{c}.json")]


def launch_parameters(ctx: Context) -> dict[str, Any] | None:
    """launch.json of the run's launch with its frozen `forecast`, if there is one; None for a night."""
    if ctx.run.launch_id is None:
        return None
    folder = f"launches/{ctx.run.launch_id}"
    return {**ctx.store.read_json(f"{folder}/launch.json"), "forecast": _document(ctx, f"{folder}/forecast.json")}


def _outcomes(ctx: Context) -> pl.DataFrame | None:
    path = f"launches/{ctx.run.launch_id}/outcomes.jsonl"
    if ctx.run.launch_id is None or not ctx.store.exists(path):
        return None
    lines = enumerate(ctx.store.documents.read_bytes(path).split(b"\n"), 1)
    places = ((f"{path} line {number}", line) for number, line in lines if line.strip())
    return outcome_frame(((where, json_object(line, where)) for where, line in places), path)


def _curve_files(ctx: Context) -> list[dict[str, Any]]:
    folder = f"{ctx.folder}/propensity"
    names = [n for n in ctx.store.documents.list(folder) if n.endswith(".json")]
    found = [_document(ctx, f"{folder}/{name}") for name in names]
    return [curve for one in found for curve in (one if isinstance(one, list) else [one])]


def previous_report(ctx: Context) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """report.json and page labels of the latest night before this one; (None, None) for launches and first nights."""
    if ctx.run.launch_id is not None:
        return None, None
    nights = [n for n in ctx.store.documents.list("reports") if n.startswith("night-") and n < ctx.run.key]
    for night in sorted(nights, reverse=True):
        report = _document(ctx, f"reports/{night}/report.json")
        if report:
            return report, page_labels(read_explorer(ctx.store.documents, f"reports/{night}"))
    return None, None


def shuffled_labels(ctx: Context, data: ReportData) -> dict[str, float | None] | None:
    """The main variant's label of every page with a truth under shuffled cards; None unless the judge is offline.

    An LLM is not asked again for a control: that would double the bill of a night.
    """
    if data.run["judge"] != OFFLINE or not data.cards.height or MAIN not in data.judgments["variant"]:
        return None
    from jobs.core.embedding import embedder_for
    from jobs.judging.baseline import judge
    from jobs.reports.controls import shuffled_cards

    known = pl.col("truth").is_not_null() | pl.col("human_label").is_not_null()
    pages = data.pages.filter(known & (pl.col("set") != "launch"))
    cards = shuffled_cards(pages, data.cards, seed=ctx.settings.report.seed)
    fields = tuple(ctx.settings.judging.item_fields)
    rows = judge(pages.to_dicts(), cards, MAIN, embedder_for(ctx.settings), item_fields=fields)
    return {r["page_id"]: r["label"] for r in rows}
