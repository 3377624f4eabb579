"""Any OpenAI-compatible endpoint, asked patiently: one question in, one answer out, or the reason why there is none.

Uses the official `openai` package for transport. Its own retries are off: only the caller knows which failures may have
been billed, when a budget or a deadline ends, and when an outage is worth waiting for.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
import orjson
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from jobs.core.errors import UsageError
from jobs.judging.failures import EndpointRefused, Failure, PromptTooLong, Unanswered, Unsupported, failure_of
from jobs.judging.limits import Breaker, Gate, Pace

ATTEMPTS = 8  # of one call while the endpoint answers others: 20% random failures exhaust it once in 400,000 calls
PATIENT_WAIT_S = 1.0  # between tries of a question that is alone: the breaker soon opens, and then sets the pauses
LONGEST_WAIT_S = 600.0  # a longer Retry-After is a quota, not a pause: the call is tried again after this
_AS_JSON = {"headers": {"content-type": "application/json"}}


@dataclass(frozen=True, kw_only=True)
class EndpointSettings:
    """Where and how hard to ask. `model` is that of questions which name none; `run_deadline_s` counts from the
    first call, `max_outage_s` from an outage's start."""

    model: str = ""
    base_url: str = ""
    slots: int = 64
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    request_timeout_s: float = 60.0
    run_deadline_s: float = 6 * 3600.0
    max_outage_s: float = 1800.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The body of a chat completion, its time, and the earlier calls of the same question that may have been billed."""

    body: Mapping[str, Any]
    latency_ms: float
    lost: int = 0


class _TryAgain(Exception):
    """A failure after which the same question may be asked again, within `patience_s`, unless it was the last try."""

    def __init__(self, failure: Failure, *, last: bool, patience_s: float):
        super().__init__(failure.message)
        self.last, self.patience_s = last, patience_s


@dataclass(kw_only=True, slots=True)
class _Question:
    content: bytes
    tokens: int
    sending: Callable[[], None]
    unbilled: Callable[[], None]
    patient: bool = False
    attempts: int = 0
    lost: int = 0


def _nothing() -> None:
    return None


class Endpoint:
    """An open connection to one endpoint; use as `async with Endpoint(settings) as endpoint`.

    Concurrency adapts below `slots`, Retry-After holds everybody back, and an outage pauses all calls instead of
    failing them. `say` is told when the endpoint goes down and comes back. `calls` counts requests sent.
    """

    def __init__(
        self, settings: EndpointSettings, *, api_key: str | None = None, say: Callable[[str], None] | None = None
    ):
        self.settings = settings
        self.calls = 0
        self.last_failure = ""
        self._key = api_key if api_key is not None else find_key(settings.base_url)
        self._say = say or (lambda text: None)
        self._gate, self._breaker = Gate(slots=settings.slots), Breaker()
        self._requests = Pace(per_minute=settings.requests_per_minute)
        self._tokens = Pace(per_minute=settings.tokens_per_minute)
        self._not_before = 0.0
        self._deadline: float | None = None
        self._client = openai.AsyncOpenAI(
            api_key=self._key,
            base_url=checked_url(settings.base_url) or None,
            max_retries=0,
            timeout=settings.request_timeout_s,
        )

    async def __aenter__(self) -> Endpoint:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    @property
    def client(self) -> openai.AsyncOpenAI:
        """The package's client, for files and batches."""
        return self._client

    async def ask(
        self,
        body: Mapping[str, Any],
        *,
        tokens: int = 0,
        sending: Callable[[], None] = _nothing,
        unbilled: Callable[[], None] = _nothing,
        patient: bool = False,
    ) -> Answer:
        """Send one chat completion until it is answered.

        body: the request's JSON. tokens: estimate for the pace. `sending` is called before each call goes out,
        `unbilled` after each that certainly cost nothing. patient: nobody else asks meanwhile, so that failures in a
        row are an outage, to be waited for, and not this question's own bad luck. Raises Unanswered (with its reason),
        Unsupported, PromptTooLong, and EndpointRefused where no call can succeed.
        """
        content = orjson.dumps({"model": self.settings.model, **body})
        question = _Question(content=content, tokens=tokens, sending=sending, unbilled=unbilled, patient=patient)
        try:
            return await _RETRY(self._once, question)
        except _TryAgain as failed:
            raise Unanswered("endpoint", message=str(failed), lost=question.lost) from None

    async def _once(self, question: _Question) -> Answer:
        await self._gate.enter()
        try:
            await self._turn(question)
            self.calls += 1
            question.sending()
            begun = time.perf_counter()
            response = await self._post(question.content)
        except (openai.APIError, TimeoutError) as error:
            raise self._verdict(failure_of(error, secret=self._key), question) from None
        finally:
            self._gate.leave()
        self._gate.succeeded()
        self._reached()
        latency = (time.perf_counter() - begun) * 1000
        return Answer(body=_json(response.content), latency_ms=round(latency, 1), lost=question.lost)

    async def _post(self, content: bytes) -> httpx2.Response:
        """The time-out holds for the whole call: a body that drips for ever passes every time-out between bytes."""
        async with asyncio.timeout(self.settings.request_timeout_s):
            return await self._client.post(
                "/chat/completions", cast_to=httpx2.Response, content=content, options=_AS_JSON
            )

    async def _turn(self, question: _Question) -> None:
        """Wait until a call may be sent; Unanswered once the run's deadline or the longest outage has passed."""
        now = time.monotonic()
        self._deadline = self._deadline or now + self.settings.run_deadline_s
        delay = max(self._requests.delay(1), self._tokens.delay(question.tokens), self._not_before - now)
        if delay > 0:
            await asyncio.sleep(min(delay, max(0.0, self._deadline - now)))
        if self._breaker.open:
            await self._breaker.ready(until=min(self._deadline, self._breaker.opened_at + self.settings.max_outage_s))
        if time.monotonic() >= self._deadline:
            raise Unanswered("deadline", message="the run's deadline has passed", lost=question.lost)
        if self._breaker.outage_s >= self.settings.max_outage_s:
            raise Unanswered("endpoint", message=f"the endpoint stayed down ({self.last_failure})", lost=question.lost)

    def _verdict(self, failure: Failure, question: _Question) -> Exception:
        """What a failed call means for its question, for the other calls, and for the run."""
        self.last_failure = failure.message
        question.lost += failure.billed
        if not failure.billed:
            question.unbilled()
        if failure.overload:
            self._gate.was_busy()
        now = time.monotonic()
        self._not_before = max(self._not_before, now + min(failure.retry_after_s or 0.0, LONGEST_WAIT_S))
        if failure.kind in ("down", "lost"):
            self._unreached()
            question.attempts += not (self._breaker.open or question.patient)
            patience = PATIENT_WAIT_S if question.patient else self._deadline - now
            return _TryAgain(failure, last=question.attempts >= ATTEMPTS, patience_s=patience)
        self._reached()
        if failure.kind == "busy":
            return _TryAgain(failure, last=False, patience_s=self._deadline - now)
        return _final(failure, question)

    def _reached(self) -> None:
        if self._breaker.open:
            self._say(f"the endpoint answers again after {self._breaker.outage_s:.0f} s")
        self._breaker.succeeded()

    def _unreached(self) -> None:
        was_open = self._breaker.open
        self._breaker.failed()
        if self._breaker.open and not was_open:
            self._say(f"the endpoint is down ({self.last_failure}): waiting for it")


