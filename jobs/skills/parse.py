"""Replies of agents to values: each parser gives (value, "") or (None, problem); none raises for what a model wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from jobs.skills.skill import MAX_DESCRIPTION, MAX_NAME, Draft, Profile, Verdict, printable

Parsed = tuple[Any, str]
_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)

MAX_WORDS = 400  # of an instruction: a longer one would crowd the query out of a small context
MAX_DOMAINS = 100  # of a skill: routers read them all
MAX_DOMAIN = 200  # characters: a domain is a few words
MAX_REWRITE = 4000  # characters: more than any embedding model reads


def json_object(text: str) -> tuple[dict[str, Any] | None, str]:
    """The one JSON object of a reply, bare or fenced; what is cut off, a list or prose is a problem."""
    fenced = _FENCE.search(text)
    body = (fenced.group(1) if fenced else text).strip()
    if not body:
        return None, "empty reply"
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):  # the latter: brackets nested without end
        return None, "the reply is no JSON object"
    return (value, "") if isinstance(value, dict) else (None, f"the reply is a {type(value).__name__}, no JSON object")


def parse_profile(text: str) -> Parsed:
    """A Profile; both its words must be there."""
    return _from_object(text, lambda row: Profile(domain=_word(row, "domain"), content_type=_word(row, "content_type")))


def parse_proposal(text: str) -> Parsed:
    """A tuple of Drafts, those that are complete; a problem where none is."""

    def build(row: dict[str, Any]) -> tuple[Draft, ...]:
        listed = row.get("skills")
        if not isinstance(listed, list):
            raise ValueError("skills is no list")
        drafts = tuple(draft for one in listed if (draft := _draft_or_none(one)))
        if not drafts:
            raise ValueError("no complete skill in the reply")
        return drafts

    return _from_object(text, build)


def parse_mined(text: str) -> Parsed:
    """One Draft."""
    return _from_object(text, _draft)


def parse_refinement(text: str) -> Parsed:
    """A Draft without a name: description, instruction and domains."""
    return _from_object(text, lambda row: _draft({**row, "name": "refined"}))


def parse_verdict(text: str, *, cluster: int, skill_ids: Sequence[str]) -> Parsed:
    """A Verdict; covered and refine must name a skill that exists."""

    def build(row: dict[str, Any]) -> Verdict:
        kind, skill_id = row.get("verdict"), str(row.get("skill_id") or "")
        if kind not in ("covered", "refine", "new"):
            raise ValueError(f"verdict is {kind!r:.40}")
        if kind != "new" and skill_id not in skill_ids:
            raise ValueError(f"skill {skill_id!r:.60} does not exist")
        return Verdict(cluster=cluster, kind=kind, skill_id="" if kind == "new" else skill_id)

    return _from_object(text, build)


def parse_choice(text: str, *, offered: Sequence[str]) -> Parsed:
    """The id of one of the offered skills."""

    def build(row: dict[str, Any]) -> str:
        chosen = str(row.get("skill_id") or "")
        if chosen not in offered:
            raise ValueError(f"skill {chosen!r:.60} was not offered")
        return chosen

    return _from_object(text, build)


def parse_text(text: str, *, name: str) -> Parsed:
    """The text under `name`, white space folded, neither empty nor endless."""

    def build(row: dict[str, Any]) -> str:
        return _word(row, name)[:MAX_REWRITE]

    return _from_object(text, build)


def _from_object(text: str, build: Callable[[dict[str, Any]], Any]) -> Parsed:
    row, problem = json_object(text)
    if row is None:
        return None, problem
    try:
        return build(row), ""
    except ValueError as wrong:
        return None, str(wrong)


def _draft_or_none(row: Any) -> Draft | None:
    try:
        return _draft(row) if isinstance(row, dict) else None
    except ValueError:
        return None  # the proposal's other skills are taken; one that is incomplete is left out


def _draft(row: dict[str, Any]) -> Draft:
    domains = row.get("domains")
    if not isinstance(domains, list):
        raise ValueError("domains is no list")
    instruction = _word(row, "instruction")
    texts = (" ".join(printable(str(one)).split())[:MAX_DOMAIN].strip() for one in domains)
    return Draft(
        name=_word(row, "name")[:MAX_NAME].strip(),
        description=_word(row, "description")[:MAX_DESCRIPTION].strip(),
        instruction=" ".join(instruction.split()[:MAX_WORDS]),
        domains=tuple(dict.fromkeys(text for text in texts if text))[:MAX_DOMAINS],
    )


def _word(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    text = " ".join(printable(value).split()) if isinstance(value, str) else ""
    if not text:
        raise ValueError(f"{name} is missing or empty")
    return text
