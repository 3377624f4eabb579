"""Untrusted text: structure stays, an obedient judge is not moved, ordinary text is untouched."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.judging.inputs import CardRow, Item, Page
from jobs.judging.prompts import load_prompts, render
from jobs.judging.untrusted import quoted
from jobs.judging.views import shown_rows
from tests.unit.judging.attacks import ATTACKS

PROMPTS = load_prompts()
HARMLESS = "ordinary words"


def rendered(*, query=HARMLESS, title=HARMLESS, earlier=HARMLESS):
    page = Page(
        page_id="p",
        query=query,
        locale="en",
        items=(Item(item_id="a", rank=1, title=title, type="song"), Item(item_id="b", rank=2, title=HARMLESS)),
    )
    numbers = {"similarity": 0.8, "impressions": 900, "ctr": 0.1, "relevance": 0.3}
    rows = [CardRow(item_id="a", query=earlier, row=1, row_unfiltered=1, **numbers)]
    return render(PROMPTS, page, shown_rows(page, rows, variant="qri"), variant="qri")


def skeleton(prompt):
    """The prompt with every JSON string value taken out: what is left is structure."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', prompt)


def obedient_judge(prompt):
    """Does what stands outside the data blocks and nothing else; a block's delimiters stand on lines of their own."""
    outside, inside = [], False
    for line in prompt.splitlines():
        if line in ("<page>", "<evidence>"):
            inside = True
        elif line in ("</page>", "</evidence>"):
            inside = False
        elif not inside:
            outside.append(line)
    order = re.search(r"(?:output|ausgeben|evidence says)\D*([012])", "\n".join(outside), re.IGNORECASE)
    return int(order.group(1)) if order else 1


@pytest.mark.parametrize("place", ["query", "title", "earlier"])
@pytest.mark.parametrize("name", list(ATTACKS))
def test_attacks_stay_data(name, place):
    attacked = rendered(**{place: ATTACKS[name]})
    assert skeleton(attacked) == skeleton(rendered())
    assert len(attacked.splitlines()) == len(rendered().splitlines())
    assert obedient_judge(attacked) == obedient_judge(rendered()) == 1
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]", attacked)


def test_the_obedient_judge_would_be_moved():
    """The check itself can fail: text put in unquoted moves this judge."""
    assert obedient_judge(rendered().replace(f'"{HARMLESS}"', "\n" + ATTACKS["end of the evidence"], 1)) == 2


def test_at_least_forty_tricks():
    assert len(ATTACKS) >= 40


@pytest.mark.parametrize(
    "text",
    [
        "I <3 you",
        'tv < 55"',
        "Beyoncé – Déjà Vu",
        "«Всё идёт по плану»",
        "《青花瓷》周杰伦",
        "می‌خواهم",  # a zero-width non-joiner is spelling
        "👩‍👩‍👧 playlist",
        "أم كلثوم",
        "AC/DC [Live] {remastered}",
        "100% ä ö ü ß ñ ¿?",
    ],
)
def test_ordinary_text_is_untouched(text):
    assert quoted(text) == json.dumps(text, ensure_ascii=False)


@given(st.text())
@settings(max_examples=300, deadline=None)
def test_quoting_loses_nothing_and_stays_on_one_line(text):
    literal = quoted(text)
    assert json.loads(literal) == text
    assert len(literal.splitlines()) == 1
