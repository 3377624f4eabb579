"""What one endpoint accepts, found out once: response format, logprobs, the name of the output limit, temperature."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

import orjson

from jobs.judging.endpoint import Answer, Endpoint
from jobs.judging.failures import EndpointRefused, Unsupported
from jobs.judging.labels import LabelStore
from schemas.replies import PAGE_REPLY

Format = Literal["json_schema", "json_object", "plain"]
_NEXT: dict[Format, Format] = {"json_schema": "json_object", "json_object": "plain"}
TOP_LOGPROBS = 5  # three grades, with room for two other spellings


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How requests to one endpoint and model are written; the defaults are the fullest form."""

    format: Format = "json_schema"
    logprobs: bool = True
    limit_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True

    def parameters(self, *, schema: Mapping[str, Any], max_tokens: int, temperature: float, seed: int | None) -> dict:
        """The request's parameters beside its messages."""
        body: dict[str, Any] = {self.limit_name: max_tokens}
        if self.temperature:
            body["temperature"] = temperature
        if seed is not None:
            body["seed"] = seed
        if self.logprobs:
            body |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
        if self.format == "json_schema":
            named = {"name": "reply", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        elif self.format == "json_object":
            body["response_format"] = {"type": "json_object"}
        return body


async def dialect_of(endpoint: Endpoint, store: LabelStore, *, address: str, model: str) -> Dialect:
    """The remembered dialect of this endpoint (by its address) and model, or a probe's result, which is remembered.

    A probe that finds the endpoint down waits as in any outage; Unanswered where it stays down.
    """
    name = _note_name(address, model)
    known = store.note(name)
    if known:
        return Dialect(**orjson.loads(known))
    found = await probe(partial(endpoint.ask, patient=True), model=model)
    store.remember(name, orjson.dumps(asdict(found)).decode())
    return found


def known_dialect(store: LabelStore, *, address: str, model: str) -> Dialect:
    """The remembered dialect, or the fullest form where nobody has asked yet (for plans, which send nothing)."""
    known = store.note(_note_name(address, model))
    return Dialect(**orjson.loads(known)) if known else Dialect(logprobs=False)


def _note_name(address: str, model: str) -> str:
    return f"dialect {address} {model}"


async def probe(ask: Callable[[Mapping[str, Any]], Awaitable[Answer]], *, model: str = "") -> Dialect:
    """Ask one small question in ever plainer forms until one is accepted (at most six forms).

    A form that a message names is dropped first. Raises EndpointRefused where no form is accepted.
    """
    dialect, message = Dialect(), ""
    while dialect is not None:
        body = dialect.parameters(schema=PAGE_REPLY, max_tokens=64, temperature=0.0, seed=None)
        try:
            answer = await ask({"messages": _QUESTION, **body, **({"model": model} if model else {})})
        except Unsupported as error:
            message = error.message
            dialect = _plainer(dialect, message)
            continue
        choices = answer.body.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        served = isinstance(first, Mapping) and bool(first.get("logprobs"))
        return replace(dialect, logprobs=dialect.logprobs and served)
    raise EndpointRefused(f"the endpoint takes no form of request ({message}): is its URL that of a chat API, /v1?")


_QUESTION = [
    {"role": "system", "content": "You are asked once whether you answer in JSON."},
    {"role": "user", "content": 'Reply with exactly {"grade": 1, "rationale": "probe", "cited": []}'},
]


def _plainer(dialect: Dialect, message: str) -> Dialect | None:
    if "max_completion_tokens" in message and dialect.limit_name == "max_tokens":
        return replace(dialect, limit_name="max_completion_tokens")
    if "temperature" in message and dialect.temperature:
        return replace(dialect, temperature=False)
    if dialect.logprobs and ("logprobs" in message or "response_format" not in message):
        return replace(dialect, logprobs=False)
    if dialect.format in _NEXT:
        return replace(dialect, format=_NEXT[dialect.format])
    return None
