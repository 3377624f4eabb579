"""Which curve is given for which data, and whether it says so."""

import json

import numpy as np
import polars as pl
import pytest

from benchmarks.planted_counts import GOOD, TRUE_CURVE, relative_error, swapped, two_rankers
from jobs.core.errors import UsageError
from jobs.propensity.curve import to_file
from jobs.propensity.estimate import Options, fit

QUICK = 60  # bootstrap samples: enough for a verdict, not for publication


def fitted(counts, **options):
    return fit(counts, options=Options(**{"replicates": QUICK} | options))


@pytest.mark.parametrize(
    ("estimator", "queries", "pages", "worst"),
    [("auto", 1000, 60, 0.05), ("allpairs", 1000, 60, 0.05), ("pbm_em", 400, 60, 0.07), ("auto", 1000, 8, 0.11)],
)
def test_planted_curves_are_found(estimator, queries, pages, worst):
    curve = fitted(two_rankers(11, queries=queries, pages=pages), estimator=estimator, replicates=20)
    assert curve.identified
    assert relative_error(curve.values()) < worst


def test_auto_says_why_it_does_not_take_em_on_thin_pairs():
    curve = fitted(two_rankers(1, pages=8))
    assert curve.estimator == "allpairs"
    assert "pbm_em not taken: 8.0 impressions a pair at two ranks are too few" in curve.reason


def test_em_refuses_thin_pairs_even_when_asked_for():
    curve = fitted(two_rankers(1, pages=8), estimator="pbm_em")
    assert (curve.estimator, curve.identified) == ("declared", False)
    assert "more queries do not help" in curve.reason


def test_one_fixed_ranker_is_never_identified_and_two_always_are():
    for seed in range(20):
        one = fitted(two_rankers(seed, queries=200, noises=(GOOD,)))
        assert (one.identified, one.estimator) == (False, "declared"), seed
        assert "was shown at two ranks" in one.reason
        np.testing.assert_allclose(one.values(), TRUE_CURVE)
        assert fitted(two_rankers(seed, queries=200)).identified, seed


@pytest.mark.parametrize(
    ("change", "estimator", "variation", "why"),
    [
        (
            lambda f: f.with_columns(pl.lit(None, pl.String).alias("ranker")),
            "allpairs",
            "changes",
            "no ranker is known",
        ),
        (lambda f: f.with_columns(pl.lit("one").alias("ranker")), "allpairs", "changes", "one ranker moved its items"),
        (lambda f: f.with_columns(randomised=pl.lit(value=True)), "randomised", None, "chance made the ranks"),
        (lambda f: f, "allpairs", "rankers", "two rankers"),
    ],
)
def test_auto_takes_the_best_variation_there_is(change, estimator, variation, why):
    curve = fitted(change(two_rankers(5, queries=600)))
    assert (curve.estimator, curve.variation, curve.identified) == (estimator, variation, True), why
    assert any("exogenous" in w for w in curve.warnings) == (variation == "changes"), why


def test_a_little_random_traffic_does_not_displace_much_better_evidence():
    counts = two_rankers(5, queries=600)
    few = two_rankers(6, queries=600, pages=1, noises=(np.inf,)).with_columns(randomised=pl.lit(value=True))
    curve = fitted(pl.concat([counts, few]))
    assert curve.estimator == "allpairs"
    assert "randomised not taken" in curve.reason


def test_fewer_swaps_give_larger_errors_until_they_give_none():
    errors = []
    for swaps in (800, 300, 150):
        curve = fitted(swapped(2, swaps=swaps), replicates=100)
        assert curve.identified, swaps
        errors.append(max(r.standard_error / r.raw for r in curve.ranks[1:]))
        assert all(r.low <= 1 / r.rank <= r.high for r in curve.ranks[1:]), swaps
    assert errors[0] < errors[1] < errors[2]
    refused = fitted(swapped(2, swaps=20))
    assert not refused.identified
    assert "fewer than 10 pairs" in refused.reason


def test_the_last_good_curve_is_kept_and_marked():
    good = fitted(two_rankers(1, queries=300))
    bad = two_rankers(2, queries=300, noises=(GOOD,))
    kept = fit(bad, options=Options(replicates=QUICK), previous=good)
    assert (kept.estimator, kept.identified, kept.curve_id) == ("last_good", False, good.curve_id)
    assert kept.values().tolist() == good.values().tolist()
    assert f"last good curve kept ({good.curve_id}, allpairs)" in kept.reason


def test_zero_clicks_at_a_rank_are_floored_and_the_clipped_share_is_told():
    counts = two_rankers(1, queries=400).filter(pl.col("rank") <= 7)
    none = counts.with_columns(clicks=pl.when(pl.col("rank") == 7).then(0).otherwise("clicks").cast(pl.Int64))
    curve = fitted(none)
    last = curve.ranks[6]
    assert curve.identified
    assert (last.raw, last.propensity, last.low) == (0.0, 0.01, 0.0)
    assert last.high > 0
    assert np.isfinite([v for r in curve.ranks for v in (r.propensity, r.standard_error)]).all()
    assert any("floor 0.01 at rank 7: 14.29% of impressions clipped" in w for w in curve.warnings)


