"""Judging a run of the store: plan, shards that stage their rows and never wait on each other, one commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from jobs.core.context import Context
from jobs.core.errors import NotThereError, UsageError
from jobs.core.settings import Judging
from jobs.judging import baseline
from jobs.judging.evidence_use import evidence_use
from jobs.judging.inputs import Page
from jobs.judging.labels import LabelStore
from jobs.judging.planning import Plan, plan_works, seconds_for
from jobs.judging.prompts import check_fields
from jobs.judging.shard_task import ShardTask, labels_file
from jobs.judging.sitting import Sitting, with_paths
from jobs.judging.store_pages import (
    Cards,
    chosen_pages,
    run_cards,
    run_pages,
    stage_rows,
    staged_rows,
    table_row,
)
from jobs.judging.tonight import BASELINE_SHARD_PAGES, Shard, cut, main_variant, variants_of
from jobs.judging.trust import planned_calls
from jobs.judging.views import needs_plain, shown_rows
from schemas.judgments import GROUNDED


def plan(ctx: Context) -> dict[str, Any]:
    """Fix the run's shards and say what they will ask, cost and take; nothing is sent."""
    judging, variants = with_paths(ctx.settings), variants_of(ctx)
    pages = chosen_pages(ctx, most=judging.max_pages) if variants else []
    check_fields(judging.item_fields, pages)
    asked = tuple(variant for variant in variants if variant != "evidence_only")
    counts = Counter(page.corpus for page in pages)
    size = BASELINE_SHARD_PAGES if judging.judge == baseline.MODEL else judging.shard_pages
    shards = cut(counts, variants=asked, shard_pages=size, max_shards=judging.max_shards)
    estimate = _estimate(ctx, judging, pages, asked) | {"trust_calls": _trust_calls(judging, variants, shards)}
    ctx.store.documents.delete(f"{ctx.folder}/judging")
    body = {
        "judging": judging.model_dump(mode="json"),
        "variants": list(variants),
        "only": [page.page_id for page in pages] if judging.max_pages else None,
        "estimate": estimate,
        "shards": [shard.as_dict() for shard in shards],
    }
    ctx.store.write_json(f"{ctx.folder}/judging/plan.json", body)
    return {
        "judge": judging.judge,
        "pages": len(pages),
        "variants": list(variants),
        **estimate,
        "shards": [shard | {"batch": judging.batch and judging.judge == "openai"} for shard in body["shards"]],
    }


def run_shard(ctx: Context, index: int, *, retry_unscored: bool = False) -> dict[str, Any]:
    """Judge one shard of the plan and stage its rows; returns the shard's summary.

    Pages without evidence are not asked about under a grounded variant: the commit gives them plain's label.
    """
    task, reused = _task(ctx, index, retry_unscored=retry_unscored)
    rows, summary = task.judge()
    found = {
        "shard": index,
        "corpus": task.shard.corpus,
        "variant": task.shard.variant,
        "reused": len(reused),
    } | summary
    staged = stage_rows(ctx, [table_row(ctx, row) for row in rows])
    document = {"summary": found, "staged": staged, "reuse_plain": reused}
    ctx.store.write_json(f"{ctx.folder}/judging/shard-{index:04d}.json", document)
    return found


def submit_shard(ctx: Context, index: int, *, retry_unscored: bool = False) -> dict[str, Any]:
    """Hand one shard's questions to the Batch API and return; `run_shard` later collects the replies."""
    task, _ = _task(ctx, index, retry_unscored=retry_unscored)
    if not task.judging.batch:
        raise UsageError("--submit-only is for batches: set judging.batch, or give --batch to `hindcast judging plan`")
    return {"shard": index, **task.submit()}


