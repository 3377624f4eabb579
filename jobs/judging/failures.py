"""What a failed call means: wait, give up on this page, or stop the run; and whether it may have been billed."""

from __future__ import annotations

import email.utils
import re
import time
from dataclasses import dataclass
from typing import Any, Literal

import openai

from jobs.core.errors import HindcastError

Kind = Literal["busy", "down", "lost", "too_long", "refused", "unsupported", "fatal"]


class EndpointRefused(HindcastError):
    """The endpoint turns every call away (key, model, quota): asking on would change nothing."""


class PromptTooLong(Exception):
    """The prompt does not fit the model's context; the call was not billed."""


class Unanswered(HindcastError):
    """A call ended without an answer: `reason` is endpoint, deadline or refusal; `lost` calls may have been billed."""

    def __init__(self, reason: str, *, message: str, lost: int = 0):
        super().__init__(message)
        self.reason, self.message, self.lost = reason, message, lost


class Unsupported(Unanswered):
    """The endpoint does not take a request of this form (HTTP 400, 422, 501)."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failed call. `retry_after_s` is what the server asked for; `billed` is True where it may cost money; `overload`
    where fewer calls at once would help."""

    kind: Kind
    message: str
    retry_after_s: float | None = None
    billed: bool = False
    overload: bool = False


_TOO_LONG = re.compile(
    r"context.{0,20}(length|size|window)|exceed.{0,20}context|too (long|many tokens)|maximum.{0,20}token", re.IGNORECASE
)
_KEY = re.compile(r"\b(?:sk|pk|rk|key)-[A-Za-z0-9_\-*]{4,}|[Bb]earer\s+\S+")
_QUOTA = {"insufficient_quota", "billing_hard_limit_reached", "model_not_found"}
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol"}


def failure_of(error: BaseException, *, secret: str = "") -> Failure:
    """The meaning of an error of the openai package (or of a total time-out); messages never hold keys."""
    if isinstance(error, openai.APIStatusError):
        return _of_status(error, secret=secret)
    name = type(error.__cause__ or error).__name__
    message = redacted(f"{name}: {error.__cause__ or error}", secret=secret)
    if name in _NEVER_SENT:
        return Failure(kind="down", message=message)
    slow = isinstance(error, openai.APITimeoutError | TimeoutError)
    return Failure(kind="lost", message=message, billed=True, overload=slow)


def redacted(text: str, *, secret: str = "") -> str:
    """`text` on one line, at most 300 characters, without the key and anything that looks like one."""
    if secret and secret != "none":
        text = text.replace(secret, "[key]")
    return _KEY.sub("[key]", " ".join(text.split()))[:300]


def retry_after_s(headers: Any, *, now: float | None = None) -> float | None:
    """Seconds that the server asks to wait: Retry-After in seconds or as a date, or retry-after-ms; else None."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return None if seconds is None else max(0.0, seconds)
    try:
        moment = email.utils.parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None
    return max(0.0, moment - (time.time() if now is None else now))


def _of_status(error: openai.APIStatusError, *, secret: str) -> Failure:
    status, code = error.status_code, str(getattr(error, "code", "") or "")
    text = f"HTTP {status} {code} {error.message}"
    message = redacted(text, secret=secret)
    if status in (401, 403, 404) or code in _QUOTA:
        return Failure(kind="fatal", message=message)
    if status == 429:
        wait = retry_after_s(error.response.headers)
        return Failure(kind="busy", message=message, retry_after_s=wait, overload=True)
    if status in (408, 409, 425) or (status >= 500 and status != 501):
        wait = retry_after_s(error.response.headers)
        return Failure(kind="down", message=message, retry_after_s=wait, overload=status in (503, 529))
    if status == 413 or _TOO_LONG.search(text):
        return Failure(kind="too_long", message=message)
    if "content_filter" in text or "content_policy" in text:
        return Failure(kind="refused", message=message)
    return Failure(kind="unsupported", message=message)


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
