"""Replies: an offered label, or a reason; nothing is guessed, clamped or defaulted."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.judging.replies import read_reply
from schemas.judgments import LABELS, REASONS


def reply(content, *, finish="stop", logprobs=None, **message):
    choice = {"finish_reason": finish, "message": {"content": content, **message}, "logprobs": logprobs}
    return {"choices": [choice]}


def graded(grade, **other):
    return json.dumps({"grade": grade, "rationale": "r", "cited": [], **other})


@pytest.mark.parametrize(
    ("content", "label"),
    [
        (graded(0), 0.0),
        (graded(1), 0.5),
        (graded(2), 1.0),
        ("  \n" + graded(1) + "\n", 0.5),  # white space around
        ('{"grade": 1.0}', 0.5),  # JSON has one kind of number
        ("```json\n" + graded(2) + "\n```", 1.0),  # fenced
        ('```json {"label": 1}```', 1.0),  # fenced on one line, label instead of grade
        ("```\n" + graded(0) + "\n```", 0.0),
        ("Here it is:\n```json\n" + graded(1) + "\n```\nHope that helps.", 0.5),
        ('{"label": 0.5}', 0.5),
        ('{"grade": 1, "label": 0.5}', 0.5),  # both, saying the same
        ('{"grade": 2, "confidence": 0.9}', 1.0),  # servers without schemas add keys
    ],
)
def test_labels_are_read(content, label):
    verdict = read_reply(reply(content), rows=0)
    assert (verdict.label, verdict.reason) == (label, None)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("I would rate this 10/10", "malformed"),
        ("I cannot judge this", "refusal"),
        ("I\u2019m sorry, but as an AI I can\u2019t help.", "refusal"),
        ('{"label": 2}', "out_of_range"),
        ('{"label": 0.7}', "out_of_range"),
        ('{"grade": 9e124}', "out_of_range"),
        ('{"grade": 0.7}', "out_of_range"),
        ('{"grade": -1}', "out_of_range"),
        ('{"grade": 3}', "out_of_range"),
        ('{"label": 0.', "malformed"),
        ('{"grade": "1"}', "malformed"),
        ('{"grade": true}', "malformed"),
        ('{"grade": null}', "malformed"),
        ('{"grade": NaN}', "malformed"),
        ('{"grade": [1]}', "malformed"),
        ('{"rationale": "fine"}', "malformed"),
        ('{"grade": 0, "grade": 2}', "malformed"),  # which one is meant?
        ('{"grade": 2, "label": 0}', "malformed"),  # contradicts itself
        ("2", "malformed"),  # grade or label?
        ("[1]", "malformed"),
        ('{"grade": 1, "cited": 3}', "malformed"),
        ('{"grade": 1, "rationale": 3}', "malformed"),
        (graded(1) + graded(2), "malformed"),
        ("```json\n" + graded(1) + "\n```\n```json\n" + graded(2) + "\n```", "malformed"),
        ("[" * 100_000, "malformed"),
        ("", "empty"),
        ("  \n", "empty"),
        (None, "empty"),
    ],
)
def test_everything_else_has_a_reason(content, reason):
    verdict = read_reply(reply(content), rows=0)
    assert (verdict.label, verdict.reason) == (None, reason)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "empty"),
        ({"choices": []}, "empty"),
        ({"choices": [None]}, "empty"),
        ({"choices": [{"message": None}]}, "empty"),
        (reply('{"label": 0.', finish="length"), "cut_off"),
        (reply(graded(1), finish="length"), "cut_off"),  # complete by chance: what was cut is unknown
        (reply(None, refusal="No."), "refusal"),
        (reply("", finish="content_filter"), "refusal"),
    ],
)
def test_envelopes_without_an_answer(body, reason):
    assert read_reply(body, rows=0).reason == reason


def test_content_in_parts_is_joined():
    assert (
        read_reply(reply([{"type": "text", "text": '{"gra'}, {"type": "text", "text": 'de": 2}'}]), rows=0).label == 1
    )


@pytest.mark.parametrize(
    ("cited", "rows", "kept", "invented"),
    [
        ([1, 3], 3, (1, 3), 0),
        ([3, 1, 3], 3, (1, 3), 0),
        ([0, 4, -1, 2], 3, (2,), 3),
        ([1], 0, (), 1),  # a plain page has no rows to cite
        (["1", True, None], 3, (), 3),
        (None, 3, (), 0),
    ],
)
def test_cited_rows_must_exist(cited, rows, kept, invented):
    verdict = read_reply(reply(json.dumps({"grade": 1, "cited": cited})), rows=rows)
    assert (verdict.cited, verdict.cited_invented) == (kept, invented)


@pytest.mark.parametrize(
    ("grades", "items", "label", "mean"),
    [
        ([2, 2], 2, 1.0, 1.0),
        ([2, 0], 2, 0.5, 1 / (1 + 1 / math.log2(3))),
        ([0, 1], 2, 0.0, 0.5 / math.log2(3) / (1 + 1 / math.log2(3))),
        ([2, 0, 0, 0, 0, 0, 0, 0], 8, 0.5, 0.2533),
    ],
)
def test_item_grades_become_a_dcg_weighted_mean(grades, items, label, mean):
    verdict = read_reply(reply(json.dumps({"grades": grades})), rows=0, items=items)
    assert verdict.label == label
    assert verdict.expected_label == pytest.approx(mean, abs=1e-3)


@pytest.mark.parametrize(
    ("grades", "reason"),
    [
        ([2, 2, 1], "missing"),
        ([2] * 6, "malformed"),
        ([2, 2, 2, 2, 3], "out_of_range"),
        (2, "malformed"),
        ([], "missing"),
    ],
)
def test_items_that_vanish_are_noticed(grades, reason):
    """Five results sent, three graded: the page has no label."""
    assert read_reply(reply(json.dumps({"grades": grades})), rows=0, items=5).reason == reason


def tokens(*spelled, chances):
    top = [{"token": t, "logprob": math.log(p)} for t, p in chances.items()]
    return {"content": [{"token": t, "top_logprobs": top if t.strip(' :"') in "012" else []} for t in spelled]}


@pytest.mark.parametrize(
    ("spelled", "chances", "expected"),
    [
        (['{"', "grade", '":', " ", "1", "}"], {"0": 0.2, "1": 0.5, "2": 0.3}, 0.55),
        (['{"', "grade", '":', " 1", "}"], {" 0": 0.2, " 1": 0.5, " 2": 0.3}, 0.55),  # blank and digit in one token
        (['{"', "grade", '":', "1", "}"], {"0": 0.1, "1": 0.1, "x": 0.8}, 0.25),  # other tokens do not count
        (['{"', "grade", '":', "1", "}"], {"x": 1.0}, None),
    ],
)
def test_expected_label_from_grade_tokens(spelled, chances, expected):
    body = reply("".join(spelled), logprobs=tokens(*spelled, chances=chances))
    verdict = read_reply(body, rows=0)
    assert verdict.label == 0.5
    assert verdict.expected_label == (None if expected is None else pytest.approx(expected))


@given(
    st.one_of(st.text(), st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists))
)
def test_any_reply_is_a_label_or_a_reason(content):
    text = content if isinstance(content, str) else json.dumps({"grade": content})
    verdict = read_reply(reply(text), rows=3)
    assert (verdict.label is None) != (verdict.reason is None)
    assert verdict.label is None or verdict.label in LABELS
    assert verdict.reason is None or verdict.reason in REASONS
