"""Pure parts of trust: agreement, samples, turned pages and rows, the alarm."""

import pytest

from jobs.judging.inputs import CardRow, Item, Page
from jobs.judging.trust import agreement, at_least, check_anchors, planned_calls, sample, turned_page, turned_rows
from jobs.judging.views import shown_rows


def page(name="p"):
    items = tuple(Item(item_id=f"i{n}", rank=n, title=f"t{n}") for n in (1, 2, 3))
    return Page(page_id=name, query="q", items=items)


def row(item, query, *, place, unfiltered):
    return CardRow(
        item_id=item, query=query, similarity=0.5, impressions=1, ctr=0.1, relevance=0.1, row=place,
        row_unfiltered=unfiltered,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "n", "changed", "mean"),
    [
        ({"a": 0.5, "b": 1.0}, {"a": 0.5, "b": 0.5}, 2, 1, -0.25),
        ({"a": 0.5, "b": None}, {"a": 0.5, "b": 0.5}, 1, 0, 0.0),  # a page that one of them left unscored
        ({"a": 0.5}, {"a": None}, 0, 0, None),
        ({}, {}, 0, 0, None),
        ({"a": 0.5, "z": 0.0}, {"a": 1.0}, 1, 1, 0.5),  # only what was asked again counts
    ],
)
def test_agreement(first, second, n, changed, mean):
    found = agreement(first, second)
    assert (found["n"], found["changed"], found["mean_change"]) == (n, changed, mean)


def test_a_turned_page_has_the_same_results_and_new_ranks():
    turned = turned_page(page())
    assert [(i.item_id, i.rank) for i in turned.items] == [("i3", 1), ("i2", 2), ("i1", 3)]
    assert turned_page(turned) == page()


def test_turned_rows_show_the_same_evidence_in_the_opposite_order():
    rows = [
        row("i1", "a", place=1, unfiltered=1),
        row("i1", "near duplicate", place=None, unfiltered=2),
        row("i1", "b", place=2, unfiltered=3),
        row("i2", "c", place=1, unfiltered=1),
    ]
    for variant, order in (("qri", ["b", "a", "c"]), ("qri_unfiltered", ["b", "near duplicate", "a", "c"])):
        assert [s.row.query for s in shown_rows(page(), turned_rows(rows), variant=variant)] == order


def test_samples_are_stable_and_small():
    works = [(n, page(f"p{n}"), ()) for n in range(1000)]
    some = {w[1].page_id for w in sample(works, most=50, salt="repeat")}
    assert len(some) == 50
    assert {w[1].page_id for w in sample(works[:500], most=50, salt="repeat")} & some  # old pages stay likely
    assert len(sample(works[:80], most=50, salt="repeat")) == 8
    assert planned_calls(80, repeat_pages=50, anchor_pages=50) == 3 * 8 + 8


@pytest.mark.parametrize(("k", "n", "share", "p"), [(0, 10, 0.1, 1.0), (1, 10, 0.1, 0.6513), (3, 10, 0.05, 0.0115)])
def test_binomial_tail(k, n, share, p):
    assert at_least(k, of=n, share=share) == pytest.approx(p, abs=1e-4)


def test_anchors_alarm_only_beyond_chance_and_remember_their_nights():
    labels = {f"p{n}": 0.5 for n in range(50)}
    kept, report = check_anchors(None, labels, run="night-1", noise=0.0)
    assert (report["alarm"], report["changed"], report["first_night"]) == (False, 0, "night-1")
    few = labels | {f"p{n}": 1.0 for n in range(3)}
    kept, report = check_anchors(kept, few, run="night-2", noise=0.0)
    assert (report["alarm"], report["changed"]) == (False, 3)
    many = labels | {f"p{n}": 1.0 for n in range(10)}
    assert check_anchors(kept, many, run="night-3", noise=0.0)[1]["alarm"] is True
    assert check_anchors(kept, many, run="night-3", noise=0.2)[1]["alarm"] is False  # a judge that noisy may
    assert list(kept["history"]) == ["night-1", "night-2"]
    assert kept["reference"] == labels  # always against the first night: slow drift adds up
