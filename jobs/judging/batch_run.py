"""Judging through the Batch API: hand over what is missing, wait, and take every row from the label store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import openai

from jobs.core.settings import Judging
from jobs.judging.batch import ENDED, Batches
from jobs.judging.cost import FREE, Budget
from jobs.judging.endpoint import Endpoint
from jobs.judging.labels import LabelStore, Outcome
from jobs.judging.planning import TYPICAL_OUTPUT, Plan, missing_questions
from jobs.judging.questions import Asker, Question
from jobs.judging.runner import Work
from jobs.judging.sitting import Sitting


class InStore:
    """In the place of an answerer: whatever the label store lacks after all batches were collected was not answered.

    Questions that the budget left out say so.
    """

    def __init__(self, budget: Budget):
        self.asked = 0
        self._budget = budget

    async def outcome(self, question: Question, *, unsure: bool) -> Outcome:
        """A reason, since there is no label."""
        return Outcome(reason="budget" if self._budget.refused else "deadline")


def batches_of(client: openai.AsyncOpenAI, store: LabelStore, sitting: Sitting) -> Batches:
    """The batches of the sitting's endpoint, with their request files beside the label store."""
    return Batches(
        client, store, base_url=sitting.judging.base_url, folder=request_folder(sitting.labels), say=sitting.say
    )


def request_folder(labels: Path) -> Path:
    """Where request files lie until their replies are kept."""
    return labels.with_name(f"{labels.stem}.batches")


async def hand_over(
    batches: Batches,
    sitting: Sitting,
    askers: Sequence[Asker],
    works: Callable[[], Iterable[Work]],
    store: LabelStore,
    budget: Budget,
) -> int:
    """Collect what has ended, then submit what is missing and not under way, within the budget; returns how many."""
    await batches.collect()
    plan, prices = Plan(), sitting.prices()

    def affordable() -> Iterator[Question]:
        for question in missing_questions(plan, sitting, askers, works(), store):
            price = prices[question.asker.settings.model] or FREE
            cost = price.usd(tokens_in=question.asker.tokens(question), tokens_out=TYPICAL_OUTPUT)
            if not batches.waiting([question.key]) and budget.take(cost):
                yield question

    handed = await batches.submit(affordable())
    sitting.say(f"{handed} questions handed over, {plan.cached_calls} known")
    return handed


def batch_states(judging: Judging, labels: Path, *, say: Callable[[str], None]) -> dict[str, Any]:
    """Batches under way of one label store, for whoever waits for them: ids by status, and whether all have ended."""

    async def ask() -> dict[str, str]:
        with LabelStore(labels, run="status") as store:
            settings = Sitting(judging=judging, labels=labels, run="status", variants=(), budget_usd=None, say=say)
            async with Endpoint(settings.endpoint_settings(), say=say) as endpoint:
                return await batches_of(endpoint.client, store, settings).states()

    found = asyncio.run(ask())
    under_way = sum(state not in ENDED for state in found.values())
    return {"batches": found, "under_way": under_way, "done": under_way == 0}
