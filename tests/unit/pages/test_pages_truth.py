"""Truth: unbiased in each configuration, covered by its interval, and why pages are scored on other days."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

from jobs.pages.compose import Composition, compose_pages
from jobs.pages.measure import item_relevance, with_propensity
from jobs.pages.truth import page_truth
from tests.unit.pages.planted import curve_frame, planted_log, planted_truth

KINDS = ("good", "omitted", "low", "substitute")


def scored(*, queries, pages, seed):
    """Pages of a planted log with estimated truth, truth on the composing days (`same`) and planted truth."""
    log = planted_log(queries=queries, pages=pages, seed=seed)
    even = item_relevance(log.counts.filter("composes"), curve=log.curve)
    composed = compose_pages(even, titles=log.titles, composition=Composition(degraded_share=1.0))
    layout = composed.layout.with_columns(page=pl.format("{}-{}", "query_key", "configuration"))
    truth = page_truth(layout, counts=log.counts, curve=log.curve)
    flipped = log.counts.with_columns(composes=~pl.col("composes"))
    same = page_truth(layout, counts=flipped, curve=log.curve).select("page", same="truth")
    named = layout.select("page", "query_key", "configuration").unique()
    return truth.join(same, on="page").join(planted_truth(layout, log.relevance), on="page").join(named, on="page")


@pytest.fixture(scope="module")
def sixty():
    return scored(queries=6300, pages=60, seed=11)


@pytest.mark.parametrize("kind", KINDS)
def test_unbiased_and_covered_at_60_pages_a_query(sixty, kind):
    mine = sixty.filter(pl.col("configuration") == kind)
    error = (mine["truth"] - mine["planted"]).to_numpy()
    covered = np.abs(error) <= 1.96 * mine["truth_standard_error"].to_numpy()
    assert mine.height >= 2000
    assert abs(error.mean()) <= 0.01
    assert 0.92 <= covered.mean() <= 0.985


def test_composed_and_scored_on_the_same_days_good_pages_look_too_good(sixty):
    good = sixty.filter(pl.col("configuration") == "good")
    assert (good["same"] - good["planted"]).mean() >= 0.1


@pytest.mark.parametrize("kind", KINDS[1:])
def test_mean_drop_equals_the_planted_drop(sixty, kind):
    good = sixty.filter(pl.col("configuration") == "good")
    pairs = sixty.filter(pl.col("configuration") == kind).join(good, on="query_key", suffix="_good")
    drop = (pairs["truth_good"] - pairs["truth"]).to_numpy()
    planted = (pairs["planted_good"] - pairs["planted"]).to_numpy()
    half = 1.96 * drop.std(ddof=1) / np.sqrt(len(drop))
    assert abs(drop.mean() - planted.mean()) <= half
    assert planted.mean() > 0, "a degraded page is worse"
    assert drop.mean() - half > 0, "and is measured to be worse"


def test_rank_correlation_reaches_the_ceiling_that_its_errors_predict(sixty):
    good = sixty.filter(pl.col("configuration") == "good")
    ceiling = np.sqrt(1 - good["truth_variance"].mean() / good["truth"].var())
    assert 0.95 * ceiling <= spearmanr(good["truth"], good["planted"])[0] <= 1.05 * ceiling


def test_the_mean_variance_of_truth_is_that_of_its_errors(sixty):
    good = sixty.filter(pl.col("configuration") == "good")
    assert good["truth_variance"].mean() == pytest.approx((good["truth"] - good["planted"]).var(), rel=0.08)


def test_rank_correlation_with_much_traffic():
    pages = scored(queries=500, pages=1000, seed=12)
    assert spearmanr(pages["truth"], pages["planted"])[0] >= 0.92


def row(**changes):
    base = {
        "query_key": 1,
        "item_key": 1,
        "segment": None,
        "rank": 1,
        "composes": False,
        "impressions": 10,
        "clicks": 4,
    }
    return {**base, **changes}


def counts(*rows):
    return pl.DataFrame(rows, schema_overrides={"segment": pl.String, "rank": pl.Int32}, infer_schema_length=None)


def layout(*items):
    return pl.DataFrame({"page": ["p"] * len(items), "query_key": [1] * len(items), "item_key": items,
                         "rank": pl.Series(range(1, len(items) + 1), dtype=pl.Int32)})  # fmt: skip


def test_truth_by_hand():
    frame = counts(row(), row(item_key=2, rank=2, impressions=20, clicks=3), row(composes=True, clicks=10))
    got = page_truth(layout(1, 2), counts=frame, curve=curve_frame(np.array([1.0, 0.5]))).row(0, named=True)
    w = np.array([1, 1 / np.log2(3)])
    assert got["truth"] == pytest.approx((w * [0.4, 0.3]).sum() / w.sum())
    assert (got["truth_impressions"], got["truth_clicks"]) == (30, 7)


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (counts(row()), "one item was never shown"),
        (counts(row(), row(item_key=2, composes=True)), "it was shown on composing days only"),
        (counts(row(), row(item_key=2, rank=9)), "only where the curve does not reach"),
        (counts(row(), row(item_key=2, impressions=0, clicks=1)), "only a late click is known"),
    ],
)
def test_truth_is_null_where_an_item_was_not_seen(frame, why):
    got = page_truth(layout(1, 2), counts=frame, curve=curve_frame(np.array([1.0, 0.5]))).row(0, named=True)
    assert got["truth"] is None, why
    assert got["truth_standard_error"] is None, why


def test_no_error_is_zero_even_where_all_or_none_was_clicked():
    for clicks in (0, 10):
        got = page_truth(layout(1), counts=counts(row(clicks=clicks)), curve=curve_frame(np.array([1.0])))
        assert got["truth_standard_error"][0] > 0.02


def test_the_curves_error_is_added_and_shared_by_the_items_of_a_page():
    p, errors = np.array([1.0, 0.5]), np.array([0.0, 0.1])
    frame = counts(*[row(item_key=i, rank=2, impressions=10**6, clicks=2 * 10**5) for i in (1, 2, 3)])
    got = page_truth(layout(1, 2, 3), counts=frame, curve=curve_frame(p, errors))["truth_standard_error"][0]
    assert got == pytest.approx(0.4 * 0.1 / 0.5, rel=0.01), "one error for all items: it does not average out"


def test_segments_use_their_own_curve_and_fall_back_on_the_common_one():
    curve = pl.concat(
        [curve_frame(np.array([1.0, 0.5])),
         curve_frame(np.array([1.0, 0.2])).with_columns(segment=pl.lit("phone"))]
    )  # fmt: skip
    frame = counts(row(rank=2, segment="phone"), row(rank=2, segment="desk"), row(rank=2))
    found = with_propensity(frame, curve=curve).sort("segment", nulls_last=True)
    assert found["propensity"].to_list() == [0.5, 0.2, 0.5]
