"""Two real log files, by the commands that a person types: counts to the row, and a curve beside its published
values."""

import json
from pathlib import Path

import polars as pl
import pytest

from jobs.core.tables import Store
from tests.e2e.conftest import ROOT, hindcast

DATA = ROOT.parent / "shared" / "data"
UBI = DATA / "ubi_esci_sample" / "ubi_queries_events.ndjson.gz"
YANDEX = DATA / "yandex_wscd_20q" / "trainSample_impressions.csv.gz"

TABLES = ("impressions", "rejected_impressions", "daily_counts", "queries")

HARVEST = [1, 0.748, 0.644, 0.556, 0.438, 0.378, 0.343, 0.278, 0.276, 0.247]
"""Adjacent intervention harvest on the Yandex sample, relative to rank 1, as its source note gives it."""


def needs(path: Path) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not path.exists(), reason=f"{path} is not on this machine")


@pytest.fixture(scope="module")
def ubi(tmp_path_factory):
    """Store and results of ingesting the UBI sample twice."""
    folder = tmp_path_factory.mktemp("ubi") / "store"
    config = ROOT / "tests" / "golden" / "impressions" / "ubi_esci.toml"
    command = ["impressions", "ingest", "--config", config, "--source", UBI, "--format", "ubi", "--corpus", "products",
               "--store", folder, "--json"]  # fmt: skip
    store, results, versions = Store(str(folder)), [], []
    for _ in range(2):
        results.append(hindcast(*command))
        versions.append({t: store.version(t) for t in TABLES})
    return store, results, versions


@needs(UBI)
def test_the_ubi_sample_is_accounted_for_to_the_row(ubi):
    _, (first, _), _ = ubi
    assert first["rows_in"] == 3921
    assert first["rejected"] == {"conflict": 163, "missing_query": 6, "not_shown": 40, "unknown_search": 120}
    assert (first["accepted"], first["duplicates"], first["ignored"]) == (2602, 68, 922)
    assert (first["impressions"], first["clicks"]) == (2259, 157)


@needs(UBI)
def test_a_second_ingestion_changes_no_row(ubi):
    _, (first, second), (before, after) = ubi
    assert before == after
    told = ("rows_in", "accepted", "duplicates", "ignored", "rejected", "impressions", "clicks")
    assert {n: second[n] for n in told} == {n: first[n] for n in told}


@needs(UBI)
def test_both_applications_start_at_rank_one_and_ids_join(ubi):
    rows = ubi[0].read("impressions")
    assert rows.filter(pl.col("event_day") < pl.date(2025, 1, 1))["rank"].min() == 1
    assert rows["rank"].min() == 1 and rows["query"].null_count() == 0
    sums = ubi[0].read("daily_counts").select(pl.col("impressions", "clicks").sum()).row(0)
    assert sums == (2259, 157)


@needs(UBI)
def test_quarantine_holds_every_refused_line_with_its_content_and_no_user_id(ubi):
    rows = ubi[0].read("rejected_impressions")
    assert rows.height == 329 and rows["raw"].null_count() == 0
    assert not rows["raw"].str.contains("CLIENT-").any()


@needs(YANDEX)
def test_inspect_proposes_a_block_that_reads_a_file_without_times(tmp_path):
    text = hindcast("impressions", "inspect", YANDEX, "--corpus", "web", "--name", "sample").stdout
    assert "pass --day" in text
    config = tmp_path / "hindcast.toml"
    config.write_text(f'store = "store/"\n{text}', encoding="utf-8")
    day = ("--day", "2026-01-05")
    result = hindcast("impressions", "ingest", "--config", config, "--source", YANDEX, *day, "--json")
    assert (result["rows_in"], result["impressions"], result["clicks"]) == (350_640, 350_640, 42_703)
    assert result["days"] == ["2026-01-05"] and result["rejected"] == {}


@needs(YANDEX)
@pytest.mark.parametrize(
    ("pairs", "tolerance"),
    [
        pytest.param("adjacent", 0.005, id="the-same-pairs-as-the-reference"),
        pytest.param("all", 0.075, id="all-pairs-of-ranks"),
    ],
)
def test_the_curve_of_the_yandex_sample_is_near_its_harvest(tmp_path, pairs, tolerance):
    out = tmp_path / "curve.json"
    columns = "query=query_id,item=doc_id,rank=position,click=clicked,page=serp_id"
    fit = ("--columns", columns, "--pairs", pairs, "--bootstrap", 20, "--out", out)
    hindcast("propensity", "fit", "--impressions", YANDEX, *fit)
    found = [rank["propensity"] for rank in json.loads(out.read_text())["ranks"]][:10]
    assert max(abs(a - b) for a, b in zip(found, HARVEST, strict=True)) <= tolerance
