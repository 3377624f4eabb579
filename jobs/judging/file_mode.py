"""`judging run` and `judging plan` on files: any judge, pages and cards in, judgments out."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from jobs.core.errors import InputError, UsageError
from jobs.core.progress import Progress
from jobs.core.settings import Judging, Settings
from jobs.judging.files import CardFile, RowSpool, read_pages, works
from jobs.judging.inputs import Page
from jobs.judging.labels import LabelStore
from jobs.judging.local import serving
from jobs.judging.planning import Plan, plan_works, seconds_for
from jobs.judging.prompts import check_fields
from jobs.judging.runner import Sink, Tally, Work
from jobs.judging.sampling import at_most
from jobs.judging.session import judge_works, submit_works
from jobs.judging.sitting import Sitting, llm_variants
from jobs.judging.titles import Titles

CHUNK = 2_000  # pages that the baseline judges at once: full batches for the embedding model, flat memory

FIRST = 1_000  # pages in which a metadata field must occur to be believed


@dataclass(frozen=True, kw_only=True)
class FileJob:
    """Pages and cards to judge, and where the rows and the labels go."""

    settings: Settings
    pages: Path
    cards: Path | None
    out: Path
    labels: Path
    items: Path | None = None
    retry_unscored: bool = False

    @property
    def judging(self) -> Judging:
        """The judge's settings."""
        return self.settings.judging

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants, each once, in the order given."""
        return tuple(dict.fromkeys(self.judging.variants))

    @property
    def asked(self) -> tuple[str, ...]:
        """The variants that an endpoint is asked about; the others are computed here."""
        return () if self.judging.judge == "offline-baseline" else llm_variants(self.variants)

    def read(self) -> Iterator[Page]:
        """The pages to judge, as their file has them."""
        return at_most(lambda: read_pages(self.pages), most=self.judging.max_pages)

    def works(self, cards: CardFile, titles: Titles) -> Iterator[Work]:
        """The pages to judge, with their places, titles and cards."""
        return works(titles.pages(self.read()), cards)

    def sitting(self, judging: Judging, progress: Progress) -> Sitting:
        """The judge's sitting; every process pays for itself, so rows of an earlier one are `cached`."""
        return Sitting(
            judging=judging,
            labels=self.labels,
            run=f"files-{uuid.uuid4().hex}",
            variants=self.asked,
            budget_usd=judging.budget_usd,
            retry_unscored=self.retry_unscored,
            say=progress.say,
        )


def run_files(job: FileJob, progress: Progress) -> dict[str, Any]:
    """Judge the pages of a file; writes `job.out` in the order of pages and variants and returns the summary."""
    total, width = _some(job.pages) * len(job.variants), len(job.variants)
    columns = {variant: n for n, variant in enumerate(job.variants)}
    with CardFile(job.cards, top_k=job.settings.evidence.top_k) as cards, RowSpool(job.out) as spool:

        def sink(place: int, row: dict[str, Any]) -> None:
            spool.add(place * width + columns[row["variant"]], row)
            progress.tick("judged", spool.rows, total)

        titles = Titles(job.items, job.read)
        if job.judging.item_fields:
            check_fields(job.judging.item_fields, list(islice(titles.pages(read_pages(job.pages)), FIRST)))
        summary: dict[str, Any] = {"judge": job.judging.judge}
        if job.asked:
            with serving(job.judging, say=progress.say) as judging:
                sitting = job.sitting(judging, progress)
                sitting.check_budget()
                summary |= {"model": judging.model, **judge_works(sitting, lambda: job.works(cards, titles), sink)}
        computed = tuple(variant for variant in job.variants if variant not in job.asked)
        if computed:
            summary["computed_rows"] = _compute(job, computed, job.works(cards, titles), sink).rows
        _say(titles, progress)
        counts = {"items_without_title": titles.untitled.items}
        return {"out": str(job.out), "written": spool.finish(), **counts, **summary}


def submit_files(job: FileJob, progress: Progress) -> dict[str, Any]:
    """Hand the pages of a file to the Batch API and return; `run_files` later collects the replies."""
    if not job.judging.batch:
        raise UsageError("--submit-only is for batches: add --batch, or set judging.batch")
    sitting = job.sitting(job.judging, progress)
    sitting.check_budget()
    with CardFile(job.cards, top_k=job.settings.evidence.top_k) as cards:
        titles = Titles(job.items, job.read)
        done = submit_works(sitting, lambda: job.works(cards, titles))
    _say(titles, progress)
    return done


def plan_files(job: FileJob, progress: Progress) -> dict[str, Any]:
    """What `run_files` would ask, cost and take; sends nothing."""
    _some(job.pages)
    budget = job.judging.budget_usd
    with CardFile(job.cards, top_k=job.settings.evidence.top_k) as cards:
        titles = Titles(job.items, job.read)
        if job.asked:
            sitting = job.sitting(job.judging, progress)
            with LabelStore(job.labels, run=sitting.run) as store:
                plan = plan_works(sitting, job.works(cards, titles), store)
                found = plan.summary(seconds=seconds_for(plan, sitting, store), budget_usd=budget)
        else:
            pages = sum(1 for _ in job.works(cards, titles))
            found = Plan(pages=pages, rows=pages * len(job.variants)).summary(budget_usd=budget)
    _say(titles, progress)
    return found | {"items_without_title": titles.untitled.items}


def _say(titles: Titles, progress: Progress) -> None:
    if titles.sentence():
        progress.say(titles.sentence())


def _compute(job: FileJob, variants: Sequence[str], todo: Iterator[Work], sink: Sink) -> Tally:
    from jobs.core.embedding import Embedder
    from jobs.judging import baseline

    # The vectors stay in memory: without a store there is no folder that the user has named for them.
    needed = any(variant != "evidence_only" for variant in variants)
    embedder, tally = Embedder(job.settings.evidence.embedding_model) if needed else None, Tally()
    while some := list(islice(todo, CHUNK)):
        pages = [page for _, page, _ in some]
        rows = {page.page_id: card for _, page, card in some}
        for variant in variants:
            judged = baseline.judge(pages, rows, variant, embedder, item_fields=job.judging.item_fields)
            for (place, _, _), row in zip(some, judged, strict=True):
                tally.add(row)
                sink(place, row)
    return tally


def _some(path: Path) -> int:
    """Lines of a file of pages, as `_count`; InputError for a file without any."""
    lines = _count(path)
    if not lines and path.is_file():
        raise InputError(f"{path} holds no page: give at least one line with page_id, query and items")
    return lines


def _count(path: Path) -> int:
    """Lines that hold something, for progress only; the pages are checked when they are read."""
    if not path.is_file():
        return 0
    with path.open("rb") as file:
        return sum(bool(line.strip()) for line in file)
