"""What is said beside figures: short evidence, pages left out, badges, and the headline of a launch."""

import pytest

from jobs.pages.exclusions import cautions, excluded, told
from jobs.reports.build import build
from jobs.reports.cautions import short_evidence
from jobs.reports.data import RUN_HEAD, Options, ReportData
from jobs.reports.explorer import explorer_data
from jobs.reports.forecast import forecast
from jobs.reports.render import badges, render
from jobs.reports.summary import markdown
from jobs.reports.verdict import verdict
from jobs.reports.words import WORDS
from schemas.judgments import REASONS
from schemas.report import problems
from tests.unit.reports.frames import judged, judgments, pages

FEW = Options(samples=100, min_slice=5)


def window(days, state):
    return {"days": days, "days_wanted": 30, "cold_start": days < 30, "state": state}


FULL = window(30, "30 days [2026-10-05, 2026-11-04)")
COLD = {"evidence": {"corpora": {"tracks": window(9, "cold start: 9 of 30 days"), "podcasts": FULL}}}
NONE = {"evidence": {"corpora": {"tracks": window(3, "no evidence: 3 days"), "podcasts": FULL}}}
PAGES = {
    "logs": {"excluded_queries": {"too_few_users": 3, "not_sampled": 0, "sensitive": 1}},
    "human": {"corpora": {"tracks": {"rejected": {"no_query": 2}, "unlabelled": {"too_little_rated": 1},
                                     "undeclared_locales": {"fr": 4}, "items_without_title": 5}}},
    "launch": {"file_a": {"refused": 2, "first_refused": [{"line": 7, "reason": "query: missing"}]}, "file_b": {},
               "coverage": {"queries_a_only": 3, "queries_b_only": 1}, "undeclared_locales": {"pt": 6}},
}  # fmt: skip


def launch_rows(*, gap=0.5, queries=12):
    sides = [(q, s) for q in range(queries) for s in "ab"]
    table = pages(*({"page_id": f"{q}{s}", "query_key": q, "system": s, "set": "launch"} for q, s in sides))
    rows = judgments(
        *({"page_id": f"{q}{s}", "query_key": q, "system": s, "set": "launch", "variant": v, "qri_count": 3,
           "label": 0.5 + (gap if s == "b" and v == "qri" and q % 4 else 0)}
          for q, s in sides for v in ("plain", "qri"))
    )  # fmt: skip
    return table, rows


def launch_report(*, gap=0.5, steps=None, outcomes=None, frozen=True):
    table, rows = launch_rows(gap=gap)
    told = {"frozen_at": "2026-11-30T00:00:00+00:00", **forecast(rows, FEW)}
    made = {"launch_id": "x", "start": "2026-12-01", "forecast": told if frozen else None}
    run = {**RUN_HEAD, "run": "launch-x", "launch_id": "x"}
    return build(
        ReportData(run=run, pages=table, judgments=rows, launch=made, steps=steps or {}, outcomes=outcomes), FEW
    )


def page_of(report):
    empty = ReportData(run=RUN_HEAD)
    explorer = explorer_data(run="r", pages=empty.pages, judgments=empty.judgments, cards=empty.cards)
    return render(report, explorer, {})


def test_short_evidence_is_said_per_corpus():
    assert short_evidence(COLD) == ["tracks: short evidence, 9 of 30 days of its window"]
    assert "no evidence" in short_evidence(NONE)[0]
    assert short_evidence({}) == []


@pytest.mark.parametrize("steps", [COLD, NONE])
def test_short_evidence_stands_wherever_figures_rest_on_it(steps):
    said = short_evidence(steps)[0]
    night = build(ReportData(run={**RUN_HEAD, "run": "night-2026-11-20"}, steps=steps, evidence={"rows": 0}), FEW)
    assert night["evidence"]["reason"] == said
    assert night["run"]["problems"] == [said]
    assert said in night["verdict"]["sentence"]
    launch = launch_report(steps=steps)
    assert launch["launch"]["cautions"] == [said]
    assert problems(launch) == []
    for report in (night, launch):
        assert page_of(report).count(said) >= 4, "badge, flips, evidence, ablation; of a launch its section and tile"
        assert said in markdown(report)
        assert [b["text"] for b in badges(report)].count("short evidence") == 1


def test_full_evidence_has_no_reason():
    report = build(ReportData(run=RUN_HEAD, steps={}, evidence={"rows": 7, "items": 2, "queries": 3}), FEW)
    assert (report["evidence"]["reason"], report["evidence"]["short"]) == (None, [])


