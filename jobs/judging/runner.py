"""Asks what is missing and hands out one row per page and variant, in whatever order answers come.

Memory stays flat: pages are read as slots become free, and a page's rows leave as soon as its last answer is there.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from jobs.core.errors import HindcastError
from jobs.judging.answering import Answerer
from jobs.judging.cost import FREE, Price
from jobs.judging.ensemble import combined
from jobs.judging.inputs import CardRow, Page, qri_count
from jobs.judging.labels import LabelStore, Outcome
from jobs.judging.questions import Asker, Question, row_questions
from jobs.judging.rows import judgment

CHUNK = 32  # pages rendered and looked up at once: some milliseconds, so that answers are not kept waiting

Work = tuple[int, Page, Sequence[CardRow]]
Sink = Callable[[int, dict[str, Any]], None]


@dataclass(kw_only=True)
class Tally:
    """What a run did: rows by kind, questions put to the endpoint, and the bill of all rows that this run pays."""

    rows: int = 0
    labels: int = 0
    asked: int = 0
    cached: int = 0
    reused: int = 0
    possibly_billed_twice: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    unscored: Counter[str] = field(default_factory=Counter)

    def add(self, row: dict[str, Any]) -> None:
        """Count one judgment."""
        self.rows += 1
        self.labels += row["label"] is not None
        self.cached += row["cached"]
        self.reused += row["reused_from_plain"]
        self.possibly_billed_twice += row["possibly_billed_twice"]
        if row["reason"]:
            self.unscored[row["reason"]] += 1


@dataclass(kw_only=True, slots=True)
class _Row:
    """A row to come: its variant, and the keys of the questions (one per asker) that decide it."""

    variant: str
    keys: list[bytes]
    shown: int
    reused: bool


@dataclass(kw_only=True, slots=True)
class _Page:
    """A page on its way: its rows, its open questions, and the outcomes that are there."""

    place: int
    page: Page
    qri_count: int
    rows: list[_Row]
    open: set[bytes]
    outcomes: dict[bytes, Outcome] = field(default_factory=dict)


class Judge:
    """Judges pages with one asker, or an ensemble of several. retry_unscored: ask again where a reason is stored."""

    def __init__(
        self,
        *,
        answerer: Answerer,
        askers: Sequence[Asker],
        store: LabelStore,
        variants: Sequence[str],
        prices: Mapping[str, Price | None],
        retry_unscored: bool = False,
    ):
        self.tally = Tally()
        self._prices = prices
        self._answerer, self._askers, self._store = answerer, tuple(askers), store
        self._variants, self._retry_unscored = tuple(variants), retry_unscored
        self._ready: deque[Question] = deque()
        self._waiting: dict[bytes, list[_Page]] = {}
        self._unsure: set[bytes] = set()

    async def run(self, works: Iterable[Work], sink: Sink, *, slots: int) -> Tally:
        """Judge all `works` (place, page, card rows) with at most `slots` questions at once.

        Each row goes to `sink` with its page's place. Every page ends as label or reason in each variant. Raises
        EndpointRefused; what was answered before that is kept.
        """
        feed, turn = iter(works), asyncio.Lock()

        async def work() -> None:
            while (question := await self._next(feed, turn, sink)) is not None:
                outcome = await self._answerer.outcome(question, unsure=question.key in self._unsure)
                self._settle(question.key, outcome, sink)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(slots):
                    group.create_task(work())
        except* HindcastError as failed:
            raise failed.exceptions[0] from None
        self.tally.asked = self._answerer.asked
        return self.tally

    async def _next(self, feed: Iterator[Work], turn: asyncio.Lock, sink: Sink) -> Question | None:
        async with turn:
            while not self._ready:
                works = list(islice(feed, CHUNK))
                if not works:
                    return None
                self._open(works, sink)
                await asyncio.sleep(0)
            return self._ready.popleft()

    def _open(self, works: list[Work], sink: Sink) -> None:
        """Render the pages, take what the store knows, queue the rest."""
        questions: dict[bytes, Question] = {}
        pages = [self._page(work, questions) for work in works]
        known, unsure = self._store.find(questions)
        if self._retry_unscored:
            known = {key: outcome for key, outcome in known.items() if outcome.reason is None}
        self._unsure |= unsure
        for page in pages:
            page.outcomes.update((key, known[key]) for key in page.open if key in known)
            page.open -= known.keys()
            for key in page.open:
                self._wait(key, page, questions[key])
            if not page.open:
                self._finish(page, sink)

    def _wait(self, key: bytes, page: _Page, question: Question) -> None:
        """Pages that ask the very same question wait for one answer."""
        if key not in self._waiting:
            self._ready.append(question)
        self._waiting.setdefault(key, []).append(page)

    def _page(self, work: Work, questions: dict[bytes, Question]) -> _Page:
        place, page, rows = work
        found = [self._row(page, rows, variant, questions) for variant in self._variants]
        keys = {key for row in found for key in row.keys}
        return _Page(place=place, page=page, qri_count=qri_count(rows), rows=found, open=keys)

    def _row(self, page: Page, rows: Sequence[CardRow], variant: str, questions: dict[bytes, Question]) -> _Row:
        row = row_questions(page, rows, variant=variant, askers=self._askers)
        for question in row.questions:  # the first row that asks is the one that pays
            questions.setdefault(question.key, question)
        return _Row(variant=variant, keys=[q.key for q in row.questions], shown=row.shown, reused=row.reused)

    def _settle(self, key: bytes, outcome: Outcome, sink: Sink) -> None:
        self._store.keep(key, outcome)
        self._unsure.discard(key)
        for page in self._waiting.pop(key):
            page.outcomes[key] = outcome
            page.open.discard(key)
            if not page.open:
                self._finish(page, sink)

    def _finish(self, page: _Page, sink: Sink) -> None:
        for row in page.rows:
            members = [self._judgment(page, row, n) for n in range(len(self._askers))]
            judged = combined(members)
            self.tally.add(judged)
            sink(page.place, judged)

    def _judgment(self, page: _Page, row: _Row, member: int) -> dict[str, Any]:
        key, settings = row.keys[member], self._askers[member].settings
        outcome = page.outcomes[key]
        asked_as = "plain" if row.reused else row.variant
        mine = outcome.paid_by in ("", self._store.payer(page_id=page.page.page_id, variant=asked_as))
        free = row.reused and "plain" in self._variants  # plain's own row has the bill
        if mine and not free:
            self._bill(settings.model, outcome)
        return judgment(
            page.page,
            variant=row.variant,
            model=settings.model,
            sample=settings.sample,
            qri_count=page.qri_count,
            label=outcome.label,
            expected_label=outcome.expected_label,
            reason=outcome.reason,
            rationale=outcome.rationale,
            cited=outcome.cited,
            cited_invented=outcome.cited_invented,
            evidence_rows=max(0, row.shown - outcome.evidence_cut),
            evidence_cut=outcome.evidence_cut,
            prompt_sha256=key.hex(),
            tokens_in=0 if free else outcome.tokens_in,
            tokens_out=0 if free else outcome.tokens_out,
            latency_ms=None if free else outcome.latency_ms,
            cached=not mine and not free,
            reused_from_plain=row.reused,
            possibly_billed_twice=outcome.possibly_billed_twice and not free,
        )

    def _bill(self, model: str, outcome: Outcome) -> None:
        price = self._prices.get(model) or FREE
        self.tally.tokens_in += outcome.tokens_in
        self.tally.tokens_out += outcome.tokens_out
        self.tally.cost_usd += price.usd(tokens_in=outcome.tokens_in, tokens_out=outcome.tokens_out)
