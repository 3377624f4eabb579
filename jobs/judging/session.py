"""One sitting of an LLM judge: endpoint, dialect, label store and budget put together, used, and closed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from jobs.judging.answering import Answerer
from jobs.judging.batch_run import InStore, batches_of, hand_over
from jobs.judging.cost import Budget
from jobs.judging.dialect import dialect_of
from jobs.judging.endpoint import Endpoint
from jobs.judging.failures import Unanswered, Unsupported
from jobs.judging.labels import LabelStore
from jobs.judging.questions import Asker
from jobs.judging.runner import Judge, Sink, Tally, Work
from jobs.judging.sitting import Sitting

Works = Callable[[], Iterable[Work]]
"""Gives the pages to judge, anew at each call."""


def judge_works(sitting: Sitting, works: Works, sink: Sink) -> dict[str, Any]:
    """Judge all works through the endpoint; each row goes to `sink` as it is known. Returns the summary.

    With `judging.batch` the questions go through the Batch API, and this waits for it. Raises EndpointRefused where
    the endpoint turns every call away; answers that came before are kept and served to the next run.
    """
    with LabelStore(sitting.labels, run=sitting.run) as store:
        judge = _in_batches if sitting.judging.batch else _one_by_one
        return asyncio.run(judge(sitting, works, sink, store))


def submit_works(sitting: Sitting, works: Works) -> dict[str, Any]:
    """Hand what is missing to the Batch API and return: questions submitted now, and batches under way."""

    async def submit(store: LabelStore) -> dict[str, Any]:
        async with Endpoint(sitting.endpoint_settings(), say=sitting.say) as endpoint:
            batches = batches_of(endpoint.client, store, sitting)
            budget = Budget(limit_usd=sitting.budget_usd)
            askers = await _askers(endpoint, sitting, store)
            submitted = await hand_over(batches, sitting, askers, works, store, budget)
            return {"submitted": submitted, "under_way": await batches.collect()}

    with LabelStore(sitting.labels, run=sitting.run) as store:
        return asyncio.run(submit(store))


async def _one_by_one(sitting: Sitting, works: Works, sink: Sink, store: LabelStore) -> dict[str, Any]:
    begun, budget = time.monotonic(), Budget(limit_usd=sitting.budget_usd)
    async with Endpoint(sitting.endpoint_settings(), say=sitting.say) as endpoint:
        askers = await _askers_or_outage(endpoint, sitting, store)
        answerer = Answerer(endpoint=endpoint, store=store, budget=budget, prices=sitting.prices())
        judge = _judge(sitting, askers, store, answerer, retry_unscored=sitting.retry_unscored)
        tally = await judge.run(works(), sink, slots=sitting.judging.slots)
    if endpoint.calls:
        store.remember(sitting.pace_note(), f"{endpoint.calls / max(1e-3, time.monotonic() - begun):.3f}")
    return _summary(sitting, tally, endpoint, budget)


async def _in_batches(sitting: Sitting, works: Works, sink: Sink, store: LabelStore) -> dict[str, Any]:
    budget = Budget(limit_usd=sitting.budget_usd)
    async with Endpoint(sitting.endpoint_settings(), say=sitting.say) as endpoint:
        askers = await _askers(endpoint, sitting, store)
        batches = batches_of(endpoint.client, store, sitting)
        submitted = await hand_over(batches, sitting, askers, works, store, budget)
        await batches.wait()
        judge = _judge(sitting, askers, store, InStore(budget), retry_unscored=False)
        tally = await judge.run(works(), sink, slots=sitting.judging.slots)
    return _summary(sitting, tally, endpoint, budget) | {"asked": submitted}


async def _askers(endpoint: Endpoint, sitting: Sitting, store: LabelStore) -> list[Asker]:
    return sitting.askers(
        {model: await dialect_of(endpoint, store, address=sitting.address, model=model) for model in sitting.models}
    )


async def _askers_or_outage(endpoint: Endpoint, sitting: Sitting, store: LabelStore) -> list[Asker]:
    """Askers as the endpoint wants them; where it stayed down, any: no question is sent, every page gets its reason."""
    try:
        return await _askers(endpoint, sitting, store)
    except Unsupported:
        raise
    except Unanswered as error:
        sitting.say(f"the endpoint was never reached ({error.message}): pages get the reason {error.reason!r}")
        return sitting.planned_askers(store)


def _judge(
    sitting: Sitting, askers: list[Asker], store: LabelStore, answerer: Answerer | InStore, *, retry_unscored: bool
) -> Judge:
    return Judge(
        answerer=answerer,
        askers=askers,
        store=store,
        variants=sitting.variants,
        prices=sitting.prices(),
        retry_unscored=retry_unscored,
    )


def _summary(sitting: Sitting, tally: Tally, endpoint: Endpoint, budget: Budget) -> dict[str, Any]:
    priced = None not in sitting.prices().values()
    return {
        **asdict(tally),
        "unscored": dict(sorted(tally.unscored.items())),
        "calls": endpoint.calls,
        "cost_usd": round(tally.cost_usd, 6) if priced else None,
        "budget_left_out": budget.refused,
        "last_failure": endpoint.last_failure,
    }
