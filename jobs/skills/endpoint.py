"""The OpenAI-compatible endpoint of jobs.judging as the `Model` that skills ask: many requests at once, none raises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobs.judging.dialect import Dialect, probe
from jobs.judging.endpoint import Endpoint, EndpointSettings
from jobs.judging.failures import PromptTooLong, Unanswered
from jobs.skills.llm import Reply, Request

CHARACTERS_PER_TOKEN = 4  # for the pace only; bills come from the endpoint's own counts


class EndpointModel:
    """Asks one endpoint. Raises EndpointRefused only where no call can succeed (key, model, quota)."""

    def __init__(self, settings: EndpointSettings, *, say: Callable[[str], None] | None = None):
        self.name = settings.model
        self._settings, self._say = settings, say
        self._dialect: Dialect | None = None

    def complete(self, requests: Sequence[Request]) -> list[Reply]:
        """One reply a request, in order; at most `slots` are under way at once."""
        return asyncio.run(self._all(requests)) if requests else []

    async def _all(self, requests: Sequence[Request]) -> list[Reply]:
        async with Endpoint(self._settings, say=self._say) as endpoint:
            if self._dialect is None:
                self._dialect = replace(await probe(endpoint.ask), logprobs=False)
            return list(await asyncio.gather(*(self._one(endpoint, one) for one in requests)))

    async def _one(self, endpoint: Endpoint, request: Request) -> Reply:
        """Ask; a reply that was cut off is asked for once more with twice the room, where that is allowed."""
        first = await self._ask(endpoint, request)
        if first.problem != "cut off" or request.once:
            return first
        again = await self._ask(endpoint, replace(request, max_tokens=2 * request.max_tokens))
        return replace(
            again, calls=2, tokens_in=first.tokens_in + again.tokens_in, tokens_out=first.tokens_out + again.tokens_out,
            seconds=first.seconds + again.seconds,
        )

    async def _ask(self, endpoint: Endpoint, request: Request) -> Reply:
        body = self._dialect.parameters(
            schema=request.schema, max_tokens=request.max_tokens, temperature=request.temperature, seed=request.seed
        )
        roles = ({"role": "system", "content": request.system}, {"role": "user", "content": request.user})
        tokens = (len(request.system) + len(request.user)) // CHARACTERS_PER_TOKEN + request.max_tokens
        try:
            answer = await endpoint.ask({"messages": list(roles), **body}, tokens=tokens)
        except PromptTooLong:
            return Reply(problem="the prompt does not fit the model's context")
        except Unanswered as lost:
            return Reply(problem=f"{lost.reason}: {lost.message}", lost=lost.reason != "refusal")
        return read_completion(answer.body, seconds=answer.latency_ms / 1000)


def read_completion(body: Mapping[str, Any], *, seconds: float) -> Reply:
    """The text and token counts of a chat completion; empty, refused and cut-off replies are problems.

    Nothing that an endpoint sends is fatal: what has another form than the protocol's counts as not there.
    """
    usage, choices = _object(body.get("usage")), body.get("choices")
    choice = _object(choices[0] if isinstance(choices, list) and choices else None)
    message = _object(choice.get("message"))
    text = message.get("content") if isinstance(message.get("content"), str) else ""
    problem = "" if text.strip() else "empty reply"
    if choice.get("finish_reason") == "length":
        problem = "cut off"
    if message.get("refusal") or choice.get("finish_reason") == "content_filter":
        problem = "refusal"
    return Reply(
        text="" if problem else text.encode("utf-8", "replace").decode(), problem=problem, seconds=seconds,
        tokens_in=_count(usage.get("prompt_tokens")), tokens_out=_count(usage.get("completion_tokens")),
    )


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and 0 <= value < 1e15 else 0
