"""Pages and cards from files and tables."""

import json

import pytest

from jobs.core.errors import InputError, UsageError
from jobs.core.keys import key_hex, query_key
from jobs.judging.inputs import page_from, qri_count, rows_from
from jobs.judging.prompts import check_fields

ITEMS = [{"item_id": 12345, "title": "numeric id"}, {"item_id": "b", "rank": 1, "title": "first"}]


def test_defaults_of_a_bare_page():
    page = page_from({"page_id": "p", "query": "Some  Query", "items": ITEMS})
    assert (page.set, page.corpus, page.system, page.instance, page.configuration) == (
        "other",
        "default",
        None,
        0,
        "shown",
    )
    assert page.query == "Some  Query"  # shown as it is
    assert page.query_key == key_hex(query_key("default", "", "some query"))  # joined when normalised
    assert [(item.item_id, item.rank) for item in page.items] == [("12345", 1), ("b", 1)]


def test_a_table_row_reads_like_a_line():
    body = {"page_id": "p", "query": "q", "items": ITEMS, "context": {"need": "x"}, "query_key": -1}
    row = body | {"items": json.dumps(ITEMS), "context": json.dumps({"need": "x"})}
    assert page_from(row) == page_from(body)
    assert page_from(row).query_key == "f" * 16
    assert page_from(row | {"context": "plain words"}).context == "plain words"


def card(*rows):
    return {"page_id": "p", "item_id": "i", "rows": list(rows)}


def test_rows_are_placed_by_similarity_in_both_cards():
    given = [
        {"query": "far", "similarity": 0.2, "impressions": 10, "clicks": 1, "relevance": 0.1},
        {"query": "twin", "similarity": 0.95, "impressions": 10, "clicks": 5, "relevance": 0.5, "near_duplicate": True},
        {"query": "near", "similarity": 0.8, "impressions": 0, "clicks": 0, "relevance": 0.0},
    ]
    rows = rows_from(card(*given), top_k=2)
    assert [(r.query, r.row, r.row_unfiltered) for r in rows] == [("twin", None, 1), ("near", 1, 2), ("far", 2, None)]
    assert [r.ctr for r in rows] == [0.5, 0.0, 0.1]  # from clicks where no ctr is given, 0 where nothing was shown
    assert qri_count(rows) == 2


def test_rows_without_similarity_keep_their_order():
    rows = rows_from(card({"query": "one"}, {"query": "two"}), top_k=10)
    assert [r.query for r in rows] == ["one", "two"]


@pytest.mark.parametrize("row", [{"similarity": "0.5"}, {"relevance": True}, {"impressions": [1]}])
def test_numbers_must_be_numbers(row):
    with pytest.raises(InputError, match="item 'i'"):
        rows_from(card({"query": "q"} | row), top_k=10)


def test_item_fields_that_no_item_has_are_named():
    pages = [page_from({"page_id": "p", "query": "q", "items": [{"item_id": "a", "metadata": {"artist": "x"}}]})]
    check_fields(("artist",), pages)
    with pytest.raises(UsageError, match="'album'"):
        check_fields(("artist", "album"), pages)
