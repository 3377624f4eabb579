"""Every method of an evaluation, through the same code: a function from a Bench to texts, choices and costs.

A method that looks at labels (best-single, oracle) is marked: it bounds what routing can reach and cannot be deployed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from jobs.core.errors import UsageError
from jobs.skills.bench import FEEDBACK, Bench, Unavailable, texts_of
from jobs.skills.llm import OFFLINE
from jobs.skills.longer import passages, synthesised, thoughts
from jobs.skills.rewriting import Cost, Rewrite
from jobs.skills.routers import Choice, card_cosines, route_by_embedding, route_calibrated, route_with_model
from jobs.skills.skill import GENERIC, Skill


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a method gave: values (nDCG@10 by query), rewrites and choices where it made them, cost by query."""

    values: Mapping[str, float]
    rewrites: Mapping[str, Rewrite] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    cost: Mapping[str, Cost] = field(default_factory=dict)
    note: str = ""


def original(bench: Bench) -> Outcome:
    """The query as typed."""
    return Outcome(values=bench.score({one.id: one.text for one in bench.subject.queries}))


def generic(bench: Bench) -> Outcome:
    """The generic instruction for every query."""
    return _of_rewrites(bench, bench.rewrites(None))


def skills(bench: Bench) -> Outcome:
    """Discovered skills: a language model routes, with the generic instruction on offer."""
    return _with_router(bench, _there(bench))


def skills_no_prf(bench: Bench) -> Outcome:
    """The same without the first results in the prompt."""
    return _with_router(bench, _there(bench), feedback=False)


def human(bench: Bench) -> Outcome:
    """Skills written by people, from a file, through the same router."""
    if not bench.extras.human:
        raise Unavailable("no human-written skills were given: name their folder with --human-skills")
    return _with_router(bench, bench.extras.human)


def other_corpus(bench: Bench) -> Outcome:
    """Skills of another corpus, as a control: if they do as well, nothing was learnt from this one."""
    if not bench.extras.other:
        raise Unavailable("no skills of another corpus were given: name their folder with --other-skills")
    return _with_router(bench, bench.extras.other)


def multiple_choice(bench: Bench) -> Outcome:
    """Zero-shot multiple choice over the skills, without the generic instruction."""
    model = bench.needs_model("the zero-shot multiple-choice router")
    chosen = _there(bench)
    return _routed(bench, chosen, route_with_model(model, bench.subject.queries, chosen, generic=False))


def embedding_router(bench: Bench) -> Outcome:
    """The skill whose card is nearest to the query."""
    return _routed(bench, _there(bench), _by_embedding(bench, bench.skills))


def random_router(bench: Bench) -> Outcome:
    """The expectation of a uniformly random skill, exactly: the mean over skills."""
    first = _there(bench)[0]
    scores = [by_query for name, by_query in bench.skill_scores().items() if name != GENERIC]
    values = {query: float(np.mean([one[query] for one in scores])) for query in scores[0]}
    cost = {one.query_id: one.cost for one in bench.rewrites(first).values()}
    return Outcome(values=values, cost=cost, note="expected value over the skills; the cost is of one rewrite")


def best_single(bench: Bench) -> Outcome:
    """The one skill (or generic) that is best for the subject, picked with its labels."""
    scores = bench.skill_scores()
    best = max(scores, key=lambda name: (float(np.mean(list(scores[name].values()) or [0.0])), name))
    chosen = _by_id(bench)[best]
    return _of_rewrites(bench, bench.rewrites(chosen), note=f"picked with labels: {best}")


def oracle(bench: Bench) -> Outcome:
    """The best skill (or generic) for each query, picked with its labels; the first of equal ones."""
    scores = bench.skill_scores()
    names = list(scores)
    picks = {query: max(names, key=lambda name: scores[name][query]) for query in scores[GENERIC]}
    rewrites = {query: bench.rewrites(_by_id(bench)[name])[query] for query, name in picks.items()}
    return Outcome(
        values={query: scores[name][query] for query, name in picks.items()}, rewrites=rewrites, choices=picks,
        cost=bench.all_skills_cost(), note="picked with labels; the cost is of rewriting with every skill",
    )


