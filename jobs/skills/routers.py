"""Which skill a query is rewritten with: by a language model, by embedding, or by outcomes seen before (calibrated)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from jobs.core.embedding import Encoder
from jobs.skills.documents import RetrievalQuery
from jobs.skills.llm import Model, Request
from jobs.skills.parse import parse_choice
from jobs.skills.prompts import load_prompt
from jobs.skills.rewriting import Cost
from jobs.skills.skill import GENERIC, Skill
from schemas.skill_replies import ROUTE_REPLY


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A router's word on one query. `problem` says why a bad reply became the generic instruction."""

    query_id: str
    skill_id: str
    problem: str = ""
    cost: Cost = field(default_factory=Cost)


def route_with_model(
    model: Model, queries: Sequence[RetrievalQuery], skills: Sequence[Skill], *, generic: bool = True
) -> list[Choice]:
    """A language model picks: with the generic instruction on offer, or (`generic=False`) zero-shot multiple choice."""
    prompt = load_prompt("route" if generic else "choose")
    offered = [one.skill_id for one in skills] + [GENERIC] * generic
    lines = [_line(one) for one in skills]
    requests = [
        Request(
            purpose=prompt.name, system=prompt.system, user=prompt.fill({"query": one.text, "skills": lines}),
            schema=ROUTE_REPLY, max_tokens=60,
        )
        for one in queries
    ]
    choices = []
    for query, reply in zip(queries, model.complete(requests) if requests else [], strict=True):
        chosen, problem = (None, reply.problem) if reply.problem else parse_choice(reply.text, offered=offered)
        choices.append(
            Choice(query_id=query.id, skill_id=chosen or GENERIC, problem=problem, cost=Cost.of(reply))
        )
    return choices


def route_by_embedding(encoder: Encoder, queries: Sequence[RetrievalQuery], skills: Sequence[Skill]) -> list[Choice]:
    """The skill whose card (name, description, domains) is nearest to the query; the first of equal ones."""
    best = card_cosines(encoder, queries, skills).argmax(axis=1)
    return [Choice(query_id=one.id, skill_id=skills[k].skill_id) for one, k in zip(queries, best, strict=True)]


def card_cosines(encoder: Encoder, queries: Sequence[RetrievalQuery], skills: Sequence[Skill]) -> np.ndarray:
    """float32[queries, skills]: cosine of each query with each skill's card."""
    asked = encoder.encode([one.text for one in queries], kind="query")
    return asked @ encoder.encode([one.card for one in skills], kind="document").T


def route_calibrated(
    cosines: np.ndarray, queries: Sequence[RetrievalQuery], skills: Sequence[Skill], gains: Mapping[str, float], *,
    weight: float,
) -> list[Choice]:
    """Cosine plus `weight` times each skill's mean outcome over the skills' mean (0 for a skill without outcomes)."""
    mean = float(np.mean(list(gains.values()))) if gains else 0.0
    bonus = np.array([gains[one.skill_id] - mean if one.skill_id in gains else 0.0 for one in skills])
    best = (cosines + weight * bonus).argmax(axis=1)
    return [Choice(query_id=one.id, skill_id=skills[k].skill_id) for one, k in zip(queries, best, strict=True)]


def _line(skill: Skill) -> dict[str, object]:
    return {
        "skill_id": skill.skill_id, "name": skill.name, "description": skill.description, "domains": list(skill.domains)
    }
