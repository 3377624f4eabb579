"""Documents of a corpus with retrieval queries and qrels in which rewriting pays: see lexicon/documents.toml."""

import functools
import random
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

QUERIES_PER_DOCUMENT = 0.15
LONGEST = 6  # jargon terms of a domain; a document uses five of them in an order of its own


@dataclass(frozen=True, kw_only=True)
class Library:
    """documents, queries and qrels as lines of their files; `domain_of` (document id to domain) is truth, never a
    file.
    """

    documents: list[dict[str, Any]]
    queries: list[dict[str, Any]]
    qrels: list[dict[str, Any]]
    domain_of: dict[str, str]


def make_library(*, seed: int, corpus: str, documents: int) -> Library:
    """About `documents` documents: domains x scenes x forms, their ids in random order. No id or metadata tells a
    domain.
    """
    rng = random.Random(f"{seed}/{corpus}/documents")
    words = _words()
    part = words[corpus]
    scenes = words["scenes"][: max(2, round(documents / len(part["domains"]) / len(part["forms"])))]
    places = [(d, s, f) for d in part["domains"] for s in range(len(scenes)) for f in range(len(part["forms"]))]
    rng.shuffle(places)
    ids = {place: f"{corpus[:2]}-doc-{n:05d}" for n, place in enumerate(places)}
    made = [_document(ids[p], part["domains"][p[0]]["jargon"], scenes[p[1]], part["forms"][p[2]], rng) for p in places]
    asked = rng.sample(sorted({(d, s) for d, s, _ in places}), max(4, min(round(documents * QUERIES_PER_DOCUMENT), 60)))
    queries, qrels = [], []
    for n, (domain, scene) in enumerate(asked):
        name = f"{corpus[:2]}-need-{n:04d}"
        queries.append({"id": name, "text": _need(words, corpus, domain, scenes[scene], rng), "excluded_ids": []})
        relevant = [ids[domain, scene, f] for f in range(len(part["forms"]))]
        qrels += [{"query_id": name, "document_id": i, "grade": 2} for i in relevant]
    return Library(documents=made, queries=queries, qrels=qrels, domain_of={ids[p]: p[0] for p in places})


@functools.cache
def _words() -> dict:
    file = resources.files("jobs.simulate.lexicon") / "documents.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


def _document(id_: str, jargon: list[str], scene: str, form: str, rng: random.Random) -> dict[str, Any]:
    terms = {f"jargon{n}": term for n, term in enumerate(rng.sample(jargon, LONGEST - 1))}
    text = form.format_map({"scene": scene, **terms})
    return {
        "id": id_,
        "title": scene[0].upper() + scene[1:],
        "text": text[0].upper() + text[1:],
        "metadata": {"language": "en"},
    }


def _need(words: dict, corpus: str, domain: str, scene: str, rng: random.Random) -> str:
    part = words[corpus]
    stories = {f"story{n}": text for n, text in enumerate(rng.sample(words["stories"], 2))}
    fields = {"scene": scene, "plain": rng.choice(part["domains"][domain]["plain"]), **stories}
    return rng.choice(part["queries"]).format_map(fields)
