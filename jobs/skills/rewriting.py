"""One rewrite of a query under one instruction, with the first results of the original query as feedback.

A failed rewrite falls back to the original query and says why. A rewrite replaces the query, unless it is joined to it
(always so for several samples, and for templates, which only add words).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jobs.core.embedding import Encoder
from jobs.core.errors import UsageError
from jobs.skills.agents import texts_of
from jobs.skills.documents import RetrievalQuery
from jobs.skills.llm import OFFLINE, Model, Reply, Request
from jobs.skills.parse import parse_text
from jobs.skills.prompts import FOLDER, load_prompt
from jobs.skills.skill import GENERIC, Skill
from jobs.skills.terms import Lexicon, words
from schemas.skill_replies import REWRITE_REPLY

LEAST = 2  # first results that must hold the word that a template adds: a single one may be about anything
TELLING = 1.0  # weight of such a word, log(N / df): commoner ones say nothing
CANDIDATES = 10  # words that are compared with the query
TEMPLATE = 2  # its version: what was measured with another one is measured anew
NO_WORD = "no word that its first results share fits"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What was spent; tokens as the endpoint counted them, seconds of its calls."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        """Both together."""
        return Cost(
            calls=self.calls + other.calls, tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out, seconds=self.seconds + other.seconds,
        )

    @classmethod
    def of(cls, reply: Reply) -> Cost:
        """The cost of one reply, as when it was bought."""
        return cls(calls=reply.calls, tokens_in=reply.tokens_in, tokens_out=reply.tokens_out, seconds=reply.seconds)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A query to rewrite under a skill (None: the generic instruction), with the texts of its first results."""

    query: RetrievalQuery
    skill: Skill | None = None
    texts: tuple[str, ...] = ()

    @property
    def skill_id(self) -> str:
        """The skill's id, or "generic"."""
        return self.skill.skill_id if self.skill else GENERIC


@dataclass(frozen=True, kw_only=True)
class Rewrite:
    """What retrieves: `text`. `fallback` says why it is the original query, and is None otherwise."""

    query_id: str
    skill_id: str
    text: str
    fallback: str | None = None
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True, kw_only=True)
class RewriteOptions:
    """How a model rewrites. samples above 1 need a temperature above 0, and are joined to the query."""

    temperature: float = 0.0
    samples: int = 1
    join: bool = False

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise UsageError(f"samples is {self.samples}: it must be 1 or more")
        if self.samples > 1 and self.temperature <= 0:
            raise UsageError(f"{self.samples} samples at temperature 0 are all alike: set the temperature to 0.7")

    @property
    def joined(self) -> bool:
        """True where the query stays in front of what was written."""
        return self.join or self.samples > 1


class Rewriter(Protocol):
    """Who rewrites."""

    name: str

    def rewrite(self, jobs: Sequence[Job]) -> list[Rewrite]:
        """One rewrite a job, in order."""


def generic_instruction() -> str:
    """The instruction that knows nothing of the corpus."""
    return (FOLDER / "generic.txt").read_text(encoding="utf-8").strip()


class LlmRewriter:
    """Rewrites with a language model."""

    def __init__(self, model: Model, *, options: RewriteOptions = RewriteOptions()):
        self.name, self.options = model.name, options
        self._model, self._prompt, self._generic = model, load_prompt("rewrite"), generic_instruction()

    def rewrite(self, jobs: Sequence[Job]) -> list[Rewrite]:
        """One rewrite a job; its samples are asked together with those of all jobs."""
        requests = [self._request(job, sample) for job in jobs for sample in range(self.options.samples)]
        replies = self._model.complete(requests) if requests else []
        step = self.options.samples
        return [self._read(job, replies[n * step : (n + 1) * step]) for n, job in enumerate(jobs)]

    def _request(self, job: Job, sample: int) -> Request:
        instruction = job.skill.instruction if job.skill else self._generic
        values = {"instruction": instruction, "query": job.query.text, "texts": texts_of(job.texts)}
        return Request(
            purpose="rewrite", system=self._prompt.system, user=self._prompt.fill(values), schema=REWRITE_REPLY,
            temperature=self.options.temperature, seed=sample, sample=sample,
        )

    def _read(self, job: Job, replies: Sequence[Reply]) -> Rewrite:
        read = [(None, one.problem) if one.problem else parse_text(one.text, name="rewrite") for one in replies]
        texts = [text for text, _ in read if text]
        cost = sum((Cost.of(one) for one in replies), Cost())
        return rewritten(job, texts, joined=self.options.joined, cost=cost, problem=read[0][1])


class OfflineRewriter:
    """Templates in place of a model: the query and the one word more that its first results and the skill agree on.

    Of the words that at least two first results hold (and, with a skill, that are the skill's own) the one nearest to
    the query by the retriever's vectors; without first results, of the skill's own. No such word: the query as it is.
    One word, because each further one turns the vector away from what was asked.
    """

    name = OFFLINE

    def __init__(self, lexicon: Lexicon, *, encoder: Encoder):
        self._lexicon, self._encoder = lexicon, encoder

    def rewrite(self, jobs: Sequence[Job]) -> list[Rewrite]:
        """One rewrite a job; it falls back to the query where no word fits."""
        candidates = [self._candidates(job) for job in jobs]
        vocabulary = sorted({word for some in candidates for word in some})
        vectors = dict(zip(vocabulary, self._encoder.encode(vocabulary), strict=True)) if vocabulary else {}
        asked = self._encoder.encode([job.query.text for job in jobs], kind="query") if vocabulary else [()] * len(jobs)
        words_added = [
            max(some, key=lambda word: (float(vectors[word] @ query), word), default="")
            for some, query in zip(candidates, asked, strict=True)
        ]
        return [
            rewritten(job, [word], joined=True, cost=Cost(), problem=NO_WORD)
            for job, word in zip(jobs, words_added, strict=True)
        ]

    def _candidates(self, job: Job) -> list[str]:
        asked = set(words(job.query.text))
        own = [word for one in (job.skill.domains if job.skill else ()) for word in words(one) if word not in asked]
        if not job.texts:
            return list(dict.fromkeys(own))
        counts = Counter(word for text in job.texts for word in set(words(text)) - asked)
        held = [word for word, number in counts.items() if number >= LEAST]
        if job.skill:
            return [word for word in held if word in own]
        weight = {word: self._lexicon.weight(word) for word in held}
        telling = [word for word in held if weight[word] > TELLING]
        return sorted(telling, key=lambda word: (-counts[word] * weight[word], word))[:CANDIDATES]


def rewritten(job: Job, texts: Sequence[str], *, joined: bool, cost: Cost, problem: str) -> Rewrite:
    """The rewrite made of what was written; without any usable text the original query, with the problem."""
    empty = not job.query.text.strip()
    usable = [text for text in texts if text.strip() and not empty]
    if not usable:
        reason = "the query holds no text" if empty else problem or "nothing was written"
        return Rewrite(query_id=job.query.id, skill_id=job.skill_id, text=job.query.text, fallback=reason, cost=cost)
    text = " ".join([job.query.text, *usable] if joined else usable)
    return Rewrite(query_id=job.query.id, skill_id=job.skill_id, text=text, cost=cost)
