"""What a run would ask, before anything is sent: pages, calls, cached calls, tokens, cost and time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jobs.judging.labels import LabelStore
from jobs.judging.runner import CHUNK, Work
from jobs.judging.session import Sitting, pace_note
from jobs.judging.views import needs_plain, shown_rows

TYPICAL_OUTPUT = 70  # tokens of a grade, two short sentences and some row numbers
FIRST_GUESS_S = 1.5  # seconds of a call, until a run has measured it


@dataclass(kw_only=True)
class Plan:
    """Counts of a run to come; `reused` rows take plain's label and ask nothing."""

    pages: int = 0
    rows: int = 0
    reused: int = 0
    calls: int = 0
    cached_calls: int = 0
    tokens_in: int = 0
    cost_usd: float | None = 0.0

    def summary(self, *, seconds: float, budget_usd: float | None) -> dict[str, Any]:
        """As the command prints it; cost is null where a model's price is unknown."""
        cost = None if self.cost_usd is None else round(self.cost_usd, 4)
        short = cost is not None and budget_usd is not None and cost > budget_usd
        return {
            "pages": self.pages,
            "rows": self.rows,
            "reused_from_plain": self.reused,
            "calls": self.calls,
            "cached_calls": self.cached_calls,
            "tokens_in": self.tokens_in,
            "tokens_out": self.calls * TYPICAL_OUTPUT,
            "cost_usd": cost,
            "budget_usd": budget_usd,
            "budget_is_short": short,
            "seconds": round(seconds, 1),
        }


def plan_works(sitting: Sitting, works: Iterable[Work], store: LabelStore) -> Plan:
    """Render every question of `works` and count what is missing from the store; nothing is sent."""
    plan, askers, prices = Plan(), sitting.planned_askers(store), sitting.prices()
    if None in prices.values():
        plan.cost_usd = None
    waiting: dict[bytes, tuple[int, str]] = {}
    seen: set[bytes] = set()

    def look_up() -> None:
        known, _ = store.find(waiting)
        for key, (tokens, model) in waiting.items():
            stored = known.get(key)
            if stored is not None and not (sitting.retry_unscored and stored.reason):
                plan.cached_calls += 1
                continue
            plan.calls += 1
            plan.tokens_in += tokens
            if plan.cost_usd is not None:
                plan.cost_usd += prices[model].usd(tokens_in=tokens, tokens_out=TYPICAL_OUTPUT)
        waiting.clear()

    for _, page, rows in works:
        plan.pages += 1
        for variant in sitting.variants:
            plan.rows += 1
            shown = shown_rows(page, rows, variant=variant)
            reused = needs_plain(variant, shown)
            plan.reused += reused
            for asker in askers:
                question = asker.question(page, shown, variant="plain" if reused else variant)
                if question.key not in seen:
                    seen.add(question.key)
                    waiting[question.key] = asker.tokens(question), asker.settings.model
        if len(waiting) >= CHUNK * len(sitting.variants):
            look_up()
    look_up()
    return plan


def seconds_for(plan: Plan, sitting: Sitting, store: LabelStore) -> float:
    """Time for the plan's calls: at the pace that this endpoint last kept, or a first guess within declared limits."""
    judging = sitting.judging
    kept = store.note(pace_note(sitting))
    pace = float(kept) if kept else judging.slots / FIRST_GUESS_S
    if judging.requests_per_minute:
        pace = min(pace, judging.requests_per_minute / 60)
    if judging.tokens_per_minute and plan.calls:
        pace = min(pace, judging.tokens_per_minute / 60 / (plan.tokens_in / plan.calls))
    return plan.calls / pace
