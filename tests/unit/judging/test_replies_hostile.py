"""Bodies that no server should send: each costs its own page at most, never the run."""

import json

import pytest

from jobs.judging.replies import read_reply


def body(content, **choice):
    return {"choices": [{"message": {"content": content}, "finish_reason": "stop", **choice}]}


GOOD = '{"grade":1,"rationale":"x","cited":[1]}'


@pytest.mark.parametrize(
    ("reply", "reason", "why"),
    [
        ({"choices": [{"message": "hi"}]}, "malformed", "a message that is no object"),
        (body([{"type": "text", "text": None}]), "empty", "a content part without text"),
        ({"choices": "x"}, "empty", "choices that are no list"),
        (body('{"grade":[1]}'), "malformed", "a grade that is a list"),
    ],
)
def test_a_body_without_a_grade_has_a_reason(reply, reason, why):
    verdict = read_reply(reply, rows=2)
    assert (verdict.label, verdict.reason) == (None, reason), why


@pytest.mark.parametrize(
    ("logprobs", "why"),
    [
        ("x", "text in place of an object"),
        ({"content": "x"}, "text in place of tokens"),
        ({"content": [None]}, "a token that is null"),
        (
            {"content": [{"token": GOOD, "top_logprobs": [{"token": GOOD[:10] + "1", "logprob": 9999}]}]},
            "a huge number",
        ),
        (None, "none served"),
    ],
)
def test_logprobs_that_cannot_be_read_leave_the_label(logprobs, why):
    verdict = read_reply(body(GOOD, logprobs=logprobs), rows=2)
    assert verdict.label == 0.5 and verdict.reason is None, why


@pytest.mark.parametrize(
    ("cited", "real", "invented"),
    [([[1], {"a": 1}, 1], (1,), 2), ([1, 1, 2], (1, 2), 0), ([True, "1", 9], (), 3), ([], (), 0)],
)
def test_citations_of_any_kind_are_counted(cited, real, invented):
    content = json.dumps({"grade": 1, "rationale": "x", "cited": cited})
    verdict = read_reply(body(content), rows=2)
    assert (verdict.label, verdict.cited, verdict.cited_invented) == (0.5, real, invented)