def commit(ctx: Context) -> dict[str, Any]:
    """Put all shards' rows into the judgments table, with plain's labels for pages without evidence and evidence_only.

    Raises NotThereError naming the shards that have not run. A backfill that is not judged commits nothing.
    """
    body = _plan(ctx)
    if not body["variants"]:
        return ctx.record("judging", {"judged": False, "why": "a backfill is not judged (judging.judge_on_backfill)"})
    done = _documents(ctx, body)
    staged = [file for one in done for file in one["staged"]]
    rows = _reused_rows(ctx, done, staged)
    if "evidence_only" in body["variants"]:
        pages = run_pages(ctx, only=body["only"])
        rows += [table_row(ctx, r) for r in baseline.judge(pages, run_cards(ctx, pages), "evidence_only", None)]
    staged += stage_rows(ctx, rows)
    old = [file.partition for file in ctx.store.files("judgments", where={"run": ctx.run.key})]
    replaced = {tuple(sorted(p.items())): p for p in [*old, *(file["partition"] for file in staged)]}
    ctx.store.commit_files("judgments", staged, replaced=list(replaced.values()))
    summary = _summary(body, done, len(rows)) | {"trust": _trust(ctx, body, done, staged)}
    return ctx.record("judging", summary, tables=("judgments",))


def judge_run(ctx: Context, *, retry_unscored: bool = False) -> dict[str, Any]:
    """Plan, all shards and the commit, in one process."""
    for shard in plan(ctx)["shards"]:
        run_shard(ctx, shard["index"], retry_unscored=retry_unscored)
    return commit(ctx)


def _task(ctx: Context, index: int, *, retry_unscored: bool) -> tuple[ShardTask, list[str]]:
    """A shard's task, and the ids of its pages that take plain's label."""
    body = _plan(ctx)
    if not 0 <= index < len(body["shards"]):
        raise NotThereError(
            f"shard {index} is not in the plan of {ctx.run.key}, which has {len(body['shards'])} shards"
        )
    shard, judging = Shard(**body["shards"][index]), Judging.model_validate(body["judging"])
    pages = [page for page in run_pages(ctx, corpus=shard.corpus, only=body["only"]) if shard.holds(page.page_id)]
    cards = run_cards(ctx, pages)
    reused = {p.page_id for p in pages if needs_plain(shard.variant, _shown(p, cards, shard.variant))}
    task = ShardTask(
        ctx=ctx,
        judging=judging,
        shard=shard,
        pages=[page for page in pages if page.page_id not in reused],
        cards=cards,
        budget_usd=_share(judging.budget_usd, shard.pages, of=sum(s["pages"] for s in body["shards"])),
        retry_unscored=retry_unscored,
        checks_trust=_checks_trust(shard, body["variants"]),
    )
    return task, sorted(reused)


def _estimate(ctx: Context, judging: Judging, pages: Sequence[Page], variants: tuple[str, ...]) -> dict[str, Any]:
    if judging.judge == baseline.MODEL or not pages:
        return Plan(pages=len(pages), rows=len(pages) * len(variants)).summary(budget_usd=judging.budget_usd)
    if judging.judge == "local" and not judging.model:
        judging = judging.model_copy(update={"model": "local"})
    sitting = Sitting(
        judging=judging,
        labels=labels_file(ctx.settings),
        run=ctx.run.key,
        variants=variants,
        budget_usd=judging.budget_usd,
        say=ctx.progress.say,
    )
    sitting.check_budget()
    cards = run_cards(ctx, pages)
    with LabelStore(sitting.labels, run=sitting.run) as store:
        found = plan_works(sitting, ((n, page, cards.get(page.page_id, ())) for n, page in enumerate(pages)), store)
        return found.summary(seconds=seconds_for(found, sitting, store), budget_usd=judging.budget_usd)


def _share(budget_usd: float | None, pages: int, *, of: int) -> float | None:
    """A shard's part of the budget; None where there is no limit."""
    return None if budget_usd is None else budget_usd * pages / max(1, of)


def _trust_calls(judging: Judging, variants: Sequence[str], shards: Sequence[Shard]) -> int:
    if judging.judge == baseline.MODEL:
        return 0
    counts = {"repeat_pages": judging.repeat_pages, "anchor_pages": judging.anchor_pages}
    return sum(planned_calls(shard.pages, **counts) for shard in shards if _checks_trust(shard, variants))


