"""Segments: their own curve where data are many, the pooled one where they are few, in between a mixture."""

import numpy as np
import polars as pl
import pytest

from benchmarks.planted_counts import GOOD, TRUE_CURVE, relative_error, two_rankers
from jobs.propensity.estimate import Options, fit
from jobs.propensity.segments import borrowed

STEEP = np.arange(1, 11) ** -1.5
OPTIONS = Options(replicates=60)


def named(curve, name):
    from dataclasses import replace

    return replace(curve, segment=name)


@pytest.fixture(scope="module")
def pooled():
    return fit(pl.concat([two_rankers(1), two_rankers(2, curve=STEEP)]), options=OPTIONS)


def curves(pooled, **counts):
    own = [named(fit(frame, options=OPTIONS), name) for name, frame in counts.items()]
    return {c.segment: c for c in borrowed(pooled, own, floor=0.01)}


def test_segments_with_much_data_keep_their_own_curve(pooled):
    found = curves(pooled, desktop=two_rankers(3), phone=two_rankers(4, curve=STEEP))
    assert relative_error(found["desktop"].values()) < 0.08
    assert relative_error(found["phone"].values(), STEEP) < 0.15
    assert all(c.identified and "-shrunk-" in c.curve_id for c in found.values())


def test_a_thin_segment_is_drawn_to_the_pooled_curve_and_says_so(pooled):
    thin = two_rankers(5, queries=120, pages=12, curve=STEEP)
    alone = fit(thin, options=OPTIONS)
    found = curves(pooled, desktop=two_rankers(3), phone=two_rankers(4), tv=thin)["tv"]
    assert alone.identified
    distance = [np.abs(np.log(values) - np.log(pooled.values()))[1:] for values in (alone.values(), found.values())]
    assert distance[1].sum() < distance[0].sum()
    assert any(w.startswith("thin:") for w in found.warnings)


def test_equal_segments_come_close_to_the_pooled_curve(pooled):
    same = fit(pl.concat([two_rankers(s) for s in (1, 2)]), options=OPTIONS)
    parts = {"desktop": two_rankers(1, queries=300), "phone": two_rankers(2, queries=300)}
    for name, curve in curves(same, **parts).items():
        alone = fit(parts[name], options=OPTIONS)
        assert relative_error(curve.values(), same.values()) < 0.6 * relative_error(alone.values(), same.values())


def test_a_segment_that_is_not_identified_uses_the_pooled_curve(pooled):
    found = curves(pooled, desktop=two_rankers(3), phone=two_rankers(4, noises=(GOOD,)))["phone"]
    assert (found.identified, found.segment) == (False, "phone")
    assert found.values().tolist() == pooled.values().tolist()
    assert found.reason.startswith("segment not identified (randomised: ")
    assert "declared curve used" not in found.reason, "it is not what was used"


def test_rank_one_stays_one(pooled):
    found = curves(pooled, desktop=two_rankers(3), phone=two_rankers(4, curve=STEEP))
    assert all(c.values()[0] == 1.0 for c in found.values())
    assert TRUE_CURVE[0] == 1.0