def test_a_curve_that_is_not_monotone_stays_raw_with_a_warning():
    bent = np.array([1, 0.3, 0.3, 0.3, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6])
    curve = fitted(two_rankers(1, queries=800, pages=200, curve=bent))
    assert "-raw-" in curve.curve_id
    assert any("monotone" in w for w in curve.warnings)
    assert relative_error(curve.values(), bent) < 0.06


def test_ranks_that_are_hardly_shown_continue_the_curve():
    counts = two_rankers(1, queries=400)
    thin = counts.filter(pl.col("rank") < 8)
    deep = counts.filter(pl.col("rank") == 10).head(5)
    curve = fitted(pl.concat([thin, deep]))
    assert curve.identified
    assert [r.source for r in curve.ranks[7:]] == ["extrapolated"] * 3
    assert curve.ranks[9].propensity == pytest.approx(0.1, rel=0.3)
    assert any("continue the curve's own power law" in w for w in curve.warnings)


def test_few_queries_are_resampled_by_pair_and_say_so():
    curve = fitted(two_rankers(1, queries=16, pages=400))
    assert curve.resampled == "pair"
    assert any("too few to resample (16)" in w for w in curve.warnings)
    assert all(r.standard_error > 0 for r in curve.ranks[1:])


def test_declared_curves_come_from_a_table_or_a_power():
    counts = two_rankers(1, queries=30)
    half = fitted(counts, estimator="declared", eta=0.5)
    np.testing.assert_allclose(half.values()[:4], [1, 0.5**0.5, 3**-0.5, 0.5])
    table = fitted(counts, estimator="declared", table=(("1", 0.8), ("2", 0.4)))
    np.testing.assert_allclose(table.values()[:3], [1, 0.5, 1 / 3])
    assert not table.identified
    assert table.curve_id.startswith("declared-table-")


def test_unknown_estimator_names_the_known_ones():
    with pytest.raises(UsageError, match="'magic' is none of auto, randomised"):
        Options(estimator="magic")


def test_same_counts_give_the_same_curve_whatever_their_order():
    counts = two_rankers(1, queries=200)
    assert fitted(counts) == fitted(counts.sample(fraction=1.0, shuffle=True, seed=3))


def test_a_fit_that_did_not_converge_is_no_curve_and_says_so(monkeypatch):
    monkeypatch.setattr("jobs.propensity.allpairs._STEPS", 1)
    curve = fit(two_rankers(1, queries=200), options=Options(estimator="allpairs", replicates=30))
    assert (curve.identified, curve.estimator) == (False, "declared")
    assert "allpairs did not converge" in curve.reason


@pytest.mark.parametrize("estimator", ["auto", "allpairs", "pbm_em", "randomised"])
@pytest.mark.parametrize("clicks", ["none", "all", "first rank only", "one in all", "never at the first rank"])
def test_no_log_however_odd_gives_a_value_that_is_no_number(estimator, clicks):
    counts = two_rankers(2, queries=60)
    shown, rank = pl.col("impressions"), pl.col("rank")
    odd = {
        "none": pl.lit(0),
        "all": shown,
        "first rank only": pl.when(rank == 1).then(shown // 2).otherwise(0),
        "one in all": pl.when(pl.int_range(pl.len()) == 7).then(1).otherwise(0),
        "never at the first rank": pl.when(rank > 1).then(shown // 3).otherwise(0),
    }[clicks]
    counts = counts.with_columns(clicks=odd.cast(pl.Int64), randomised=pl.lit(estimator == "randomised"))
    curve = fit(counts, options=Options(estimator=estimator, replicates=20))
    text = json.dumps(to_file(curve), allow_nan=False)
    assert "Infinity" not in text
    assert curve.ranks[0].propensity == 1.0
    assert all(r.propensity > 0 for r in curve.ranks)
    if clicks in ("none", "one in all", "never at the first rank"):
        assert not curve.identified


@pytest.mark.parametrize("estimator", ["auto", "allpairs", "pbm_em"])
@pytest.mark.parametrize("clicks", [1, 3, 10])
def test_a_handful_of_clicks_at_the_first_rank_identifies_nothing(estimator, clicks):
    counts = two_rankers(2, queries=60).with_row_index("n")
    lucky = counts.filter(pl.col("rank") == 1)["n"].sample(clicks, seed=1).to_list()
    few = counts.with_columns(clicks=pl.col("n").is_in(lucky).cast(pl.Int64))
    curve = fitted(few, estimator=estimator)
    assert (curve.identified, curve.estimator) == (False, "declared"), "ranks without a click are not ranks unseen"