def _checks_trust(shard: Shard, variants: Sequence[str]) -> bool:
    return shard.part == 0 and shard.variant == main_variant(variants)


def _shown(page: Page, cards: Cards, variant: str) -> tuple:
    return shown_rows(page, cards.get(page.page_id, ()), variant=variant)


def _plan(ctx: Context) -> dict[str, Any]:
    path = f"{ctx.folder}/judging/plan.json"
    if not ctx.store.exists(path):
        raise NotThereError(f"{ctx.run.key} has no plan for judging: run `hindcast judging plan` first")
    return ctx.store.read_json(path)


def _documents(ctx: Context, body: dict[str, Any]) -> list[dict[str, Any]]:
    paths = {shard["index"]: f"{ctx.folder}/judging/shard-{shard['index']:04d}.json" for shard in body["shards"]}
    missing = [str(index) for index, path in paths.items() if not ctx.store.exists(path)]
    if missing:
        some = ", ".join(missing[:10])
        raise NotThereError(
            f"{len(missing)} shards of {ctx.run.key} have not run ({some}): run `hindcast judging run --shard N`"
        )
    return [ctx.store.read_json(path) for path in paths.values()]


def _reused_rows(ctx: Context, done: list[dict[str, Any]], staged: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of pages without evidence under grounded variants: plain's label, nothing paid."""
    if not any(one["reuse_plain"] for one in done):
        return []
    plain = staged_rows(ctx, [file for file in staged if file["partition"]["variant"] == "plain"])
    by_page = {row["page_id"]: row for row in plain.iter_rows(named=True)}
    free = {
        "tokens_in": 0,
        "tokens_out": 0,
        "latency_ms": None,
        "cached": False,
        "possibly_billed_twice": False,
        "reused_from_plain": True,
    }
    return [
        {**by_page[page_id], **free, "variant": one["summary"]["variant"]}
        for one in done
        for page_id in one["reuse_plain"]
    ]


def _trust(
    ctx: Context, body: dict[str, Any], done: list[dict[str, Any]], staged: list[dict[str, Any]]
) -> dict[str, Any]:
    """Checks of trust by corpus, and per grounded variant how its labels use the evidence; alarms said aloud."""
    checks = {one["summary"]["corpus"]: one["summary"]["trust"] for one in done if "trust" in one["summary"]}
    for corpus, found in checks.items():
        if found["anchors"]["alarm"]:
            changed, n = found["anchors"]["changed"], found["anchors"]["n"]
            ctx.progress.say(
                f"ALARM: {changed} of {n} anchor pages of {corpus} changed: the endpoint is not what it was"
            )
    rows = staged_rows(ctx, staged)
    grounded = [variant for variant in body["variants"] if variant in GROUNDED]
    return {"checks": checks, "evidence_use": {v: evidence_use(rows, variant=v) for v in grounded}}


def _summary(body: dict[str, Any], done: list[dict[str, Any]], added: int) -> dict[str, Any]:
    parts = [one["summary"] for one in done]
    costs = [part["cost_usd"] for part in parts]
    unscored: Counter[str] = Counter()
    for part in parts:
        unscored.update(part.get("unscored", {}))
    total = {name: sum(part.get(name, 0) for part in parts) for name in _SUMMED}
    return {
        "judged": True,
        "judge": body["judging"]["judge"],
        "model": next((part["model"] for part in parts), body["judging"]["model"]),
        "variants": body["variants"],
        **total,
        "added_rows": added,
        "unscored": dict(sorted(unscored.items())),
        "cost_usd": None if None in costs else round(sum(costs), 6),
        "estimate": body["estimate"],
    }


_SUMMED = (
    "rows",
    "labels",
    "reused",
    "asked",
    "cached",
    "calls",
    "tokens_in",
    "tokens_out",
    "possibly_billed_twice",
    "budget_left_out",
)
