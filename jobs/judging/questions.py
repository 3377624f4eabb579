"""Questions: one page under one variant, rendered, with the key under which its answer is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from jobs.judging.dialect import Dialect
from jobs.judging.inputs import CardRow, Page
from jobs.judging.prompts import PromptSet, least_similar_left_out, render
from jobs.judging.views import ShownRow, needs_plain, shown_rows
from schemas.replies import ITEM_REPLY, PAGE_REPLY

CHARACTERS_PER_TOKEN = 3.5  # of English prose it is about 4; JSON and other scripts need more tokens
BYTES_PER_TOKEN = 4.0  # of scripts with several bytes a character this is the larger estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What is asked: `prompt` is the user's message, `rows` the evidence in it, `cut` the rows left out of it."""

    asker: Asker
    page: Page
    variant: str
    key: bytes
    prompt: str
    rows: tuple[ShownRow, ...]
    cut: int = 0

    @property
    def item_count(self) -> int | None:
        """Results that an item judge must grade; None for a page judge."""
        return len(self.page.items) if self.asker.settings.prompts.kind == "item" else None


@dataclass(frozen=True, kw_only=True)
class AskSettings:
    """Everything beside the page that can change an answer."""

    model: str
    prompts: PromptSet
    dialect: Dialect
    temperature: float = 0.0
    max_output_tokens: int = 300
    context_tokens: int = 0
    sample: int = 0
    seed: int | None = None
    salt: str = ""


class Asker:
    """Makes questions and the requests that carry them; one per model and sample.

    `salt` names a purpose that wants answers of its own, such as a repeat of the same page.
    """

    def __init__(self, settings: AskSettings):
        self.settings = settings
        self.schema = ITEM_REPLY if settings.prompts.kind == "item" else PAGE_REPLY
        self._rubric = {"role": "system", "content": settings.prompts.rubric}
        self._parameters = self._with_budget(settings.max_output_tokens)
        asked = [settings.model, self._parameters, self.schema, settings.sample, settings.salt, settings.prompts.rubric]
        self._before = hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS) + b"\x00")
        self._fixed_tokens = estimate_tokens(settings.prompts.rubric) + 20

    def question(self, page: Page, rows: tuple[ShownRow, ...], *, variant: str) -> Question:
        """The question for `page`; where a context size is declared, the least similar rows that do not fit go."""
        prompt = render(self.settings.prompts, page, rows, variant=variant)
        kept = rows
        while kept and not self._fits(prompt):
            kept = least_similar_left_out(kept, keep=len(kept) - max(1, len(kept) // 8))
            prompt = render(self.settings.prompts, page, kept, variant=variant)
        return self._made(page, prompt, kept, variant=variant, cut=len(rows) - len(kept))

    def shorter(self, question: Question) -> Question | None:
        """The same question (and key) with half the evidence rows, the most similar ones; None if none are left."""
        if not question.rows:
            return None
        rows = least_similar_left_out(question.rows, keep=len(question.rows) // 2)
        cut = question.cut + len(question.rows) - len(rows)
        prompt = render(self.settings.prompts, question.page, rows, variant=question.variant)
        return replace(question, prompt=prompt, rows=rows, cut=cut)

    def body(self, question: Question, *, more_output: int = 1) -> Mapping[str, Any]:
        """The request's JSON; `more_output` multiplies the output budget after a reply that was cut off."""
        fixed = self._parameters
        if more_output > 1:
            fixed = self._with_budget(self.settings.max_output_tokens * more_output)
        messages = [self._rubric, {"role": "user", "content": question.prompt}]
        return {"model": self.settings.model, "messages": messages, **fixed}

    def tokens(self, question: Question) -> int:
        """Estimated prompt tokens."""
        return self._fixed_tokens + estimate_tokens(question.prompt)

    def _made(self, page: Page, prompt: str, rows: Sequence[ShownRow], *, variant: str, cut: int) -> Question:
        digest = self._before.copy()
        digest.update(prompt.encode("utf-8"))
        key = digest.digest()
        return Question(asker=self, page=page, variant=variant, key=key, prompt=prompt, rows=tuple(rows), cut=cut)

    def _fits(self, prompt: str) -> bool:
        room = self.settings.context_tokens
        return room <= 0 or self._fixed_tokens + estimate_tokens(prompt) + self.settings.max_output_tokens <= room

    def _with_budget(self, max_tokens: int) -> dict[str, Any]:
        s = self.settings
        return s.dialect.parameters(schema=self.schema, max_tokens=max_tokens, temperature=s.temperature, seed=s.seed)


@dataclass(frozen=True, kw_only=True, slots=True)
class RowQuestions:
    """What decides one row: a question per asker. `reused`: no evidence, so the question is plain's."""

    variant: str
    shown: int
    reused: bool
    questions: list[Question]


def row_questions(page: Page, rows: Sequence[CardRow], *, variant: str, askers: Sequence[Asker]) -> RowQuestions:
    """The questions of `page` under `variant` with the card `rows`."""
    shown = shown_rows(page, rows, variant=variant)
    reused = needs_plain(variant, shown)
    asked = [asker.question(page, shown, variant="plain" if reused else variant) for asker in askers]
    return RowQuestions(variant=variant, shown=len(shown), reused=reused, questions=asked)


def estimate_tokens(text: str) -> int:
    """Tokens of a text without its tokenizer: characters / 3.5, or bytes / 4 where that is more."""
    return int(max(len(text) / CHARACTERS_PER_TOKEN, len(text.encode("utf-8")) / BYTES_PER_TOKEN)) + 1
