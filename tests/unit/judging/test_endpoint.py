"""The client: what a failed call means, how long is waited, and that keys go nowhere."""

import asyncio
import time

import httpx2
import openai
import pytest

from jobs.core.errors import UsageError
from jobs.judging import endpoint as module
from jobs.judging.dialect import Dialect, probe
from jobs.judging.endpoint import Endpoint, EndpointSettings, checked_url, find_key
from jobs.judging.failures import EndpointRefused, PromptTooLong, Unanswered, failure_of, redacted, retry_after_s
from tests.unit.judging.scripted import GOOD, completion, endpoint

BODY = {"messages": [{"role": "user", "content": "a page"}]}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(module, "_BACK_OFF", lambda state: 0.01)


def ask(url, *, times=1, key="none", **settings):
    async def run():
        async with Endpoint(EndpointSettings(model="m", base_url=url, **settings), api_key=key) as client:
            done = await asyncio.gather(*(client.ask(BODY) for _ in range(times)), return_exceptions=True)
            return done, client

    done, client = asyncio.run(run())
    errors = [one for one in done if isinstance(one, BaseException)]
    if errors:
        raise errors[0]
    return done[0] if times == 1 else client


@pytest.mark.parametrize("status", [429, 500, 502, 503, 408])
def test_passing_failures_are_asked_again(status):
    script = lambda body, nth: (status, {"error": {"message": "x"}}) if nth < 2 else (200, completion(GOOD))  # noqa: E731
    with endpoint(script) as (url, calls):
        answer = ask(url)
    assert len(calls) == 3
    assert answer.lost == 0  # none of these was billed


def test_a_dropped_connection_may_have_been_billed():
    with endpoint(lambda body, nth: ("drop", None) if nth == 0 else (200, completion(GOOD))) as (url, calls):
        answer = ask(url)
    assert (len(calls), answer.lost) == (2, 1)


def test_a_body_that_takes_too_long_is_given_up_and_may_have_been_billed():
    def script(body, nth):
        if nth == 0:
            time.sleep(0.6)
        return 200, completion(GOOD)

    with endpoint(script) as (url, _):
        assert ask(url, request_timeout_s=0.3).lost == 1


@pytest.mark.parametrize(
    ("headers", "least"), [({"retry-after": "0.5"}, 0.5), ({"retry-after-ms": "300"}, 0.3), ({}, 0.0)]
)
def test_retry_after_is_honoured(headers, least):
    script = lambda body, nth: (429, {"error": {}}, headers) if nth == 0 else (200, completion(GOOD))  # noqa: E731
    with endpoint(script) as (url, _):
        begun = time.monotonic()
        ask(url)
    assert least <= time.monotonic() - begun < least + 2


@pytest.mark.parametrize(
    ("status", "code"), [(401, ""), (403, ""), (404, "model_not_found"), (429, "insufficient_quota")]
)
def test_what_cannot_succeed_stops_the_run_at_once(status, code):
    with (
        endpoint(lambda body, nth: (status, {"error": {"message": "no", "code": code}})) as (url, calls),
        pytest.raises(EndpointRefused, match="check key, model and quota"),
    ):
        ask(url)
    assert len(calls) == 1


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens",
        "the request exceeds the available context size",
        "prompt is too long",
    ],
)
def test_too_long_is_told_apart(message):
    with endpoint(lambda body, nth: (400, {"error": {"message": message}})) as (url, _), pytest.raises(PromptTooLong):
        ask(url)


def test_a_page_that_always_fails_gives_up_alone():
    def script(body, nth):
        return (500, {}) if body["messages"][0]["content"] == "poison" else (200, completion(GOOD))

    async def run(url):
        async with Endpoint(EndpointSettings(base_url=url, slots=2)) as client:
            poison = asyncio.ensure_future(client.ask({"messages": [{"role": "user", "content": "poison"}]}))
            while not poison.done():
                await client.ask(BODY)
            return poison.exception()

    with endpoint(script) as (url, calls):
        failed = asyncio.run(run(url))
    assert failed.reason == "endpoint"
    assert "500" in failed.message
    assert calls.prompts.count("poison") == module.ATTEMPTS


def test_an_endpoint_that_stays_down_ends_with_a_reason():
    with pytest.raises(Unanswered, match="stayed down") as failed:
        ask("http://127.0.0.1:9/v1", times=12, max_outage_s=0.5)
    assert failed.value.reason == "endpoint"


