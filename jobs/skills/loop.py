"""Discovery as a pure state machine: `tasks(state)` says what to ask, `absorb(state, answers)` gives the next state.

    characterise -> propose -> judge -> (done | revise -> judge -> ...)

Agents are passed in (`discover`); nothing here calls a model, reads a clock or draws a random number, so that a kept
transcript replays to the same skills. Calls are at most clusters + rounds x (clusters + skills): see `call_bound`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from jobs.skills.skill import Cluster, Draft, Drop, Profile, Skill, Verdict, skill_id_of

Phase = Literal["characterise", "propose", "judge", "revise", "done"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """At most so many skills and rounds (methods.md 5: 5 and 3)."""

    max_skills: int = 5
    max_rounds: int = 3


@dataclass(frozen=True, kw_only=True)
class Task:
    """One question to an agent; `key` is unique within a discovery."""

    kind: Literal["characterise", "propose", "judge", "refine"]
    key: str
    clusters: tuple[Cluster, ...] = ()
    profiles: tuple[Profile, ...] = ()
    skills: tuple[Skill, ...] = ()
    room: int = 0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An agent's answer: a value of the task's kind, or None with the problem. `exchange` is kept in the transcript."""

    key: str
    value: Any = None
    problem: str = ""
    exchange: Mapping[str, Any] = field(default_factory=dict)


