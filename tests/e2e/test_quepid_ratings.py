"""Ratings exported from Quepid, by the commands that a person types: imported, judged by the baseline, reported."""

import json

import pytest

from tests.e2e.conftest import ROOT, hindcast

RATINGS = ROOT.parent / "shared" / "data" / "quepid_icecat_rating_party" / "judgements.csv.gz"
MAP = ROOT / "tests" / "golden" / "pages" / "quepid.toml"


@pytest.mark.skipif(not RATINGS.exists(), reason="the shared sample of Quepid ratings is not beside this checkout")
def test_item_ratings_become_a_correlation_in_a_report(tmp_path):
    pages, judgments = tmp_path / "pages.jsonl", tmp_path / "judgments.jsonl"
    imported = hindcast("pages", "import", "--labels", RATINGS, "--map", MAP, "--out", pages, "--json")
    assert (imported["pairs"], imported["rated_units"], imported["pages"]) == (2420, 1358, 137)
    assert imported["unlabelled"] == {"too_little_rated": 30}
    judged = hindcast("judging", "run", "--pages", pages, "--variants", "plain", "--judge", "offline-baseline",
                      "--out", judgments, "--json")  # fmt: skip
    assert judged["written"] == 137
    hindcast("reports", "build", "--judgments", judgments, "--truth", pages, "--pages", pages, "--out",
             tmp_path / "report", "--json")  # fmt: skip
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    found = report["human"]["variants"]["plain"]["all"]
    assert found["n"] == 107, "pages that are rated too little have no label to agree with"
    assert found["spearman"]["low"] > 0.4, "a judge that reads titles agrees with people who did"
    assert report["run"]["judge"], "the report names its judge"
