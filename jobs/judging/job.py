"""`hindcast judging`: grade pages, plain and grounded, with files or on a run of the store."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from jobs.core import cli
from jobs.core.context import Context
from jobs.core.errors import SettingsError, UsageError
from jobs.core.progress import Progress
from jobs.core.settings import Judging, load_settings, mismatches
from jobs.judging.batch_run import batch_states
from jobs.judging.file_mode import FileJob, plan_files, run_files, submit_files
from jobs.judging.planning import plan_text
from jobs.judging.shard_task import labels_file
from jobs.judging.shards import commit, judge_run, plan, run_shard, submit_shard
from jobs.judging.sitting import with_paths
from schemas.judgments import VARIANTS

app = typer.Typer(help="Grade pages, plain and grounded.", no_args_is_help=True)

PagesOption = Annotated[str, typer.Option("--pages", help="Pages to judge (pages.jsonl), instead of a run.")]
CardsOption = Annotated[str, typer.Option("--cards", help="Their evidence (cards.jsonl).")]
OutOption = Annotated[str, typer.Option("--out", help="Where the judgments go (judgments.jsonl).")]
LabelsOption = Annotated[str, typer.Option("--labels", help="Label store of file mode; beside --out if empty.")]
VariantsOption = Annotated[str, typer.Option("--variants", help="Comma-separated: " + ", ".join(VARIANTS) + ".")]
JudgeOption = Annotated[str, typer.Option("--judge", help="offline-baseline, openai or local.")]
UrlOption = Annotated[str, typer.Option("--base-url", help="OpenAI-compatible endpoint; implies --judge openai.")]
ModelOption = Annotated[str, typer.Option("--model", help="Model, or several with commas; implies --judge openai.")]
ModelPathOption = Annotated[str, typer.Option("--model-path", help="GGUF file of --judge local.")]
KindOption = Annotated[str, typer.Option("--kind", help="page: one grade a page; item: one a result.")]
PromptsOption = Annotated[str, typer.Option("--prompts", help="Folder with your own rubric and templates.")]
FieldsOption = Annotated[str, typer.Option("--item-fields", help="Comma-separated metadata shown to the judge.")]
ItemsOption = Annotated[
    str, typer.Option("--items", help="Catalogue (items.jsonl) with the titles that --pages lacks.")
]
PricesOption = Annotated[str, typer.Option("--prices", help="Price table (TOML) that knows the model.")]
BudgetOption = Annotated[str, typer.Option("--budget-usd", help="Stop before this is spent; off: no limit.")]
MaxPagesOption = Annotated[int, typer.Option("--max-pages", help="Judge at most so many pages; -1: the setting.")]
SamplesOption = Annotated[int, typer.Option("--samples", help="Samples of each model; 0: the setting.")]
SlotsOption = Annotated[int, typer.Option("--slots", help="Calls at once; 0: the setting.")]
RetryOption = Annotated[str, typer.Option("--retry", help="unscored: ask again where a reason is stored.")]
BatchOption = Annotated[bool, typer.Option("--batch", help="Use the endpoint's Batch API.")]
SubmitOption = Annotated[bool, typer.Option("--submit-only", help="Hand a batch over and do not wait for it.")]
ShardOption = Annotated[int, typer.Option("--shard", help="One shard of the plan; -1: all, then commit.")]
BackfillOption = Annotated[bool, typer.Option("--backfill", help="A past night: judged only if the settings say so.")]


@cli.command(
    app,
    "run",
    example="hindcast judging run --pages pages.jsonl --cards cards.jsonl --variants plain,qri"
    " --base-url http://127.0.0.1:8000/v1 --model NAME --out judgments.jsonl",
)
def run_command(
    pages: PagesOption = "",
    cards: CardsOption = "",
    items: ItemsOption = "",
    out: OutOption = "judgments.jsonl",
    labels: LabelsOption = "",
    variants: VariantsOption = "",
    judge: JudgeOption = "",
    base_url: UrlOption = "",
    model: ModelOption = "",
    model_path: ModelPathOption = "",
    kind: KindOption = "",
    prompts: PromptsOption = "",
    item_fields: FieldsOption = "",
    budget_usd: BudgetOption = "",
    prices: PricesOption = "",
    max_pages: MaxPagesOption = -1,
    samples: SamplesOption = 0,
    slots: SlotsOption = 0,
    retry: RetryOption = "",
    batch: BatchOption = False,
    submit_only: SubmitOption = False,
    shard: ShardOption = -1,
    config: cli.ConfigOption = "",
    day: cli.DayOption = "",
    launch: cli.LaunchOption = "",
    run: cli.RunOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Judge a file of pages, or one shard (or all shards) of a run; what was answered before is not asked again."""
    over = overrides(
        variants=variants, judge=judge, base_url=base_url, model=model, model_path=model_path, kind=kind,
        prompts=prompts, item_fields=item_fields, budget_usd=budget_usd, max_pages=max_pages, samples=samples,
        slots=slots, batch=batch, prices=prices,
    )  # fmt: skip
    if pages:
        job = file_job(over, config=config, pages=pages, cards=cards, out=out, labels=labels, items=items, retry=retry)
        cli.finish((submit_files if submit_only else run_files)(job, Progress(sys.stderr)), as_json=json_)
        return
    _refuse_items(items)
    with cli.context(config=config, day=day, launch=launch, run=run) as ctx:
        if shard >= 0:
            _refuse_overrides(over)
            shard_job = submit_shard if submit_only else run_shard
            cli.finish(shard_job(ctx, shard, retry_unscored=_retries(retry)), as_json=json_)
        else:
            cli.finish(judge_run(_with(ctx, over), retry_unscored=_retries(retry)), as_json=json_)


