"""From a question to the outcome that is kept: calls, a second try for cut-off replies, shorter prompts, the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jobs.judging.cost import FREE, Budget, Price
from jobs.judging.endpoint import Endpoint
from jobs.judging.failures import PromptTooLong, Unanswered
from jobs.judging.labels import LabelStore, Outcome
from jobs.judging.questions import Question
from jobs.judging.replies import read_reply

MORE_OUTPUT = 4  # a reply that was cut off is asked once more with this many times the output budget


class Answerer:
    """Gets outcomes from one endpoint. `asked` counts questions, not calls; `prices` are by model."""

    def __init__(self, *, endpoint: Endpoint, store: LabelStore, budget: Budget, prices: Mapping[str, Price | None]):
        self.asked = 0
        self._endpoint, self._store, self._budget, self._prices = endpoint, store, budget, prices

    async def outcome(self, question: Question, *, unsure: bool) -> Outcome:
        """The outcome of one question, always a label or a reason.

        unsure: an earlier process may have sent the same question without keeping its answer. Raises EndpointRefused
        where the endpoint turns every call away.
        """
        settings = question.asker.settings
        price = self._prices.get(settings.model) or FREE
        tokens = question.asker.tokens(question)
        reserved = price.usd(tokens_in=tokens, tokens_out=settings.max_output_tokens)
        if not self._budget.take(reserved):
            return Outcome(reason="budget")
        self.asked += 1
        got = Outcome(reason="endpoint")
        try:
            got = await self._shortened(question, tokens)
        finally:
            self._budget.settle(reserved, price.usd(tokens_in=got.tokens_in, tokens_out=got.tokens_out))
        twice = got.possibly_billed_twice or unsure
        payer = self._store.payer(page_id=question.page.page_id, variant=question.variant)
        return replace(got, possibly_billed_twice=twice, paid_by=payer)

    async def _shortened(self, question: Question, tokens: int) -> Outcome:
        """Ask with ever fewer evidence rows while the prompt is too long; never without the rubric."""
        now: Question | None = question
        cut = question.cut
        while now is not None:
            cut = now.cut
            try:
                return await self._answered(now, tokens)
            except PromptTooLong:
                now = now.asker.shorter(now)
        return Outcome(reason="too_long", evidence_cut=cut)

    async def _answered(self, question: Question, tokens: int) -> Outcome:
        try:
            first = await self._call(question, tokens, more_output=1)
        except Unanswered as error:
            return Outcome(reason=error.reason, evidence_cut=question.cut, possibly_billed_twice=error.lost > 0)
        if first.reason != "cut_off":
            return first
        try:
            second = await self._call(question, tokens, more_output=MORE_OUTPUT)
        except (Unanswered, PromptTooLong):
            return first
        return replace(
            second,
            tokens_in=first.tokens_in + second.tokens_in,
            tokens_out=first.tokens_out + second.tokens_out,
            possibly_billed_twice=True,
        )

    async def _call(self, question: Question, tokens: int, *, more_output: int) -> Outcome:
        key = question.key
        answer = await self._endpoint.ask(
            question.asker.body(question, more_output=more_output),
            tokens=tokens + question.asker.settings.max_output_tokens,  # as providers count towards their limits
            sending=lambda: self._store.sending(key),
            unbilled=lambda: self._store.unbilled(key),
        )
        got = outcome_of(answer.body, rows=len(question.rows), items=question.item_count, cut=question.cut)
        return replace(got, latency_ms=answer.latency_ms, possibly_billed_twice=answer.lost > 0)


def outcome_of(body: Mapping[str, Any], *, rows: int, items: int | None, cut: int) -> Outcome:
    """The outcome that a completion's body holds, for a question with so many evidence rows (`cut` were left out).

    items: number of results for an item judge, None for a page judge.
    """
    verdict = read_reply(body, rows=rows, items=items)
    usage = body.get("usage") if isinstance(body.get("usage"), Mapping) else {}
    return Outcome(
        label=verdict.label,
        reason=verdict.reason,
        expected_label=verdict.expected_label,
        rationale=verdict.rationale,
        cited=verdict.cited,
        cited_invented=verdict.cited_invented,
        evidence_cut=cut,
        tokens_in=_count(usage.get("prompt_tokens")),
        tokens_out=_count(usage.get("completion_tokens")),
        served_by=str(body.get("system_fingerprint") or body.get("model") or "")[:200],
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
