"""Keys and stable hashes: the same number everywhere, each range its own, samples that do not move."""

import hashlib
import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.core import keys
from jobs.core.normalise import normalise_query
from jobs.core.sampling import unit_hash, unit_hashes

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.text(), st.text(), st.text())
def test_a_query_key_is_the_head_of_sha256(corpus, locale, query):
    digest = hashlib.sha256(b"\0".join(t.encode() for t in (corpus, locale, query))).hexdigest()
    key = keys.query_key(corpus, locale, query)
    assert keys.key_hex(key) == digest[:16]
    assert keys.key_from_hex(keys.key_hex(key)) == key


@given(INT64, st.sampled_from([1, 2, 3, 7, 16, 64]))
def test_every_key_stands_in_the_range_whose_bounds_hold_it(key, ranges):
    bounds = keys.range_bounds(ranges=ranges)
    low, high = bounds[keys.range_of(key, ranges=ranges)]
    assert low <= key <= high
    assert bounds[0][0] == -(1 << 63) and bounds[-1][1] == (1 << 63) - 1
    assert all(a[1] + 1 == b[0] for a, b in itertools.pairwise(bounds))


def test_frames_get_the_same_keys_and_keep_their_order():
    frame = pl.DataFrame({"corpus": ["a", "a", "b"], "locale": ["en"] * 3, "query": ["x", "y", "x"], "n": [2, 1, 0]})
    got = keys.with_query_key(frame)
    assert got.get_column("query_key").to_list() == [
        keys.query_key(c, "en", q) for c, q in (("a", "x"), ("a", "y"), ("b", "x"))
    ]
    assert got.get_column("n").to_list() == [2, 1, 0]


@pytest.mark.parametrize("text", ["", "12", "zz" * 8, "0" * 17])
def test_what_is_no_key_is_refused(text):
    with pytest.raises(ValueError, match=r"key|hexadecimal"):
        keys.key_from_hex(text)


def test_unit_hashes_are_uniform_and_stable():
    values = unit_hashes(np.arange(100_000), salt=3)
    assert values.min() >= 0 and values.max() < 1
    assert abs(np.histogram(values, bins=10, range=(0, 1))[0] / 10_000 - 1).max() < 0.05
    assert np.array_equal(values[:10], unit_hashes(np.arange(10), salt=3))
    assert not np.array_equal(values[:10], unit_hashes(np.arange(10), salt=4))
    assert unit_hash("a", 1) == unit_hash("a", 1) != unit_hash("a", 2)


@pytest.mark.parametrize(
    ("text", "locale", "want", "why"),
    [
        ("  Cafe\u0301  del\tMar ", "es", "café del mar", "composed, blanks folded"),
        ("ISTANBUL", "tr", "ıstanbul", "Turkish dotless i"),
        ("İstanbul", "tr-TR", "istanbul", "Turkish dotted i"),
        ("ISTANBUL", "en", "istanbul", "elsewhere the usual i"),
        ("STRAẞE straße", "de", "straße straße", "sharp s stays distinct from ss"),
        ("\u200b\ufeff", "en", "", "nothing visible is no query"),
        ("a\x00b", "en", "a b", "control characters never reach a key"),
        ("ΟΔΟΣ", "el", "οδος", "final sigma as the Unicode rule has it"),
    ],
)
def test_normalisation(text, locale, want, why):
    assert normalise_query(text, locale=locale) == want, why


@given(st.text(), st.sampled_from(["en", "de", "tr", "el", ""]))
def test_normalisation_is_idempotent(text, locale):
    once = normalise_query(text, locale=locale)
    assert normalise_query(once, locale=locale) == once