class Agents(Protocol):
    """Who answers: an LLM, the offline baseline, a script, or a transcript."""

    name: str

    def answer(self, tasks: Sequence[Task]) -> list[Answer]:
        """One answer a task, in any order."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """What one round came to: clusters and documents covered, and clusters by verdict."""

    round: int
    skills: int
    covered: int
    clusters: int
    coverage: float
    document_coverage: float
    verdicts: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class State:
    """Everything that discovery knows at one moment. `retired` are ids that a reviewer removed: not proposed again."""

    limits: Limits
    clusters: tuple[Cluster, ...]
    profiles: Mapping[int, Profile] = field(default_factory=dict)
    skills: tuple[Skill, ...] = ()
    verdicts: Mapping[int, Verdict] = field(default_factory=dict)
    retired: frozenset[str] = frozenset()
    phase: Phase = "characterise"
    round: int = 1
    rounds: tuple[Round, ...] = ()
    drops: tuple[Drop, ...] = ()
    stopped: str = ""


Record = Callable[[State, Task, Answer], None]


def discover(state: State, agents: Agents, *, record: Record = lambda state, task, answer: None) -> State:
    """Run the machine until it is done; `record` sees each task with its answer, in order."""
    while state.phase != "done":
        asked = tasks(state)
        answers = {one.key: one for one in agents.answer(asked)} if asked else {}
        for task in asked:
            record(state, task, answers.get(task.key, Answer(key=task.key, problem="no answer")))
        state = absorb(state, asked, answers)
    return state


def call_bound(*, clusters: int, limits: Limits) -> int:
    """The most calls that a discovery can make."""
    return clusters + limits.max_rounds * (clusters + limits.max_skills)


def tasks(state: State) -> tuple[Task, ...]:
    """What to ask in this state; empty where the phase has nothing to ask."""
    return _ASK[state.phase](state) if state.phase in _ASK else ()


def absorb(state: State, asked: Sequence[Task], answers: Mapping[str, Answer]) -> State:
    """The next state. A missing or unusable answer is recorded as a drop and never fatal."""
    given = {one.key: answers.get(one.key, Answer(key=one.key, problem="no answer")) for one in asked}
    usable = {key: one.value for key, one in given.items() if one.value is not None}
    drops = tuple(_drop(state, key, one.problem) for key, one in given.items() if one.value is None)
    return _TAKE[state.phase](replace(state, drops=state.drops + drops), asked, usable)


def covered_clusters(state: State) -> set[int]:
    """Ids of the clusters that a skill covers."""
    return {one.cluster for one in state.verdicts.values() if one.kind == "covered"}


def _uncovered(state: State, *kinds: str) -> tuple[Cluster, ...]:
    def open_for(cluster: Cluster) -> bool:
        verdict = state.verdicts.get(cluster.id)
        return verdict is None or verdict.kind in (kinds or ("refine", "new", "unknown"))

    return tuple(one for one in state.clusters if open_for(one))


def _ask_profiles(state: State) -> tuple[Task, ...]:
    missing = (one for one in state.clusters if one.id not in state.profiles)
    return tuple(Task(kind="characterise", key=f"characterise/{one.id}", clusters=(one,)) for one in missing)


def _ask_proposal(state: State, clusters: tuple[Cluster, ...] | None = None) -> tuple[Task, ...]:
    """Ask for skills for all clusters that are not covered, or for further ones for the given clusters."""
    open_ones = _uncovered(state) if clusters is None else clusters
    room = state.limits.max_skills - len(state.skills)
    if not open_ones or room < 1:
        return ()
    profiles = tuple(state.profiles[one.id] for one in open_ones)
    key = f"propose/{state.round}" if clusters is None else f"propose/{state.round}/further"
    return (Task(kind="propose", key=key, clusters=open_ones, profiles=profiles, skills=state.skills, room=room),)


def _ask_verdicts(state: State) -> tuple[Task, ...]:
    return tuple(
        Task(
            kind="judge", key=f"judge/{state.round}/{one.id}", clusters=(one,),
            profiles=(state.profiles[one.id],), skills=state.skills,
        )
        for one in _uncovered(state)
    )


def _ask_revision(state: State) -> tuple[Task, ...]:
    refined = tuple(_refinement(state, one) for one in state.skills if not one.held and _wants(state, one))
    return refined + _ask_proposal(state, _uncovered(state, "new", "unknown"))


def _wants(state: State, skill: Skill) -> tuple[Cluster, ...]:
    ids = {one.cluster for one in state.verdicts.values() if one.kind == "refine" and one.skill_id == skill.skill_id}
    return tuple(one for one in state.clusters if one.id in ids)


def _refinement(state: State, skill: Skill) -> Task:
    clusters = _wants(state, skill)
    profiles = tuple(state.profiles[one.id] for one in clusters)
    key = f"refine/{state.round}/{skill.skill_id}"
    return Task(kind="refine", key=key, clusters=clusters, profiles=profiles, skills=(skill,))


def _take_profiles(state: State, asked: Sequence[Task], values: Mapping[str, Profile]) -> State:
    found = {task.clusters[0].id: values.get(task.key) or _profile_of_terms(task.clusters[0]) for task in asked}
    # Skills of an earlier discovery, or pinned ones, are judged first: what they cover needs no proposal.
    return replace(state, profiles={**state.profiles, **found}, phase="judge" if state.skills else "propose")


def _take_proposal(state: State, asked: Sequence[Task], values: Mapping[str, tuple[Draft, ...]]) -> State:
    for task in asked:
        state = _accept(state, task, values.get(task.key, ()))
    if state.skills:
        return replace(state, phase="judge")
    if state.round < state.limits.max_rounds:  # the same question with another seed
        return replace(state, round=state.round + 1)
    return replace(state, phase="done", stopped="no usable skill was proposed")


def _take_verdicts(state: State, asked: Sequence[Task], values: Mapping[str, Verdict]) -> State:
    verdicts = dict(state.verdicts)
    for task in asked:
        cluster = task.clusters[0].id
        verdicts[cluster] = values.get(task.key) or Verdict(cluster=cluster, kind="unknown")
    state = _without_idle(_assign(replace(state, verdicts=verdicts)), before=state.skills)
    state = replace(state, rounds=(*state.rounds, _round(state)))
    if len(covered_clusters(state)) == len(state.clusters):
        return replace(state, phase="done", stopped="every cluster is covered")
    if state.round >= state.limits.max_rounds:
        return replace(state, phase="done", stopped=f"{state.limits.max_rounds} rounds are over")
    return replace(state, phase="revise")


def _take_revision(state: State, asked: Sequence[Task], values: Mapping[str, Any]) -> State:
    before = state.skills
    for task in asked:
        value = values.get(task.key)
        if value is not None:
            state = _refine(state, task, value) if task.kind == "refine" else _accept(state, task, value)
    if state.skills == before:
        return replace(state, phase="done", stopped="nothing more to change")
    return replace(state, phase="judge", round=state.round + 1)


def _accept(state: State, task: Task, drafts: tuple[Draft, ...]) -> State:
    """Take drafts until the room is full; doubles, retired ids and empty ones are dropped with their reason."""
    skills, drops = list(state.skills), []
    for draft in drafts:
        reason = _refused(draft, skills, state)
        if reason:
            drops.append(_drop(state, f"skill {draft.name!r:.80}", reason))
        else:
            skills.append(_skill(draft, why=f"proposed in round {state.round} for {len(task.clusters)} clusters"))
    return replace(state, skills=tuple(skills), drops=state.drops + tuple(drops))


def _refused(draft: Draft, skills: list[Skill], state: State) -> str:
    name = skill_id_of(draft.name)
    if not name or not draft.instruction.strip() or not draft.domains:
        return "name, instruction or domains are empty"
    if name in state.retired:
        return "a reviewer removed a skill of this name"
    if any(name == one.skill_id or _same(draft.instruction, one.instruction) for one in skills):
        return "doubles a skill that is there"
    return "beyond the cap of skills" if len(skills) >= state.limits.max_skills else ""


def _refine(state: State, task: Task, draft: Draft) -> State:
    """Broaden a skill: id, name and old domains stay; an empty or unchanged instruction is refused."""
    old = task.skills[0]
    if not draft.instruction.strip():
        return replace(state, drops=(*state.drops, _drop(state, task.key, "the refined instruction is empty")))
    domains = tuple(dict.fromkeys((*old.domains, *draft.domains)))
    if _same(draft.instruction, old.instruction) and domains == old.domains:
        return replace(state, drops=(*state.drops, _drop(state, task.key, "the refinement changes nothing")))
    names = ", ".join(str(one.id) for one in task.clusters)
    new = replace(
        old, instruction=draft.instruction.strip(), domains=domains,
        description=draft.description.strip() or old.description,
        why="; ".join(filter(None, (old.why, f"broadened in round {state.round} for clusters {names}"))),
    )
    return replace(state, skills=tuple(new if one.skill_id == old.skill_id else one for one in state.skills))


def _assign(state: State) -> State:
    """Write into each skill which clusters it covers."""
    by_skill: dict[str, list[int]] = {}
    for verdict in state.verdicts.values():
        if verdict.kind == "covered":
            by_skill.setdefault(verdict.skill_id, []).append(verdict.cluster)
    skills = tuple(replace(one, clusters=tuple(sorted(by_skill.get(one.skill_id, ())))) for one in state.skills)
    return replace(state, skills=skills)


def _without_idle(state: State, *, before: Sequence[Skill]) -> State:
    """Let go of skills whose documents went: they would take the room of those that the corpus needs now.

    Held skills stay, and all do while a verdict is lost.
    """
    if any(one.kind == "unknown" for one in state.verdicts.values()):
        return state
    served = {one.skill_id for one in before if one.clusters and not one.held}
    named = {one.skill_id for one in state.verdicts.values()}
    idle = [one for one in state.skills if one.skill_id in served - named]
    drops = tuple(_drop(state, f"skill {one.skill_id}", "it covers no document any more") for one in idle)
    return replace(state, skills=tuple(one for one in state.skills if one not in idle), drops=state.drops + drops)


def _round(state: State) -> Round:
    done = covered_clusters(state)
    kinds = [one.kind for one in state.verdicts.values()]
    documents = sum(one.size for one in state.clusters)
    inside = sum(one.size for one in state.clusters if one.id in done)
    return Round(
        round=state.round, skills=len(state.skills), covered=len(done), clusters=len(state.clusters),
        coverage=len(done) / max(len(state.clusters), 1), document_coverage=inside / max(documents, 1),
        verdicts={kind: kinds.count(kind) for kind in sorted(set(kinds))},
    )


def _skill(draft: Draft, *, why: str) -> Skill:
    return Skill(
        skill_id=skill_id_of(draft.name), name=draft.name.strip(), description=draft.description.strip(),
        instruction=draft.instruction.strip(), domains=draft.domains, why=why,
    )


def _profile_of_terms(cluster: Cluster) -> Profile:
    return Profile(domain=", ".join(cluster.terms[:3]) or "unknown", content_type="document", source="terms")


def _drop(state: State, what: str, reason: str) -> Drop:
    return Drop(round=state.round, what=what, reason=reason or "no usable value")


def _same(one: str, other: str) -> bool:
    return " ".join(one.lower().split()) == " ".join(other.lower().split())


_ASK = {
    "characterise": _ask_profiles, "propose": _ask_proposal, "judge": _ask_verdicts, "revise": _ask_revision,
}
_TAKE = {
    "characterise": _take_profiles, "propose": _take_proposal, "judge": _take_verdicts, "revise": _take_revision,
}