def test_the_deadline_of_the_run_ends_waiting():
    with endpoint(lambda body, nth: (429, {}, {"retry-after": "30"})) as (url, _):
        begun = time.monotonic()
        with pytest.raises(Unanswered) as failed:
            ask(url, run_deadline_s=0.4)
    assert failed.value.reason == "deadline"
    assert time.monotonic() - begun < 5


def test_a_proxy_page_reads_as_a_reply_without_json():
    with endpoint(lambda body, nth: (200, b"<html>bad gateway</html>")) as (url, _):
        assert "bad gateway" in ask(url).body["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3", 3.0), ("0.5", 0.5), ("-1", 0.0), ("soon", None), ("Thu, 01 Jan 1970 00:01:00 GMT", 50.0), (None, None)],
)
def test_retry_after_is_read_in_every_form(text, seconds):
    headers = httpx2.Headers({"retry-after": text} if text else {})
    assert retry_after_s(headers, now=10.0) == seconds


def test_keys_never_stand_in_messages():
    secret = "sk-planted-0123456789abcdef"
    with (
        endpoint(lambda body, nth: (401, {"error": {"message": f"Incorrect API key provided: {secret}"}})) as (
            url,
            calls,
        ),
        pytest.raises(EndpointRefused) as failed,
    ):
        ask(url, key=secret)
    assert calls[0]["headers"]["authorization"] == f"Bearer {secret}"
    assert secret not in str(failed.value)
    assert "[key]" in str(failed.value)
    assert redacted("Authorization: Bearer abc.def", secret="") == "Authorization: [key]"
    assert redacted("key plain-secret!", secret="plain-secret!") == "key [key]"


def test_failures_before_anything_was_sent_are_free():
    error = openai.APIConnectionError(request=httpx2.Request("POST", "http://x"))
    error.__cause__ = httpx2.ConnectError("refused")
    assert failure_of(error).billed is False
    error.__cause__ = httpx2.ReadError("gone")
    assert failure_of(error).billed is True


@pytest.mark.parametrize("url", ["http://user:secret@host/v1", "ftp://host/v1", "host:8000/v1", "http://"])
def test_urls_that_cannot_work_are_refused_without_repeating_passwords(url):
    with pytest.raises(UsageError) as error:
        checked_url(url)
    assert "secret" not in str(error.value)


def test_a_key_is_needed_for_a_public_endpoint_only(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("HINDCAST_API_KEY", raising=False)
    assert find_key("http://127.0.0.1:1/v1") == "none"
    with pytest.raises(UsageError, match="HINDCAST_API_KEY"):
        find_key("")


REFUSES = {
    "everything": lambda body: False,
    "logprobs": lambda body: "logprobs" in body,
    "json_schema": lambda body: body.get("response_format", {}).get("type") == "json_schema",
    "any format": lambda body: "response_format" in body,
    "max_tokens": lambda body: "max_tokens" in body,
    "temperature": lambda body: "temperature" in body,
}


@pytest.mark.parametrize(
    ("refuses", "message", "expected"),
    [
        ("everything", "", Dialect(logprobs=False)),
        ("logprobs", "logprobs is not supported", Dialect(logprobs=False)),
        ("json_schema", "response_format json_schema unknown", Dialect(format="json_object", logprobs=False)),
        ("any format", "bad request", Dialect(format="plain", logprobs=False)),
        ("max_tokens", "use max_completion_tokens", Dialect(limit_name="max_completion_tokens", logprobs=False)),
        ("temperature", "temperature must be 1", Dialect(temperature=False, logprobs=False)),
    ],
)
def test_the_probe_finds_what_an_endpoint_takes(refuses, message, expected):
    def script(body, nth):
        refused = REFUSES[refuses](body)
        return (400, {"error": {"message": message}}) if refused else (200, completion(GOOD))

    assert probed(script) == expected


def test_logprobs_are_kept_where_they_are_served():
    body = completion(GOOD)
    body["choices"][0]["logprobs"] = {"content": []}
    body["choices"][0]["logprobs"]["content"].append({"token": "1", "top_logprobs": []})
    assert probed(lambda request, nth: (200, body)) == Dialect()


def test_an_endpoint_that_takes_nothing_is_refused():
    with pytest.raises(EndpointRefused, match="no form of request"):
        probed(lambda body, nth: (422, {"error": {"message": "no"}}))


def probed(script):
    """The dialect that a probe finds, the script answering the probe's own calls."""

    async def run(url):
        async with Endpoint(EndpointSettings(model="m", base_url=url)) as client:
            return await probe(lambda body: client.ask({**body, "messages": BODY["messages"]}))

    with endpoint(script) as (url, _):
        return asyncio.run(run(url))
