"""What the methods of one subject share, each thing made once: first results, rewrites by skill, rankings, scores."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from jobs.core.embedding import Encoder
from jobs.core.errors import UsageError
from jobs.skills.collection import Subject
from jobs.skills.llm import OFFLINE, Model, Reply, Request
from jobs.skills.metrics import CUT, ndcg_by_query
from jobs.skills.retrieval import Hit, Retriever
from jobs.skills.rewriting import Cost, Job, LlmRewriter, OfflineRewriter, Rewrite, RewriteOptions, Rewriter
from jobs.skills.skill import GENERIC, Cluster, Profile, Skill
from jobs.skills.terms import Lexicon

FEEDBACK = 5  # first results shown to the writer
LEXICON_TEXTS = 20_000  # documents that word frequencies are counted over


class Unavailable(Exception):
    """A method cannot be had here; its row is null with this reason, and the command goes on."""


@dataclass(frozen=True, kw_only=True)
class Extras:
    """Skill sets from elsewhere and what some methods need; empty where not given."""

    human: tuple[Skill, ...] = ()
    other: tuple[Skill, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    profiles: Mapping[int, Profile] = field(default_factory=dict)
    gains: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0


class TimedModel:
    """A model that counts the wall seconds spent waiting for it."""

    def __init__(self, model: Model):
        self.name, self._model, self.waited = model.name, model, 0.0

    def complete(self, requests: Sequence[Request]) -> list[Reply]:
        """Pass on, and time it."""
        begun = time.perf_counter()
        try:
            return self._model.complete(requests)
        finally:
            self.waited += time.perf_counter() - begun


class Bench:
    """One subject under one retriever and one set of skills; without a retriever, rewrites get no first results."""

    def __init__(
        self, subject: Subject, retriever: Retriever | None, skills: Sequence[Skill], *, encoder: Encoder,
        model: Model | None, options: RewriteOptions = RewriteOptions(), extras: Extras | None = None,
    ):
        self.subject, self.skills, self.encoder = subject, tuple(skills), encoder
        self.extras = extras or Extras()
        self._retriever = retriever
        self.model = TimedModel(model) if model else None
        self.rewriter = self._rewriter(options)
        self._rewrites: dict[tuple[str, str, bool], dict[str, Rewrite]] = {}
        self._scores: dict[tuple[str, ...], dict[str, float]] = {}

    @property
    def retriever(self) -> Retriever:
        """The retriever; UsageError where no documents were given."""
        if self._retriever is None:
            raise UsageError("this method looks at retrieved documents: give --documents")
        return self._retriever

    @property
    def name(self) -> str:
        """Who writes: a model, or offline-baseline."""
        return self.model.name if self.model else OFFLINE

    @property
    def index_facts(self) -> dict[str, bool | float | None]:
        """Whether the search is exact, and the recall where it is not."""
        there = self._retriever
        return {"exact": there.exact if there else None, "recall": there.recall if there else None}

    def needs_model(self, what: str) -> Model:
        """The model, or Unavailable."""
        if self.model is None:
            raise Unavailable(f"{what} needs a language model: give --base-url and --model")
        return self.model

    @cached_property
    def first_hits(self) -> dict[str, list[Hit]]:
        """The ranking of each original query."""
        return self.search({one.id: one.text for one in self.subject.queries})

    @cached_property
    def first_texts(self) -> dict[str, tuple[str, ...]]:
        """The texts of each original query's first results."""
        return {name: self.texts(hits[:FEEDBACK]) for name, hits in self.first_hits.items()}

    def texts(self, hits: Sequence[Hit]) -> tuple[str, ...]:
        """The contents of hits."""
        return tuple(self.retriever.document(one.document_id).content for one in hits)

    def search(self, texts: Mapping[str, str], *, depth: int = CUT) -> dict[str, list[Hit]]:
        """The ranking of each text by query id, without the query's excluded documents."""
        queries = self.subject.queries
        excluded = [one.excluded_ids for one in queries]
        hits = self.retriever.search([texts[one.id] for one in queries], depth=depth, excluded=excluded)
        return {one.id: found for one, found in zip(queries, hits, strict=True)}

    def score(self, texts: Mapping[str, str]) -> dict[str, float]:
        """nDCG@10 of each labelled query under the given texts."""
        if not self.subject.qrels.grades:
            return {}
        key = tuple(texts[one.id] for one in self.subject.queries)
        if key not in self._scores:
            self._scores[key] = ndcg_by_query(self.search(texts), self.subject.qrels)
        return self._scores[key]

    def rewrites(self, skill: Skill | None, *, feedback: bool = True) -> dict[str, Rewrite]:
        """The rewrite of every query under one skill (None: the generic instruction)."""
        key = (skill.skill_id if skill else GENERIC, skill.instruction if skill else "", feedback)
        if key not in self._rewrites:
            jobs = [self.job(one.id, skill, feedback=feedback) for one in self.subject.queries]
            self._rewrites[key] = {one.query_id: one for one in self.rewriter.rewrite(jobs)}
        return self._rewrites[key]

    def routed(self, choices: Mapping[str, Skill | None], *, feedback: bool = True) -> dict[str, Rewrite]:
        """The rewrite of each query under the skill chosen for it; made only where not there yet."""
        found, missing = {}, []
        for name, skill in choices.items():
            key = (skill.skill_id if skill else GENERIC, skill.instruction if skill else "", feedback)
            if key in self._rewrites:
                found[name] = self._rewrites[key][name]
            else:
                missing.append(self.job(name, skill, feedback=feedback))
        return {**found, **{one.query_id: one for one in self.rewriter.rewrite(missing)}}

    def job(self, query_id: str, skill: Skill | None, *, feedback: bool = True) -> Job:
        """What to rewrite: query, skill and, with feedback, the texts of its first results."""
        return Job(query=self._queries[query_id], skill=skill, texts=self.first_texts[query_id] if feedback else ())

    def skill_scores(self) -> dict[str, dict[str, float]]:
        """nDCG@10 by skill (the generic instruction among them) and query."""
        options: list[Skill | None] = [None, *self.skills]
        return {
            one.skill_id if one else GENERIC: self.score(texts_of(self.rewrites(one))) for one in options
        }

    def all_skills_cost(self) -> dict[str, Cost]:
        """By query: what rewriting with every skill and the generic instruction costs."""
        sets = [self.rewrites(one) for one in (None, *self.skills)]
        return {one.id: sum((some[one.id].cost for some in sets), Cost()) for one in self.subject.queries}

    @cached_property
    def _queries(self) -> dict[str, object]:
        return {one.id: one for one in self.subject.queries}

    def _rewriter(self, options: RewriteOptions) -> Rewriter:
        if self.model is not None:
            return LlmRewriter(self.model, options=options)
        documents = self._retriever.documents if self._retriever else ()
        step = max(1, len(documents) // LEXICON_TEXTS)
        return OfflineRewriter(Lexicon.of(one.content for one in documents[::step]), encoder=self.encoder)


def texts_of(rewrites: Mapping[str, Rewrite]) -> dict[str, str]:
    """Query id to the text that retrieves."""
    return {name: one.text for name, one in rewrites.items()}
