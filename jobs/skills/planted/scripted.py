"""A scripted language model: each reply is a pure function of the prompt's text; what it knows is the planted table.

It knows which words belong to a domain and what a domain calls everyday things, as a language model would; it applies
that only where the instruction in its prompt names the domain. It is a test double and is named so everywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from jobs.skills.llm import Reply, Request
from jobs.skills.planted.corpus import TYPES, words
from jobs.skills.skill import GENERIC

NAME = "scripted"


class ScriptedModel:
    """Answers every prompt of the skills step; `requests` keeps what it was asked."""

    name = NAME

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def complete(self, requests: Sequence[Request]) -> list[Reply]:
        """One reply a request; tokens are counted in words."""
        self.requests.extend(requests)
        return [_reply(one) for one in requests]


def _reply(request: Request) -> Reply:
    text = json.dumps(_ANSWERS[request.purpose](request.user), ensure_ascii=False)
    spent = len(request.system.split()) + len(request.user.split())
    return Reply(text=text, tokens_in=spent, tokens_out=len(text.split()))


def _characterise(user: str) -> dict[str, Any]:
    return {"domain": _domain(user), "content_type": _type(user)}


def _propose(user: str) -> dict[str, Any]:
    room = int(re.search(r"At most (\d+) skills", user).group(1))
    groups = _objects(_between(user, "Groups", "Skills that are there"))
    served = {name for one in _objects(user.split("Skills that are there", 1)[1]) for name in one["domains"]}
    sizes: dict[str, int] = {}
    for one in groups:
        sizes[one["domain"]] = sizes.get(one["domain"], 0) + one["documents"]
    wanted = [name for name in sorted(sizes, key=lambda name: (-sizes[name], name)) if name not in served | {"unknown"}]
    kinds = {name: sorted({one["content_type"] for one in groups if one["domain"] == name}) for name in wanted}
    return {"skills": [_skill(name, kinds[name]) for name in wanted[:room]]}


def _judge(user: str) -> dict[str, Any]:
    domain = _domain(_between(user, "Sampled texts", "Skills, one a line"))
    kind = json.loads(_between(user, "Profile: ", "\n"))["content_type"]
    for one in _objects(user.split("Skills, one a line", 1)[1]):
        if domain in one["domains"]:
            verdict = "covered" if kind in one["instruction"] or one["name"].endswith("by hand") else "refine"
            return {"verdict": verdict, "skill_id": one["skill_id"]}
    return {"verdict": "new", "skill_id": ""}


def _refine(user: str) -> dict[str, Any]:
    skill = json.loads(_between(user, "Skill: ", "\n\nGroups"))
    kinds = {one["content_type"] for one in _objects(user.split("Groups", 1)[1])}
    kinds |= {kind for kind in TYPES if kind in skill["instruction"]}
    return {key: _skill(skill["domains"][0], sorted(kinds))[key] for key in ("description", "instruction", "domains")}


def _route(user: str) -> dict[str, Any]:
    domain = _asker_domain(_query(user))
    skills = _objects(user.split("Skills, one a line", 1)[1])
    return {"skill_id": next((one["skill_id"] for one in skills if domain in one["domains"]), GENERIC)}


def _choose(user: str) -> dict[str, Any]:
    chosen = _route(user)["skill_id"]
    skills = _objects(user.split("Skills, one a line", 1)[1])
    return {"skill_id": skills[0]["skill_id"] if chosen == GENERIC else chosen}


def _rewrite(user: str) -> dict[str, Any]:
    instruction = json.loads(_between(user, "Instruction: ", "\n\nQuery: "))
    query = json.loads(_between(user, "Query: ", "\n\nFirst results"))
    named = [name for name in sorted(words()["domains"]) if re.search(rf"\b{name}\b", instruction)]
    everyday = next((one for one in words()["everyday"] if one in query), None)
    if not named or everyday is None:
        return {"rewrite": f"{query} and what it is called"}
    term = words()["domains"][named[0]]["terms"][words()["everyday"].index(everyday)]
    return {"rewrite": f"{term} in {named[0]}"}


def _passage(user: str) -> dict[str, Any]:
    return {"passage": f"This text explains {_query(user)} step by step."}


def _think(user: str) -> dict[str, Any]:
    return {"thought": "More detail helps.", "addition": f"details on {_query(user)}"}


def _mine(user: str) -> dict[str, Any]:
    return _skill(_domain(user), [_type(user)])


def _synthesise(user: str) -> dict[str, Any]:
    domain = _asker_domain(_query(user))
    skills = _objects(user.split("Skills near to it", 1)[1])
    fitting = [one["instruction"] for one in skills if domain in one["domains"]]
    return {"instruction": fitting[0] if fitting else "Say it more fully."}


def _skill(domain: str, kinds: Sequence[str]) -> dict[str, Any]:
    texts = " and ".join(kinds)
    return {
        "name": f"{domain} terms", "description": f"Use when somebody from {domain} asks in everyday words.",
        "instruction": f"Exchange everyday words for the term of art that {domain} has for them, as a {texts} would.",
        "domains": [domain],
    }


def _domain(text: str) -> str:
    """The domain whose terms and scenery the text holds most of; "unknown" where it holds none."""
    counts = {
        name: sum(text.count(word) for word in (*row["terms"], *row["scenery"]))
        for name, row in words()["domains"].items()
    }
    best = max(sorted(counts), key=lambda name: counts[name])
    return best if counts[best] else "unknown"


def _asker_domain(query: str) -> str | None:
    def asks(askers: Sequence[str]) -> bool:
        return any(re.search(rf"\b{one}\b", query) for one in askers)

    return next((name for name, row in words()["domains"].items() if asks(row["askers"])), None)


def _type(text: str) -> str:
    heads = {"case report": "Case report.", "handbook entry": "Handbook entry:", "question and answer": "Question:"}
    return max(TYPES, key=lambda kind: text.count(heads[kind]))


def _query(user: str) -> str:
    return json.loads(re.search(r"^Query: (.*)$", user, re.MULTILINE).group(1))


def _between(text: str, start: str, end: str) -> str:
    return text.split(start, 1)[1].split(end, 1)[0]


def _objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


_ANSWERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "characterise": _characterise, "propose": _propose, "judge": _judge, "refine": _refine, "route": _route,
    "choose": _choose, "rewrite": _rewrite, "passage": _passage, "think": _think, "mine": _mine,
    "synthesise": _synthesise,
}
