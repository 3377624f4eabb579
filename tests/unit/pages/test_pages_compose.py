"""Composition: which items stand on which page, and that only the even days decide."""

import polars as pl
import pytest

from jobs.core.errors import UsageError
from jobs.pages.compose import Composition, compose_pages
from jobs.pages.measure import item_relevance
from jobs.pages.similar import dice, most_similar, trigrams
from tests.unit.pages.planted import planted_log

ALL = Composition(degraded_share=1.0)


def candidates(relevance, *, impressions=50, query=7):
    rows = [
        {"query_key": query, "item_key": i, "relevance": r, "impressions": impressions} for i, r in enumerate(relevance)
    ]
    return pl.DataFrame(rows)


def titles(n=20):
    return pl.DataFrame({"item_key": range(n), "title": [f"song number {i}" for i in range(n)]})


def page(composed, configuration):
    rows = composed.layout.filter(pl.col("configuration") == configuration).sort("rank")
    return rows["item_key"].to_list()


def degraded(relevance, kind):
    """The degraded page of the first query whose hash draws `kind`."""
    for query in range(1, 400):
        composed = compose_pages(candidates(relevance, query=query), titles=titles(), composition=ALL)
        if kind in composed.layout["configuration"].to_list():
            return composed
    raise AssertionError(f"no query drew {kind}")


@pytest.mark.parametrize(
    ("relevance", "want", "why"),
    [
        ([0.9, 0.5, 0.7, 0.1], [0, 2, 1], "relevant ones only, best first"),
        ([0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.2], [6, 5, 4, 3, 2], "at most five, also above 1"),
        ([0.3, 0.3, 0.3], [0, 1, 2], "the bound itself is relevant; ties by key"),
        ([0.9, 0.5, 0.29], [], "two relevant items make no page"),
    ],
)
def test_good_page(relevance, want, why):
    composed = compose_pages(candidates(relevance), titles=titles(), composition=ALL)
    assert page(composed, "good") == want, why
    assert composed.excluded["too_few_relevant_items"] == (0 if want else 1)


def test_ties_go_to_the_item_shown_more_often():
    rows = candidates([0.5, 0.5, 0.5]).with_columns(impressions=pl.Series([10, 30, 20]))
    assert page(compose_pages(rows, titles=titles(), composition=ALL), "good") == [1, 2, 0]


def test_omitted_leaves_the_best_out():
    composed = degraded([0.9, 0.8, 0.7, 0.6], "omitted")
    assert page(composed, "omitted") == [1, 2, 3]
    assert composed.layout.filter(pl.col("configuration") == "omitted")["rank"].to_list() == [1, 2, 3]


def test_low_puts_the_best_last():
    assert page(degraded([0.9, 0.8, 0.7, 0.6], "low"), "low") == [1, 2, 3, 0]


def test_substitute_takes_the_title_most_like_the_best_ones():
    names = pl.DataFrame({"item_key": range(6), "title": ["blue moon", "a", "b", "red sun", "blue moan", "blue moon"]})
    for query in range(1, 400):
        rows = candidates([0.9, 0.8, 0.7, 0.1, 0.65, 0.75], query=query)
        composed = compose_pages(rows, titles=names, composition=Composition(degraded_share=1.0, max_items=3))
        if "substitute" in composed.layout["configuration"].to_list():
            break
    # 5 has the same title but stands on the good page (rank 3); 2 is off it; 4 is .25 lower and nearly alike; 3 is not
    assert page(composed, "good") == [0, 1, 5]
    assert page(composed, "substitute") == [4, 1, 5]
    change = composed.changes.filter(pl.col("configuration") == "substitute").row(0, named=True)
    assert (change["best_item_key"], change["substitute_item_key"]) == (0, 4)


def test_without_a_lower_item_another_kind_is_taken():
    kinds = set()
    for query in range(1, 200):
        composed = compose_pages(candidates([0.9, 0.85, 0.8], query=query), titles=titles(), composition=ALL)
        kinds |= set(composed.layout["configuration"])
    assert kinds == {"good", "low"}, "three items cannot lose one, and nothing is .2 lower"


def test_a_share_of_queries_is_degraded_and_it_is_always_the_same():
    log = planted_log(queries=1500, pages=80, seed=5)
    even = item_relevance(log.counts.filter("composes"), curve=log.curve)
    some = Composition(degraded_share=0.2)
    first = compose_pages(even, titles=log.titles, composition=some).layout
    again = compose_pages(even.sample(fraction=1, shuffle=True, seed=1), titles=log.titles, composition=some).layout
    assert first.equals(again), "the order of rows must not matter"
    kinds = dict(first.select("query_key", "configuration").unique().group_by("configuration").len().iter_rows())
    share = sum(n for kind, n in kinds.items() if kind != "good") / kinds["good"]
    assert 0.17 < share < 0.23
    assert min(kinds[kind] for kind in ("omitted", "low", "substitute")) > 0.2 * share * kinds["good"]
    assert first.select(pl.struct("query_key", "configuration", "item_key").is_unique().all()).item()


def test_odd_days_do_not_reach_the_composition():
    log = planted_log(queries=200, pages=60, seed=6)
    even = log.counts.filter("composes")
    loud = pl.concat([even, log.counts.filter(~pl.col("composes")).with_columns(clicks=pl.col("impressions"))])
    pages = [
        compose_pages(item_relevance(c.filter("composes"), curve=log.curve), titles=log.titles, composition=ALL).layout
        for c in (log.counts, loud)
    ]
    assert pages[0].equals(pages[1])


@pytest.mark.parametrize(
    ("bad", "why"), [({"min_items": 6}, "bounds exchanged"), ({"degraded_share": 1.2}, "a share above 1")]
)
def test_compositions_that_cannot_be(bad, why):
    with pytest.raises(UsageError):
        Composition(**bad)


@pytest.mark.parametrize(
    ("a", "b", "want", "why"),
    [
        ("Blue Moon", "blue  moon ", 1.0, "case and blanks do not count"),
        ("青い月", "青い月", 1.0, "any script"),
        ("blue", "", 0.0, "an empty title is like nothing"),
        ("", "", 0.0, "two empty titles are not alike"),
        ("abc", "xyz", 0.0, "nothing in common"),
    ],
)
def test_likeness(a, b, want, why):
    assert dice(trigrams(a), trigrams(b)) == want, why


def test_most_similar_of_nothing_is_nothing():
    kinds = {
        "query_key": pl.Int64,
        "item_key": pl.Int64,
        "relevance": pl.Float64,
        "title": pl.String,
        "best_title": pl.String,
    }
    assert most_similar(pl.DataFrame(schema=kinds)).height == 0
