"""What other steps recorded reaches the page, whatever they left out."""

import pytest

from jobs.reports.build import build
from jobs.reports.data import RUN_HEAD, Options, ReportData
from jobs.reports.explorer import explorer_data
from jobs.reports.render import render

FULL = {
    "steps": {
        "impressions": {
            "rows_in": 100,
            "accepted": 90,
            "duplicates": 4,
            "ignored": 1,
            "rejected": {"missing_rank": 5},
            "impressions": 80,
            "clicks": 7,
            "days": ["2026-11-19", "2026-11-20"],
            "excluded": 3,
            "sources": {"web": {"rows_in": 100, "rejected": {"missing_rank": 5}, "arrival_guarded": False}},
        },
        "judging": {
            "calls": 12,
            "cached": 3,
            "tokens_in": 900,
            "tokens_out": 50,
            "cost_usd": 0.25,
            "estimate": {"cost_usd": 0.5},
            "trust": {"repeats": {"n": 50, "same": 49}},
        },
    },
    "checks": {
        "expectations": {
            "success": False,
            "checks": [
                {
                    "check": "expect_column_values_to_be_between",
                    "level": "fail",
                    "arguments": {"column": "volume_ratio"},
                    "reason": "a broken export",
                    "success": False,
                },
                {"success": True},
            ],
        },
        "figures": [{"corpus": "tracks", "volume_ratio": 0.01, "unknown": None}],
    },
    "skill_files": {
        "tracks": {
            "discovery": {
                "model": "offline-baseline",
                "documents": 60,
                "clusters": 8,
                "covered": 7,
                "unchanged": False,
                "stopped": "all covered",
                "calls": 0,
                "call_bound": 47,
                "seconds": {"all": 1.5},
                "changes": [{"skill_id": "ballads", "change": "added", "why": "proposed in round 1"}],
                "rounds": [
                    {
                        "round": 1,
                        "skills": 5,
                        "covered": 7,
                        "clusters": 8,
                        "coverage": 0.875,
                        "document_coverage": 0.85,
                        "verdicts": {"covered": 7, "refine": 1},
                    }
                ],
            },
            "evaluation": {
                "n_queries": 9,
                "retriever": "mini",
                "methods": {
                    "original": {"ndcg10": 0.5, "per_query": {"calls": 0}},
                    "skills": {"ndcg10": 0.6, "note": "templates"},
                    "hyde": {"ndcg10": None, "reason": "needs a model"},
                },
                "tests": [{"a": "skills", "b": "original", "difference": 0.1, "p_holm": 0.01}],
                "examples": {
                    "gained": [
                        {
                            "query": "old song",
                            "generic": "old song lyrics",
                            "skills": "ballad old song",
                            "skill_id": "ballads",
                            "ndcg10": {"original": 0.0, "generic": 0.2, "skills": 1.0},
                        }
                    ]
                },
            },
        }
    },
    "propensity": [
        {
            "corpus": "tracks",
            "segment": None,
            "curve_id": "c",
            "estimator": "declared",
            "identified": False,
            "reason": "one fixed ranker",
            "warnings": ["taken as declared"],
            "window": ["2026-10-07", "2026-11-06"],
            "ranks": [
                {
                    "rank": k,
                    "propensity": 1 / k,
                    "raw": None,
                    "isotonic": None,
                    "standard_error": None,
                    "pairs": 0,
                    "impressions": 10,
                    "clicks": 1,
                }
                for k in (1, 2, 3)
            ],
        }
    ],
    "audit": {
        "checked": 10,
        "violations": 0,
        "dropped_near_duplicates": 1,
        "dropped_rare": 2,
        "arrival_guarded": False,
    },
}

SHOWN = [
    "100 documents read, 90 accepted, 4 exact copies, 1 declared irrelevant, 5 refused",
    "missing rank 5",
    "unguarded",
    "2 data-quality checks, 1 not met",
    "a broken export",
    "12 calls, 3 answers from the cache",
    "cost 0.25 USD (planned 0.50)",
    "repeats",
    "7 of 8 clusters are covered",
    "proposed in round 1",
    "needs a model",
    "ballad old song",
    "tracks: curve not identified",
    "taken as declared",
    "arrival unguarded",
    "leakage: 0 of 10 checked",
]


def page(**given) -> str:
    data = ReportData(run={**RUN_HEAD, "run": "night-2026-11-20"}, **given)
    report = build(data, Options(samples=100))
    empty = explorer_data(run=None, pages=data.pages, judgments=data.judgments, cards=data.cards)
    return render(report, empty, {})


@pytest.fixture(scope="module")
def full() -> str:
    return page(**FULL)


@pytest.mark.parametrize("text", SHOWN)
def test_recorded_figures_are_shown(full, text):
    assert text in full


@pytest.mark.parametrize(
    ("why", "given"),
    [
        ("nothing recorded", {}),
        ("steps that recorded nothing", {"steps": {"impressions": {"rows_in": 1}, "judging": {"calls": 1}}}),
        ("a discovery without details", {"skill_files": {"tracks": {"discovery": {"model": "m"}}}}),
        ("an evaluation without tests", {"skill_files": {"t": {"evaluation": {"methods": {"original": {}}}}}}),
        ("checks without figures", {"checks": {"expectations": {"success": True, "checks": [{"success": True}]}}}),
    ],
)
def test_what_is_missing_never_breaks_the_page(why, given):
    assert "Method and manifest" in page(**given), why


def test_empty_sections_say_what_to_do():
    text = page()
    for sentence in (
        "Import human page labels",
        "hindcast launch forecast",
        "Declare corpora.NAME.documents",
        "Nothing was judged in this run",
        "There is no earlier report to compare with",
    ):
        assert sentence in text, sentence
