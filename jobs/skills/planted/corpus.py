"""A planted corpus: domains x content types, and queries that differ from their documents by one rule a domain.

A query says an everyday phrase and who asks; the documents say the domain's own term. The rule "name the term of art of
this domain" is what one skill describes. No id and no metadata tells domain, term or type.
"""

from __future__ import annotations

import functools
import random
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jobs.skills.collection import Subject
from jobs.skills.documents import Document, RetrievalQuery
from jobs.skills.labels import Qrels
from jobs.skills.skill import Skill, skill_id_of

TYPES = {
    "case report": "Case report. We met {term}; {a} and {b} were looked at before {c}, and {d} afterwards.",
    "handbook entry": "Handbook entry: {term}. See under {a} and {b}; mind the {c} and the {d}.",
    "question and answer": "Question: how does one recognise {term}? Answer: look at {a}, then {b}, {c} and {d}.",
}
QUERIES = (
    "what does a {asker} do about {everyday}",
    "{everyday}, explained to a {asker}",
    "a {asker} worries about {everyday}",
)


@dataclass(frozen=True, kw_only=True)
class Planted:
    """The corpus as a subject, its domains, and the skills that a person would write for it."""

    subject: Subject
    domains: tuple[str, ...]
    human: tuple[Skill, ...]


def make_planted(*, seed: int, domains: int = 5, copies: int = 2, queries_per_domain: int = 16) -> Planted:
    """A corpus of `domains` domains drawn by seed: every term in every content type, `copies` times.

    At most 24 queries a domain: eight everyday phrases in three wordings.
    """
    rng = random.Random(f"planted/{seed}")
    chosen = tuple(sorted(rng.sample(sorted(words()["domains"]), domains)))
    return _planted(chosen, rng, copies, queries_per_domain)


def make_other(planted: Planted, *, seed: int, copies: int = 2) -> Planted:
    """A corpus of the domains that `planted` does not have: the control."""
    rng = random.Random(f"other/{seed}")
    return _planted(tuple(sorted(set(words()["domains"]) - set(planted.domains))), rng, copies, 0)


@functools.cache
def words() -> Mapping[str, Any]:
    """The table behind the corpus, and behind what the scripted model knows of the world."""
    return tomllib.loads(resources.files("jobs.skills.planted").joinpath("words.toml").read_text(encoding="utf-8"))


def human_skill(domain: str) -> Skill:
    """The skill that a person would write for a domain."""
    return Skill(
        skill_id=skill_id_of(f"{domain} terms by hand"), name=f"{domain} terms by hand",
        description=f"Use when somebody from {domain} asks in everyday words.",
        instruction=f"Exchange everyday words for the term of art that {domain} has for them.", domains=(domain,),
        origin="human",
    )


def _planted(chosen: tuple[str, ...], rng: random.Random, copies: int, queries_per_domain: int) -> Planted:
    places = [(d, t, kind) for d in chosen for t in range(8) for kind in TYPES for _ in range(copies)]
    rng.shuffle(places)
    ids = [f"d{n:05d}" for n in range(len(places))]
    documents = tuple(Document(id=name, text=_text(*place, rng)) for name, place in zip(ids, places, strict=True))
    ways = [(t, form) for t in range(8) for form in QUERIES]
    asked = [(d, *way) for d in chosen for way in rng.sample(ways, min(len(ways), queries_per_domain))]
    rng.shuffle(asked)
    queries = tuple(RetrievalQuery(id=f"q{n:04d}", text=_query(*one, rng)) for n, one in enumerate(asked))
    grades = {
        query.id: {name: 1 for name, (d, t, _) in zip(ids, places, strict=True) if (d, t) == one[:2]}
        for query, one in zip(queries, asked, strict=True)
    }
    subject = Subject(name="", documents=documents, queries=queries, qrels=Qrels(grades))
    return Planted(subject=subject, domains=chosen, human=tuple(human_skill(one) for one in chosen))


def _text(domain: str, term: int, kind: str, rng: random.Random) -> str:
    row = words()["domains"][domain]
    a, b, c, d = rng.sample(row["scenery"], 4)
    return TYPES[kind].format(term=row["terms"][term], a=a, b=b, c=c, d=d)


def _query(domain: str, term: int, form: str, rng: random.Random) -> str:
    asker = rng.choice(words()["domains"][domain]["askers"])
    return form.format(asker=asker, everyday=words()["everyday"][term])
