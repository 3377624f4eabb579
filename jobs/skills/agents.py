"""Agents of discovery that ask a language model: prompt, call and parse are three visible steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jobs.skills.llm import Model, Reply, Request, Usage
from jobs.skills.loop import Answer, Task
from jobs.skills.parse import Parsed, parse_profile, parse_proposal, parse_refinement, parse_verdict
from jobs.skills.prompts import Prompt, excerpt, load_prompt
from jobs.skills.skill import Cluster, Profile, Skill
from schemas import skill_replies as replies

TEXT_CHARACTERS = 600  # of a text in a prompt: some 150 tokens, so that ten fit a small context
KINDS = ("characterise", "propose", "judge", "refine")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How one kind of task is asked and read."""

    values: Callable[[Task], Mapping[str, object]]
    schema: Mapping[str, Any]
    parse: Callable[[Task, str], Parsed]
    max_tokens: int  # with room for a model that thinks first: what is cut off is not asked for again


class LlmAgents:
    """Answers tasks with `model`; `usage` counts what it cost."""

    def __init__(self, model: Model, *, prompts: Mapping[str, Prompt] | None = None):
        self.name, self.usage = model.name, Usage()
        self._model = model
        self._prompts = prompts or {kind: load_prompt(kind) for kind in KINDS}

    def answer(self, tasks: Sequence[Task]) -> list[Answer]:
        """One answer a task; a bad reply becomes an answer without value and with the problem."""
        requests = [request_of(task, self._prompts[task.kind]) for task in tasks]
        received = self._model.complete(requests)
        for reply in received:
            self.usage.add(reply)
        return [read_answer(*one) for one in zip(tasks, requests, received, strict=True)]


def request_of(task: Task, prompt: Prompt) -> Request:
    """The call for a task; proposals of a later round get another seed, or a bad reply would come again."""
    kind = _KINDS[task.kind]
    return Request(
        purpose=task.kind, system=prompt.system, user=prompt.fill(kind.values(task)), schema=kind.schema,
        max_tokens=kind.max_tokens, once=True, seed=int(task.key.split("/")[1]) if task.kind == "propose" else 0,
    )


def read_answer(task: Task, request: Request, reply: Reply) -> Answer:
    """A reply as the answer to its task, with the whole exchange for the transcript."""
    value, problem = (None, reply.problem) if reply.problem else _KINDS[task.kind].parse(task, reply.text)
    return Answer(
        key=task.key, value=value, problem=problem, exchange={"request": asdict(request), "reply": asdict(reply)}
    )


def cluster_line(cluster: Cluster, profile: Profile) -> dict[str, object]:
    """A cluster as one line of a prompt."""
    return {"domain": profile.domain, "content_type": profile.content_type, "documents": cluster.size}


def skill_line(skill: Skill) -> dict[str, object]:
    """A skill as one line of a prompt."""
    return {
        "skill_id": skill.skill_id, "name": skill.name, "description": skill.description,
        "instruction": skill.instruction, "domains": list(skill.domains),
    }


def texts_of(texts: Sequence[str]) -> list[str]:
    """Texts cut for a prompt."""
    return [excerpt(one, characters=TEXT_CHARACTERS) for one in texts]


def _lines(task: Task) -> list[dict[str, object]]:
    return [cluster_line(*one) for one in zip(task.clusters, task.profiles, strict=True)]


_KINDS = {
    "characterise": Kind(
        values=lambda task: {"texts": texts_of(task.clusters[0].representatives)},
        schema=replies.PROFILE_REPLY, max_tokens=1000,
        parse=lambda task, text: parse_profile(text),
    ),
    "propose": Kind(
        values=lambda task: {
            "room": task.room, "clusters": _lines(task), "skills": [skill_line(one) for one in task.skills]
        },
        schema=replies.PROPOSAL_REPLY, max_tokens=4000,
        parse=lambda task, text: parse_proposal(text),
    ),
    "judge": Kind(
        values=lambda task: {
            "profile": _lines(task)[0], "texts": texts_of(task.clusters[0].samples),
            "skills": [skill_line(one) for one in task.skills],
        },
        schema=replies.VERDICT_REPLY, max_tokens=1000,
        parse=lambda task, text: parse_verdict(
            text, cluster=task.clusters[0].id, skill_ids=[one.skill_id for one in task.skills]
        ),
    ),
    "refine": Kind(
        values=lambda task: {"skill": skill_line(task.skills[0]), "clusters": _lines(task)},
        schema=replies.REFINEMENT_REPLY, max_tokens=2000,
        parse=lambda task, text: parse_refinement(text),
    ),
}