def calibrated(bench: Bench) -> Outcome:
    """The embedding router, corrected by outcomes that were stored with `hindcast skills feedback`."""
    if not bench.extras.gains:
        raise Unavailable("no stored outcomes: add them with `hindcast skills feedback` (and --feedback)")
    cosines = card_cosines(bench.encoder, bench.subject.queries, _there(bench))
    choices = route_calibrated(cosines, bench.subject.queries, bench.skills, bench.extras.gains, weight=1.0)
    return _routed(bench, bench.skills, choices)


def passage(bench: Bench) -> Outcome:
    """A passage as an answer might read (query2doc, HyDE), joined to the query."""
    return _of_rewrites(bench, passages(bench, bench.needs_model("writing a passage")))


def think(bench: Bench) -> Outcome:
    """Three passes of thinking and retrieving, each adding to the query (in the manner of ThinkQE)."""
    return _of_rewrites(bench, thoughts(bench, bench.needs_model("three-pass rewriting"), texts=FEEDBACK))


def synthesised_skill(bench: Bench) -> Outcome:
    """One skill for each query, made of the five mined cluster skills nearest to it (SkillQR-Syn)."""
    return _of_rewrites(bench, synthesised(bench, bench.needs_model("synthesising a skill for each query")))


METHODS: Mapping[str, Callable[[Bench], Outcome]] = {
    "original": original, "generic": generic, "query2doc": passage, "think": think, "human": human,
    "skills": skills, "skills-no-prf": skills_no_prf, "multiple-choice": multiple_choice,
    "embedding-router": embedding_router, "random": random_router, "best-single": best_single, "oracle": oracle,
    "synthesised": synthesised_skill, "other-corpus": other_corpus, "calibrated": calibrated,
}
"""All methods by name, in the order of reports."""

WITH_LABELS = frozenset({"best-single", "oracle"})
WITHOUT_REWRITE = frozenset({"original", "random", "human", "other-corpus"})
"""Methods of evaluations alone; the last two are `skills` where --skills names their folder."""
ROUTERS = ("skills", "multiple-choice", "embedding-router", "calibrated")


def check_deployable(name: str) -> None:
    """UsageError for a method that gives no rewrite to a query without labels."""
    if name not in METHODS or name in WITH_LABELS | WITHOUT_REWRITE:
        fitting = ", ".join(one for one in METHODS if one not in WITH_LABELS | WITHOUT_REWRITE)
        raise UsageError(f"method {name!r} does not rewrite queries: choose among {fitting}")


def _there(bench: Bench) -> tuple[Skill, ...]:
    if not bench.skills:
        raise Unavailable("discovery found no skill in this corpus: write one by hand, or give it more documents")
    return bench.skills


def _with_router(bench: Bench, chosen: Sequence[Skill], *, feedback: bool = True) -> Outcome:
    """Route by the model, or by embedding where there is none."""
    if bench.model is not None:
        return _routed(bench, chosen, route_with_model(bench.model, bench.subject.queries, chosen), feedback=feedback)
    note = f"{OFFLINE}: embedding router and templates in place of a language model"
    return _routed(bench, chosen, _by_embedding(bench, chosen), feedback=feedback, note=note)


def _by_embedding(bench: Bench, chosen: Sequence[Skill]) -> list[Choice]:
    return route_by_embedding(bench.encoder, bench.subject.queries, chosen)


def _routed(
    bench: Bench, chosen: Sequence[Skill], choices: Sequence[Choice], *, feedback: bool = True, note: str = ""
) -> Outcome:
    by_id = {one.skill_id: one for one in chosen}
    rewrites = bench.routed({one.query_id: by_id.get(one.skill_id) for one in choices}, feedback=feedback)
    cost = {one.query_id: one.cost + rewrites[one.query_id].cost for one in choices}
    bad = sum(bool(one.problem) for one in choices)
    return Outcome(
        values=bench.score(texts_of(rewrites)), rewrites=rewrites, cost=cost,
        choices={one.query_id: one.skill_id for one in choices},
        note="; ".join(one for one in (note, f"{bad} bad router replies became generic" if bad else "") if one),
    )


def _of_rewrites(bench: Bench, rewrites: Mapping[str, Rewrite], *, note: str = "") -> Outcome:
    cost = {name: one.cost for name, one in rewrites.items()}
    return Outcome(values=bench.score(texts_of(rewrites)), rewrites=rewrites, cost=cost, note=note)


def _by_id(bench: Bench) -> dict[str, Skill | None]:
    return {GENERIC: None, **{one.skill_id: one for one in bench.skills}}
