"""What a run would ask, before anything is sent: pages, calls, cached calls, tokens, cost and time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.judging.cost import FREE
from jobs.judging.labels import LabelStore
from jobs.judging.questions import Asker, Question, row_questions
from jobs.judging.runner import CHUNK, Work
from jobs.judging.sitting import Sitting

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
    cost_usd: float = 0.0
    unpriced: list[str] = field(default_factory=list)

    def summary(self, *, seconds: float = 0.0, budget_usd: float | None = None) -> dict[str, Any]:
        """As the command prints it; cost is null where the price of a model (`unpriced`) is unknown."""
        cost = None if self.unpriced else round(self.cost_usd, 4)
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
            "unpriced": self.unpriced,
            "budget_usd": budget_usd,
            "budget_is_short": short,
            "seconds": round(seconds, 1),
        }


def plan_text(found: dict[str, Any]) -> str:
    """A plan as lines for people: pages, calls, cached calls, tokens, cost and time."""
    cost = found.get("cost_usd")
    told = f"{cost:,.2f} USD" if cost is not None else f"unknown: no price of {', '.join(found.get('unpriced') or [])}"
    budget = found.get("budget_usd")
    limit = (
        "no budget"
        if budget is None
        else f"budget {budget:,.2f} USD"
        + (", which is short: the run will stop cleanly" if found.get("budget_is_short") else "")
    )
    rows = [
        ("pages", f"{found['pages']:,}"),
        ("labels", f"{found['rows']:,}, of them {found.get('reused_from_plain', 0):,} taken from plain (no evidence)"),
        ("calls", f"{found['calls']:,}, and {found.get('cached_calls', 0):,} answered from the label store"),
        ("tokens", f"about {found.get('tokens_in', 0):,} in, {found.get('tokens_out', 0):,} out"),
        ("cost", f"{told} ({limit})" if found["calls"] else "nothing"),
        ("time", f"about {found.get('seconds', 0):,.0f} s" if found["calls"] else "no call is waited for"),
    ]
    if found.get("trust_calls"):
        rows.insert(3, ("trust", f"up to {found['trust_calls']:,} more calls for repeats, orders and anchors"))
    if found.get("items_without_title"):
        rows.insert(1, ("untitled", f"{found['items_without_title']:,} items have no title"))
    if "shards" in found:
        rows.append(("shards", f"{len(found['shards']):,}"))
    return "\n".join(f"{name:<9} {text}" for name, text in rows)


def missing_questions(
    plan: Plan, sitting: Sitting, askers: Sequence[Asker], works: Iterable[Work], store: LabelStore
) -> Iterator[Question]:
    """The questions of `works` that the store has no answer to, each once; pages, rows and cached calls are counted."""
    waiting: dict[bytes, Question] = {}
    seen: set[bytes] = set()
    for _, page, rows in works:
        plan.pages += 1
        for variant in sitting.variants:
            row = row_questions(page, rows, variant=variant, askers=askers)
            plan.rows += 1
            plan.reused += row.reused
            waiting.update((q.key, q) for q in row.questions if q.key not in seen)
            seen.update(q.key for q in row.questions)
        if len(waiting) >= CHUNK * len(sitting.variants):
            yield from _unknown(plan, sitting, waiting, store)
            waiting = {}
    yield from _unknown(plan, sitting, waiting, store)


def _unknown(plan: Plan, sitting: Sitting, waiting: dict[bytes, Question], store: LabelStore) -> list[Question]:
    known, _ = store.find(waiting)
    served = {key for key, outcome in known.items() if not (sitting.retry_unscored and outcome.reason)}
    plan.cached_calls += len(served)
    return [question for key, question in waiting.items() if key not in served]


def plan_works(sitting: Sitting, works: Iterable[Work], store: LabelStore) -> Plan:
    """Render every question of `works` and count what is missing from the store; nothing is sent."""
    prices = sitting.prices()
    plan = Plan(unpriced=[model for model, price in prices.items() if price is None])
    for question in missing_questions(plan, sitting, sitting.planned_askers(store), works, store):
        tokens, price = question.asker.tokens(question), prices[question.asker.settings.model] or FREE
        plan.calls += 1
        plan.tokens_in += tokens
        plan.cost_usd += price.usd(tokens_in=tokens, tokens_out=TYPICAL_OUTPUT)
    return plan


def seconds_for(plan: Plan, sitting: Sitting, store: LabelStore) -> float:
    """Time for the plan's calls: at the pace that this endpoint last kept, or a first guess within declared limits."""
    judging = sitting.judging
    kept = store.note(sitting.pace_note())
    pace = float(kept) if kept else judging.slots / FIRST_GUESS_S
    if judging.requests_per_minute:
        pace = min(pace, judging.requests_per_minute / 60)
    if judging.tokens_per_minute and plan.calls:
        pace = min(pace, judging.tokens_per_minute / 60 / (plan.tokens_in / plan.calls))
    return plan.calls / pace
