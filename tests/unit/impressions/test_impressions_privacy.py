"""Personal data in queries, salted ids, and what a refused row may keep."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.core.tables import Store
from jobs.impressions.layout import Layout
from jobs.impressions.masking import mask_loose, mask_object
from jobs.impressions.privacy import make_salt, mask_text
from jobs.impressions.reading import hidden_fields
from jobs.impressions.salts import salt_of


@pytest.mark.parametrize(
    ("text", "locale", "masked"),
    [
        ("mail anna.b+c@example.co.uk please", "en", "mail <email> please"),
        ("4111 1111 1111 1111", "en", "<card>"),
        ("card 5500-0000-0000-0004 lost", "en", "card <card> lost"),
        ("378282246310005", "en", "<card>"),
        ("call +49 30 901820 now", "", "call <phone> now"),
        ("030 901820 anrufen", "de-DE", "<phone> anrufen"),
        ("call (650) 253-0000", "en", "call <phone>"),
        ("llamar 912 345 678", "es", "llamar <phone>"),
    ],
)
def test_personal_data_is_masked(text, locale, masked):
    assert mask_text(text, locale=locale) == masked


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("4033874254060", "an EAN of 13 digits is no card"),
        ("4111 1111 1111 1112", "a wrong check digit"),
        ("1984 2049 1234", "years and numbers"),
        ("99 luftballons 1983", "a title"),
        ("beethoven op 27 no 2", "a work number"),
        ("50 cent @ the club", "an at sign without an address"),
        ("24/7 365", "few digits"),
    ],
)
def test_what_is_no_personal_data_stays_searchable(text, why):
    assert mask_text(text, locale="en") == text, why


@settings(deadline=None)
@given(st.text(max_size=60))
def test_masking_is_stable_and_total(text):
    once = mask_text(text, locale="en")
    assert mask_text(once, locale="en") == once


@settings(deadline=None)
@given(st.text(min_size=1, max_size=40))
def test_a_hashed_id_that_comes_back_keeps_its_hash(user):
    salt = make_salt("s")
    assert salt.key(salt.token(user)) == salt.key(user)
    assert salt.token(salt.token(user)) == salt.token(user)


def test_salts_of_two_secrets_never_meet_and_never_show_the_secret():
    a, b = make_salt("one"), make_salt("two")
    assert a.key("u1") != b.key("u1") and a.name != b.name
    assert "one" not in repr(a) and "one" not in a.name
    assert -(1 << 63) <= a.key("u1") < 1 << 63


@pytest.mark.parametrize(
    ("environment", "simulated", "name"),
    [
        ({"HINDCAST_USER_SALT": "x", "HINDCAST_USER_SALT_ID": "2026-q4"}, False, "2026-q4"),
        ({"HINDCAST_USER_SALT": "x"}, True, make_salt("x").name),
        ({}, True, "simulated"),
    ],
)
def test_the_salt_comes_from_the_environment_first(tmp_path, environment, simulated, name):
    assert salt_of(Store(str(tmp_path)), simulated=simulated, environment=environment).name == name


def test_without_a_secret_the_store_keeps_one_of_its_own(tmp_path):
    store = Store(str(tmp_path))
    first = salt_of(store, environment={})
    assert salt_of(store, environment={}) == first
    assert salt_of(Store(str(tmp_path / "other")), environment={}) != first


def test_a_refused_document_keeps_its_shape_but_no_person():
    layout = Layout(source="s", corpus="c", format="ubi", columns={"user": "event_attributes.visitor"})
    document = {"user_query": "mail a@b.example", "client_id": "c1", "query": '{"q": "a@b.example", "client_id": "c1"}',
                "event_attributes": {"visitor": 17, "object": {"object_id": "i1"}}, "n": 3}  # fmt: skip
    salt = make_salt("s")
    kept = mask_object(document, salt=salt, hidden=hidden_fields(layout))
    assert kept == {
        "user_query": "mail <email>", "client_id": salt.token("c1"),
        "event_attributes": {"visitor": salt.token("17"), "object": {"object_id": "i1"}}, "n": 3,
    }  # fmt: skip


def test_text_that_is_no_document_is_masked_too():
    hidden = hidden_fields(Layout(source="s", corpus="c", format="ubi"))
    kept = mask_loose('{"q": "a@b.example 4111111111111111', hidden, make_salt("s"))
    assert kept == '{"q": "<email> <card>'