def test_what_the_pages_step_left_out_is_in_report_page_and_stderr():
    report = launch_report(steps={"pages": PAGES})
    assert report["excluded"]["pages"] == {
        "logs": {"too_few_users": 3, "sensitive": 1},
        "human": {"tracks": {"no_query": 2, "too_little_rated": 1}},
        "launch": {"unreadable_lines": 2, "queries_a_only": 3, "queries_b_only": 1},
    }
    page, lines = page_of(report), "\n".join(told(PAGES))
    for text in ("3 issued by too few users, 1 sensitive", "2 lines of the launch", "4 queries have pages of one",
                 "fr (4)", "pt (6)", "5 items have no title"):  # fmt: skip
        assert text in lines, text
        assert text in page, text
    assert "line 7: query: missing" in lines
    assert (excluded(None), cautions(None), told({})) == ({"logs": {}, "human": {}, "launch": {}}, [], [])


def test_every_reason_has_words():
    assert set(REASONS) <= set(WORDS)
    assert all("_" not in text for text in WORDS.values())


def test_headline_of_a_launch_is_its_forecast():
    found = launch_report()["verdict"]
    assert found["form"] == "forecast"
    assert found["sentence"].startswith("Forecast for x: system B should win: on 12 queries qri")
    flat = launch_report(gap=0)["verdict"]
    assert (flat["form"], "no winner can be named" in flat["sentence"]) == ("no_difference", True)
    assert launch_report(frozen=False)["verdict"]["form"] == "cannot_say"


@pytest.mark.parametrize(
    ("only_a", "only_b", "p", "form", "text"),
    [(1, 9, 0.02, "helps", "more often"), (9, 1, 0.02, "hurts", "less often"), (4, 5, 1.0, "no_difference", "alike")],
)
def test_headline_after_the_outcome_compares_both_judges(only_a, only_b, p, form, text):
    report = launch_report()
    share = {"aligned": 0.5, "n": 12}
    part = {**report["launch"], "online_difference": 0.1, "variants": {"plain": share, "qri": share},
            "mcnemar": {"qri": {"n": 12, "only_a": only_a, "only_b": only_b, "p": p}}}  # fmt: skip
    found = verdict({**report, "launch": part})
    assert found["form"] == form
    assert text in found["sentence"]
    assert "Forecast for x" in found["sentence"]


def badge(report, start):
    return next(b for b in badges(report) if b["text"].startswith(start))


def test_unscored_badge_counts_judged_pages_and_tells_evidence_only_apart():
    table, rows = judged({"plain": [0, 1, None, 1], "evidence_only": [0.2, None, None, 0.4]}, [0.1, 0.2, 0.3, 0.4])
    report = build(ReportData(run=RUN_HEAD, pages=table, judgments=rows), FEW)
    found = badge(report, "unscored")
    assert (found["text"], found["tone"]) == ("unscored 25.0%", "warn")
    assert "the judge refused: 1" in found["why"]
    assert "2 pages have no card" in found["why"]


def test_unscored_badge_of_evidence_only_alone_claims_no_labels():
    table, rows = judged({"evidence_only": [0.2, None, 0.3]}, [0.1, 0.2, 0.3])
    found = badge(build(ReportData(run=RUN_HEAD, pages=table, judgments=rows), FEW), "nothing judged")
    assert "1 pages have no card" in found["why"]
    assert "Every page has a label" not in found["why"]


def test_health_shows_no_raw_key():
    same = {"n": 5, "changed": 1, "same_share": 0.8, "mean_change": 0.1, "unscored": 0}
    anchors = {**same, "p": 0.001, "alarm": True, "first_night": "night-2026-11-01"}
    used = {"n": 9, "cited_share": 0.5, "invented_share": 0.0, "moved": {"up": {"n": 3, "mean_value": 0.7}}}
    trust = {"checks": {"tracks": {"repeat": same, "evidence_order": same, "result_order": same, "anchors": anchors}},
             "evidence_use": {"qri": used, "ctr": None}}  # fmt: skip
    table, rows = judged({"plain": [0, 1, None], "qri": [1, 1, 0]}, [0.1, 0.2, 0.3])
    report = build(ReportData(run=RUN_HEAD, pages=table, judgments=rows, steps={"judging": {"trust": trust}}), FEW)
    page = page_of(report)
    section = page[page.index('id="health"') : page.index('id="skills"')]
    shown = section.replace("judging.repeat_pages", "").replace("judging.anchor_pages", "").replace("evidence_only", "")
    assert not [
        key for key in (*same, *anchors, *used, *trust, "evidence_order", "result_order") if "_" in key and key in shown
    ]
    assert "Alarm" in section
    assert "the judge refused: 1" in section