@cli.command(app, "plan", example="hindcast judging plan --config hindcast.toml --day 2026-11-20 --json")
def plan_command(
    pages: PagesOption = "",
    cards: CardsOption = "",
    items: ItemsOption = "",
    labels: LabelsOption = "",
    out: OutOption = "judgments.jsonl",
    variants: VariantsOption = "",
    judge: JudgeOption = "",
    base_url: UrlOption = "",
    model: ModelOption = "",
    model_path: ModelPathOption = "",
    kind: KindOption = "",
    prompts: PromptsOption = "",
    item_fields: FieldsOption = "",
    budget_usd: BudgetOption = "",
    prices: PricesOption = "",
    max_pages: MaxPagesOption = -1,
    samples: SamplesOption = 0,
    retry: RetryOption = "",
    batch: BatchOption = False,
    backfill: BackfillOption = False,
    config: cli.ConfigOption = "",
    day: cli.DayOption = "",
    launch: cli.LaunchOption = "",
    run: cli.RunOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Say what judging would ask, cost and take, without asking; of a run also fix its shards."""
    over = overrides(
        variants=variants, judge=judge, base_url=base_url, model=model, model_path=model_path, kind=kind,
        prompts=prompts, item_fields=item_fields, budget_usd=budget_usd, max_pages=max_pages, samples=samples, slots=0,
        batch=batch, prices=prices,
    )  # fmt: skip
    if pages:
        job = file_job(over, config=config, pages=pages, cards=cards, out=out, labels=labels, items=items, retry=retry)
        found = plan_files(job, Progress(sys.stderr))
        cli.finish(found, as_json=json_, text=plan_text(found))
        return
    _refuse_items(items)
    with cli.context(config=config, day=day, launch=launch, run=run, backfill=backfill) as ctx:
        found = plan(_with(ctx, over))
        cli.finish(found, as_json=json_, text=plan_text(found))


@cli.command(app, "commit", example="hindcast judging commit --config hindcast.toml --day 2026-11-20")
def commit_command(
    config: cli.ConfigOption = "",
    day: cli.DayOption = "",
    launch: cli.LaunchOption = "",
    run: cli.RunOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Put the rows of all shards into the judgments table, in one go."""
    with cli.context(config=config, day=day, launch=launch, run=run) as ctx:
        cli.finish(commit(ctx), as_json=json_)


@cli.command(app, "batch-status", example="hindcast judging batch-status --config hindcast.toml --json")
def batch_status_command(
    labels: LabelsOption = "",
    base_url: UrlOption = "",
    config: cli.ConfigOption = "",
    json_: cli.JsonOption = False,
) -> None:
    """Which batches are under way, for whoever waits for them; also finds batches again after a crash."""
    settings = load_settings(config or None, judging={"base_url": base_url} if base_url else {})
    if not (labels or config):
        raise UsageError("whose batches? name the settings with --config, or a label store with --labels")
    file = Path(labels) if labels else labels_file(settings)
    cli.finish(batch_states(settings.judging, file, say=Progress(sys.stderr).say), as_json=json_)


TASKS = {"plan": plan, "run": run_shard, "commit": commit}


def file_job(
    over: dict[str, Any], *, config: str, pages: str, cards: str, out: str, labels: str, retry: str, items: str = ""
) -> FileJob:
    """What the options of file mode mean; the label store stands beside the output unless named."""
    settings = load_settings(config or None, judging=over)
    target = Path(out)
    return FileJob(
        settings=settings.model_copy(update={"judging": with_paths(settings)}),
        pages=Path(pages),
        cards=Path(cards) if cards else None,
        items=Path(items) if items else None,
        out=target,
        labels=Path(labels) if labels else target.with_name(f"{target.stem}.labels.sqlite3"),
        retry_unscored=_retries(retry),
    )


def overrides(
    *,
    variants: str,
    judge: str,
    base_url: str,
    model: str,
    model_path: str,
    kind: str,
    prompts: str,
    item_fields: str,
    budget_usd: str,
    max_pages: int,
    samples: int,
    slots: int,
    batch: bool,
    prices: str = "",
) -> dict[str, Any]:
    """The [judging] settings that options replace; --base-url and --model imply the openai judge."""
    implied = judge or ("local" if model_path else "openai" if base_url or model else "")
    found = {
        "judge": implied,
        "base_url": base_url,
        "model": model,
        "model_path": _absolute(model_path),
        "kind": kind,
        "prompts": _absolute(prompts),
        "variants": cli.parse_names(variants),
        "item_fields": cli.parse_names(item_fields),
        "samples": samples,
        "slots": slots,
        "batch": batch,
        "prices": _absolute(prices),
        "budget_usd": budget_usd.strip(),
    }
    chosen = {name: value for name, value in found.items() if value}
    return chosen | ({"max_pages": max_pages} if max_pages >= 0 else {})


def _absolute(path: str) -> str:
    """Options are relative to where the command is called, settings to their file."""
    return str(Path(path).absolute()) if path else ""


def _refuse_items(items: str) -> None:
    if items:
        raise UsageError(f"--items {items} is for --pages: pages of a run take their titles from the store's catalogue")


def _retries(retry: str) -> bool:
    if retry not in ("", "unscored"):
        raise UsageError(f"--retry {retry!r} is unknown: only 'unscored' can be asked again")
    return retry == "unscored"


def _with(ctx: Context, over: dict[str, Any]) -> Context:
    """The context with command-line options laid over its [judging] settings, checked like the file.

    Variants that are named are those that are judged, whatever the weekday.
    """
    over = over | ({"ablation_weekday": ""} if "variants" in over else {})
    try:
        judging = Judging.model_validate({**ctx.settings.judging.model_dump(), **over})
    except ValidationError as error:
        raise SettingsError(f"options: {mismatches(error, table='judging')}") from None
    return replace(ctx, settings=ctx.settings.model_copy(update={"judging": judging}))


def _refuse_overrides(over: dict[str, Any]) -> None:
    if over:
        raise UsageError(f"a shard is judged as planned: give {', '.join(over)} to `hindcast judging plan`")
