"""One sitting of an LLM judge: endpoint, dialect, label store, budget and askers put together, used, and closed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from jobs.core.errors import UsageError
from jobs.core.settings import Judging, Settings
from jobs.judging.answering import Answerer
from jobs.judging.cost import FREE, Budget, Price, price_of
from jobs.judging.dialect import Dialect, dialect_of, known_dialect
from jobs.judging.endpoint import Endpoint, EndpointSettings
from jobs.judging.labels import LabelStore
from jobs.judging.prompts import PromptSet, load_prompts
from jobs.judging.questions import Asker, AskSettings
from jobs.judging.runner import Judge, Sink, Work


@dataclass(frozen=True, kw_only=True)
class Sitting:
    """What a judge is told beside the pages. `run` names who pays; `labels` is the label store's file."""

    judging: Judging
    labels: Path
    run: str
    variants: tuple[str, ...]
    budget_usd: float | None
    retry_unscored: bool = False
    salt: str = ""
    say: Callable[[str], None] = lambda text: None

    @property
    def models(self) -> tuple[str, ...]:
        """The models named by `judging.model`, separated by commas. Raises UsageError where none is."""
        names = tuple(name.strip() for name in self.judging.model.split(",") if name.strip())
        if not names:
            raise UsageError(f"judge {self.judging.judge!r} needs a model: set judging.model or pass --model")
        return names

    def prompts(self) -> PromptSet:
        """The prompts of these settings, checked."""
        judging = self.judging
        return load_prompts(kind=judging.kind, folder=judging.prompts, item_fields=judging.item_fields)

    def askers(self, dialects: dict[str, Dialect]) -> list[Asker]:
        """One asker a model and sample."""
        judging, prompts = self.judging, self.prompts()
        return [
            Asker(
                AskSettings(
                    model=model,
                    prompts=prompts,
                    dialect=dialects[model],
                    temperature=judging.temperature,
                    max_output_tokens=judging.max_output_tokens,
                    context_tokens=judging.context_tokens,
                    sample=sample,
                    seed=judging.seed + sample if judging.samples > 1 else None,
                    salt=self.salt,
                )
            )
            for model in self.models
            for sample in range(judging.samples)
        ]

    def planned_askers(self, store: LabelStore) -> list[Asker]:
        """Askers as far as they are known without asking the endpoint anything."""
        known = {m: known_dialect(store, base_url=self.judging.base_url, model=m) for m in self.models}
        return self.askers(known)

    def prices(self) -> dict[str, Price | None]:
        """Price by model; a local judge is free, a model that the table does not know has None."""
        if self.judging.judge == "local":
            return dict.fromkeys(self.models, FREE)
        judging = self.judging
        return {model: price_of(model, batch=judging.batch, table=judging.prices) for model in self.models}

    def endpoint_settings(self) -> EndpointSettings:
        """How the endpoint is asked."""
        names = EndpointSettings.__dataclass_fields__
        return EndpointSettings(**{n: v for n, v in self.judging.model_dump().items() if n in names and n != "model"})


def judge_works(sitting: Sitting, works: Iterable[Work], sink: Sink) -> dict[str, Any]:
    """Judge all works through the endpoint; each row goes to `sink` as it is known. Returns the summary.

    Raises EndpointRefused where the endpoint turns every call away; answers that came before are kept and served to
    the next run.
    """
    with LabelStore(sitting.labels, run=sitting.run) as store:
        return asyncio.run(_judge(sitting, works, sink, store))


async def _judge(sitting: Sitting, works: Iterable[Work], sink: Sink, store: LabelStore) -> dict[str, Any]:
    prices = sitting.prices()
    budget, begun = Budget(limit_usd=sitting.budget_usd), time.monotonic()
    async with Endpoint(sitting.endpoint_settings(), say=sitting.say) as endpoint:
        dialects = {model: await dialect_of(endpoint, store, model=model) for model in sitting.models}
        judge = Judge(
            answerer=Answerer(endpoint=endpoint, store=store, budget=budget, prices=prices),
            askers=sitting.askers(dialects),
            store=store,
            variants=sitting.variants,
            retry_unscored=sitting.retry_unscored,
        )
        tally = await judge.run(works, sink, slots=sitting.judging.slots)
    if tally.asked:
        store.remember(pace_note(sitting), f"{endpoint.calls / max(1e-3, time.monotonic() - begun):.3f}")
    priced = all(price is not None for price in prices.values())
    return {
        **asdict(tally),
        "unscored": dict(sorted(tally.unscored.items())),
        "calls": endpoint.calls,
        "cost_usd": round(budget.spent_usd, 6) if priced else None,
        "budget_left_out": budget.refused,
        "last_failure": endpoint.last_failure,
    }


def pace_note(sitting: Sitting) -> str:
    """Name under which the calls per second of a run are remembered, for plans."""
    return f"pace {sitting.judging.base_url or 'default'} {sitting.judging.model}"


def with_paths(settings: Settings) -> Judging:
    """The [judging] settings with their paths resolved against the folder of the settings file."""
    judging = settings.judging
    names = ("prompts", "prices", "model_path")
    return judging.model_copy(update={name: settings.path(getattr(judging, name)) for name in names})


def with_salt(sitting: Sitting, salt: str) -> Sitting:
    """The same sitting with answers of its own."""
    return replace(sitting, salt=salt)


def llm_variants(variants: Sequence[str]) -> tuple[str, ...]:
    """The variants that ask a judge; `evidence_only` asks none."""
    return tuple(variant for variant in variants if variant != "evidence_only")
