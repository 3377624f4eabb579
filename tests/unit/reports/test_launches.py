"""Forecast, evidence curve, thresholds and track record of launches."""

import numpy as np
import polars as pl
import pytest

from jobs.reports.curve import curves, found_thresholds, per_query, recommendation
from jobs.reports.data import Options, ReportData
from jobs.reports.forecast import forecast, queries_needed
from jobs.reports.launches import item_minimum, launch_section
from jobs.reports.track import track_record, wilson
from schemas.cards import CARDS
from tests.unit.reports.frames import judgments, pages

FEW = Options(samples=300)


def rows(*, queries=60, gain=0.3, seed=0):
    rng = np.random.default_rng(seed)
    found = []
    for q in range(queries):
        count = q % 10
        for system in "ab":
            for instance in range(3):
                lift = (gain * count / 9 if system == "b" else 0) + 0.3
                label = float(np.clip(round(2 * (lift + rng.normal(0, 0.25))), 0, 2) / 2)
                page = {"page_id": f"{q}-{system}{instance}", "query_key": q, "system": system, "set": "launch",
                        "instance": instance, "qri_count": count}  # fmt: skip
                found += [{**page, "variant": "qri", "label": label}, {**page, "variant": "plain", "label": 0.5}]
    return judgments(*found)


def test_curve_counts_queries_by_their_smaller_system():
    frame = judgments(
        {"page_id": "1a", "query_key": 1, "system": "a", "label": 1.0, "qri_count": 5},
        {"page_id": "1b", "query_key": 1, "system": "b", "label": 0.0, "qri_count": 2},
        {"page_id": "2a", "query_key": 2, "system": "a", "label": 0.0, "qri_count": 4},
        {"page_id": "2b", "query_key": 2, "system": "b", "label": 0.5, "qri_count": 4},
        {"page_id": "3a", "query_key": 3, "system": "a", "label": None, "reason": "refusal", "qri_count": 9},
        {"page_id": "3b", "query_key": 3, "system": "b", "label": 1.0, "qri_count": 9},
    )
    assert per_query(frame)["query_key"].to_list() == [1, 2]
    points = {p["t"]: p for p in curves(frame, evidence="qri_count", samples=200, seed=0)["plain"]}
    assert points[2]["n_queries"] == 2
    assert points[2]["preference"] == pytest.approx((1 - 0.5) / 2)
    assert (points[3]["n_queries"], points[3]["preference"]) == (1, -0.5)
    assert (points[3]["n_queries_a"], points[3]["n_queries_b"]) == (2, 1)
    assert points[3]["low"] is None
    assert points[3]["reason"]


def points(*values):
    return [{"t": t, "preference": p, "low": low, "high": high, "n_queries": n} for t, p, low, high, n in values]


CURVE = points((0, 0.1, -0.1, 0.3, 90), (1, -0.1, -0.3, 0.1, 80), (2, -0.3, -0.5, -0.1, 60), (3, -0.4, -0.6, -0.2, 40),
               (4, -0.2, -0.9, 0.4, 9))  # fmt: skip


def test_thresholds_need_an_outcome():
    assert found_thresholds(CURVE, -0.2)["right_sign"] == 1
    assert found_thresholds(CURVE, -0.2)["significant"] == 2
    assert found_thresholds(CURVE, None)["reason"] == "the outcome is not known yet"
    assert found_thresholds(CURVE, 0.5)["significant"] is None


@pytest.mark.parametrize(
    ("why", "curve", "online", "t"),
    [
        ("sure from 2 on wherever 30 queries are left", CURVE, -0.2, 2),
        ("no outcome", CURVE, None, None),
        ("the curve points the other way", CURVE, 0.2, None),
        ("unsure at the rich end", points((0, -1, -2, -0.5, 90), (1, -0.1, -0.3, 0.1, 50)), -1, None),
        ("too few queries", points((0, -1, -2, -0.5, 20)), -1, None),
    ],
)
def test_automation_threshold_only_where_supported(why, curve, online, t):
    found = recommendation(curve, online)
    assert found["qri_count"] == t, why
    assert found["reason"]