def find_key(base_url: str) -> str:
    """The API key from HINDCAST_API_KEY or OPENAI_API_KEY; "none" for an endpoint of one's own that needs no key."""
    key = os.environ.get("HINDCAST_API_KEY") or os.environ.get("OPENAI_API_KEY") or ""
    if not key and not base_url:
        raise UsageError("no API key: set HINDCAST_API_KEY, or name an endpoint of your own with --base-url")
    return key or "none"


def checked_url(base_url: str) -> str:
    """The base URL, refused where it is no http(s) URL or carries a password (it would reach logs and tables)."""
    if not base_url:
        return ""
    parts = urlsplit(base_url)
    if parts.username or parts.password:
        host = parts.hostname or ""
        raise UsageError(f"the base URL of {host} holds a user name or password: give keys in HINDCAST_API_KEY")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"base URL {base_url!r} is no http(s) URL: write it like http://127.0.0.1:8000/v1")
    return base_url


def _final(failure: Failure, question: _Question) -> Exception:
    match failure.kind:
        case "fatal":
            return EndpointRefused(f"the endpoint refuses every call ({failure.message}): check key, model and quota")
        case "too_long":
            return PromptTooLong(failure.message)
        case "unsupported":
            return Unsupported("endpoint", message=failure.message, lost=question.lost)
        case _:
            return Unanswered("refusal", message=failure.message, lost=question.lost)


def _json(content: bytes) -> Mapping[str, Any]:
    """The answer's object; a body that is none (a proxy's page) reads as a completion without JSON in it."""
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        body = None
    if isinstance(body, dict):
        return body
    return {"choices": [{"message": {"content": content[:200].decode("utf-8", "replace")}}]}


_BACK_OFF = wait_random_exponential(multiplier=0.5, max=30)  # full jitter: calls that failed together spread out


def _wait(state: RetryCallState) -> float:
    """Retry-After holds everybody back when the next turn is taken; here only calls that failed together spread out."""
    return min(_BACK_OFF(state), max(0.0, state.outcome.exception().patience_s))


_RETRY = AsyncRetrying(
    retry=retry_if_exception_type(_TryAgain),
    wait=_wait,
    stop=lambda state: state.outcome.exception().last,
    reraise=True,
)
