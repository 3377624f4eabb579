"""Baselines that write more than a short rewrite: a passage, three passes of thinking, a skill made for each query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from jobs.skills.agents import cluster_line, skill_line, texts_of
from jobs.skills.bench import Bench, Unavailable
from jobs.skills.documents import RetrievalQuery
from jobs.skills.llm import Model, Reply, Request
from jobs.skills.loop import Answer
from jobs.skills.parse import parse_mined, parse_text
from jobs.skills.prompts import Prompt, load_prompt
from jobs.skills.rewriting import Cost, Job, Rewrite, rewritten
from jobs.skills.skill import Skill, skill_id_of
from schemas import skill_replies as schemas

PASSES = 3
NEAREST = 5  # mined skills that are synthesised into one for a query


@dataclass(frozen=True, kw_only=True)
class _Thinking:
    """One query between two passes: what was written, what was shown, what it cost."""

    query: RetrievalQuery
    written: tuple[str, ...] = ()
    shown: frozenset[str] = frozenset()
    cost: Cost = field(default_factory=Cost)
    problem: str = ""

    @property
    def text(self) -> str:
        return " ".join([self.query.text, *self.written])


def passages(bench: Bench, model: Model) -> dict[str, Rewrite]:
    """query2doc, HyDE: one passage a query, joined to it."""
    prompt = load_prompt("passage")
    jobs = [bench.job(one.id, None) for one in bench.subject.queries]
    replies = model.complete([
        _request(prompt, schemas.PASSAGE_REPLY, {"query": job.query.text, "texts": texts_of(job.texts)}) for job in jobs
    ])
    return {job.query.id: _read(job, reply, "passage") for job, reply in zip(jobs, replies, strict=True)}


def thoughts(bench: Bench, model: Model, *, texts: int) -> dict[str, Rewrite]:
    """Three passes: think, add, retrieve what was not seen yet; all additions are joined to the query."""
    prompt = load_prompt("think")
    states = [_Thinking(query=one) for one in bench.subject.queries]
    for _ in range(PASSES):
        shown = _next_texts(bench, states, texts)
        replies = model.complete([
            _request(prompt, schemas.THOUGHT_REPLY, {
                "query": one.query.text, "so_far": list(one.written), "texts": texts_of(bench.texts(hits)),
            })
            for one, hits in zip(states, shown, strict=True)
        ])
        states = [_thought(*one) for one in zip(states, shown, replies, strict=True)]
    return {one.query.id: _final(one) for one in states}


def synthesised(bench: Bench, model: Model) -> dict[str, Rewrite]:
    """SkillQR-Syn: mine a skill per cluster, take the five nearest to the query, make one of them, rewrite with it."""
    mined = mine(bench, model)
    cards = bench.encoder.encode([one.card for one in mined], kind="document")
    queries = bench.subject.queries
    cosine = bench.encoder.encode([one.text for one in queries], kind="query") @ cards.T
    nearest = (-cosine).argsort(axis=1, kind="stable")[:, :NEAREST]
    prompt = load_prompt("synthesise")
    replies = model.complete([
        _request(prompt, schemas.SYNTHESIS_REPLY, {
            "query": one.text, "skills": [skill_line(mined[k]) for k in row],
        })
        for one, row in zip(queries, nearest, strict=True)
    ])
    chosen = {one.id: _own_skill(one, reply, mined[row[0]])
              for one, reply, row in zip(queries, replies, nearest, strict=True)}
    made = bench.routed(chosen)
    return {
        one.id: replace(made[one.id], cost=made[one.id].cost + Cost.of(reply))
        for one, reply in zip(queries, replies, strict=True)
    }


def mine(bench: Bench, model: Model) -> list[Skill]:
    """One skill for each cluster of the discovery; clusters whose reply is unusable are left out."""
    clusters, profiles = bench.extras.clusters, bench.extras.profiles
    if not clusters:
        raise Unavailable("the skills folder holds no clusters: run `hindcast skills discover` into it")
    prompt = load_prompt("mine")
    replies = model.complete([
        _request(prompt, schemas.MINED_REPLY, {
            "profile": cluster_line(one, profiles[one.id]), "texts": texts_of(one.representatives),
        }, max_tokens=800)
        for one in clusters
    ])
    found = [_mined(cluster.id, reply) for cluster, reply in zip(clusters, replies, strict=True)]
    mined = [one.value for one in found if one.value is not None]
    if not mined:
        raise Unavailable(f"no cluster gave a usable skill ({found[0].problem})")
    return mined


def _mined(cluster: int, reply: Reply) -> Answer:
    draft, problem = (None, reply.problem) if reply.problem else parse_mined(reply.text)
    if draft is None:
        return Answer(key=str(cluster), problem=problem)
    skill = Skill(
        skill_id=f"{cluster}-{skill_id_of(draft.name)}", name=draft.name, description=draft.description,
        instruction=draft.instruction, domains=draft.domains, clusters=(cluster,),
    )
    return Answer(key=str(cluster), value=skill)


def _own_skill(query: RetrievalQuery, reply: Reply, nearest: Skill) -> Skill:
    """The skill synthesised for a query; the nearest mined one where the reply is unusable."""
    text, _ = (None, "") if reply.problem else parse_text(reply.text, name="instruction")
    return replace(nearest, skill_id=f"synthesised-{query.id}", instruction=text) if text else nearest


def _next_texts(bench: Bench, states: Sequence[_Thinking], texts: int) -> list[list]:
    """For each query the next hits of what is written so far that were not shown before."""
    depth = texts * PASSES
    hits = bench.search({one.query.id: one.text for one in states}, depth=depth)
    return [[hit for hit in hits[one.query.id] if hit.document_id not in one.shown][:texts] for one in states]


def _thought(state: _Thinking, shown: Sequence, reply: Reply) -> _Thinking:
    text, problem = (None, reply.problem) if reply.problem else parse_text(reply.text, name="addition")
    return replace(
        state, written=(*state.written, text) if text else state.written, problem=problem or state.problem,
        shown=state.shown | {one.document_id for one in shown}, cost=state.cost + Cost.of(reply),
    )


def _final(state: _Thinking) -> Rewrite:
    return rewritten(Job(query=state.query), state.written, joined=True, cost=state.cost, problem=state.problem)


def _read(job: Job, reply: Reply, name: str) -> Rewrite:
    text, problem = (None, reply.problem) if reply.problem else parse_text(reply.text, name=name)
    return rewritten(job, [text] if text else [], joined=True, cost=Cost.of(reply), problem=problem)


def _request(prompt: Prompt, schema: dict, values: dict, *, max_tokens: int = 500) -> Request:
    return Request(
        purpose=prompt.name, system=prompt.system, user=prompt.fill(values), schema=schema, max_tokens=max_tokens
    )