def test_forecast_prefers_the_better_system():
    found = forecast(rows(), FEW)
    assert found["main"] == "qri"
    assert found["variants"]["qri"]["preferred"] == "b"
    assert found["variants"]["qri"]["chance_a_better"] < 0.01
    assert found["variants"]["plain"]["preferred"] == "undecided"
    assert found["variants"]["plain"]["queries_needed"] is None
    assert found["variants"]["qri"]["evidence_coverage"] == pytest.approx(0.9)
    assert len(found["per_query"]) == 60


def test_queries_needed_is_a_power_calculation():
    d = np.r_[np.full(50, 1.0), np.full(50, -0.6)]
    assert queries_needed(d) == int(np.ceil((2.8016 * d.std(ddof=1) / d.mean()) ** 2))


def outcome(difference):
    return pl.DataFrame({"query_key": range(60), "system_a": [0.0] * 60, "system_b": [-difference] * 60})


def data(**given):
    return ReportData(
        run={"run": "launch-x"}, judgments=rows(), launch={"launch_id": "x", "start": "2026-12-01"}, **given
    )


def test_section_before_and_after_the_outcome():
    before = launch_section(data(), FEW)
    assert before["outcome_reason"]
    assert before["variants"]["qri"]["n"] == 0
    assert before["variants"]["qri"]["prefers_b"] > before["variants"]["qri"]["prefers_a"]
    after = launch_section(data(outcomes=outcome(-0.2)), FEW)
    assert after["variants"]["qri"]["n"] == 60
    assert after["variants"]["plain"]["aligned"] == 0
    assert after["variants"]["plain"]["half_credit"] == 0.5
    assert after["variants"]["qri"]["half_credit"] > 0.6
    assert after["mcnemar"]["qri"]["p"] < 0.001
    assert after["online"]["reason"]
    assert after["thresholds"]["qri"]["significant"] is not None


def test_item_minimum_is_zero_where_an_item_has_no_card():
    table = pages({"page_id": "p", "items": [("x", "X"), ("y", "Y")]}, {"page_id": "q", "items": [("x", "X")]})
    blank = {c.name: None if c.nullable else {"string": "", "date": None}.get(c.type, 0) for c in CARDS.columns}
    cards = [{**blank, "page_id": p, "item_id": "x", "row": r, "query_key": r} for p in "pq" for r in (1, 2)]
    found = item_minimum(
        ReportData(run={}, pages=table, cards=pl.DataFrame(cards, schema=CARDS.polars(), orient="row"))
    )
    assert dict(found.iter_rows()) == {"p": 0, "q": 2}


def launch(name, chance, online, *, n=10, aligned=5):
    preferred = "a" if chance > 0.95 else "b" if chance < 0.05 else "undecided"
    told = {"main": "qri", "variants": {"qri": {"preferred": preferred, "chance_a_better": chance}}}
    figures = {"qri": {"n": n, "n_aligned": aligned, "half_credit": 0.6}}
    known = None if online is None else {"online_difference": online, "variants": figures}
    return {"launch_id": name, "start": f"2026-0{name}-01", "forecast": told, "alignment": known}


def test_track_record():
    found = track_record([launch("3", 0.5, None), launch("1", 0.99, 0.2), launch("2", 0.98, -0.1)])
    assert (found["n_launches"], found["n_with_outcome"], found["called"], found["called_right"]) == (3, 2, 2, 1)
    assert [r["launch_id"] for r in found["launches"]] == ["1", "2", "3"]
    assert found["launches"][1]["running_aligned"] == pytest.approx(0.5)
    assert found["brier"] == pytest.approx((0.01**2 + 0.98**2) / 2)
    assert [b["n"] for b in found["calibration"]] == [0, 0, 0, 0, 2]
    assert track_record([])["reason"]


def test_wilson_equals_statsmodels():
    from statsmodels.stats.proportion import proportion_confint

    assert wilson(7, 20) == pytest.approx(proportion_confint(7, 20, method="wilson"))
    assert wilson(0, 0) is None
