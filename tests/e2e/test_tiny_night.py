"""A whole night on real engines: counted to the row, leak-free, published last, and the same when run again."""

import json
import shutil

import polars as pl
import pytest

from jobs.core.tables import Store
from tests.e2e.conftest import NIGHT, hindcast

RUN = f"night-{NIGHT}"
VARIANTS = {"plain", "popularity", "ctr", "qri", "qri_unfiltered", "evidence_only"}


def rows(store, table):
    """Rows of a table without what says when or how they were computed, in a stable order."""
    frame = store.read(table)
    loose = [c for c in ("latency_ms", "run_id", "cached") if c in frame.columns]
    plain = frame.drop(loose).with_columns(pl.col(pl.List(pl.Int64)).cast(pl.List(pl.String)).list.join(","))
    return plain.sort(plain.columns)


@pytest.fixture(scope="module")
def manifest(night):
    return night[1].read_json(f"runs/{RUN}/manifest.json")


def test_the_night_is_published_with_its_versions(night, manifest):
    _, store = night
    body = store.read_json("published.json")
    assert body["latest_night"] == RUN
    assert body["runs"][RUN]["tables"] == manifest["tables"]
    assert {"impressions", "daily_counts", "propensities", "evidence", "pages", "cards", "judgments"} <= set(
        manifest["tables"]
    )


def test_every_row_of_the_log_is_accounted_for(tiny, manifest):
    _, summary = tiny
    ingest = manifest["steps"]["impressions"]
    assert ingest["rows_in"] == ingest["accepted"] + ingest["duplicates"] + ingest["ignored"] + sum(
        ingest["rejected"].values()
    )
    assert ingest["rows_in"] == sum(c["documents"] for c in summary["ubi"].values())


def test_the_audit_checked_cards_and_found_no_leak(night):
    audit = night[1].read_json(f"runs/{RUN}/cards/audit.json")
    assert audit["checked"] > 0 and audit["violations"] == 0


def test_logs_pages_with_cards_exist_and_every_variant_has_a_label_or_a_reason(night):
    _, store = night
    pages = store.read("pages", where={"run": RUN})
    cards = store.read("cards", where={"run": RUN})
    logs = pages.filter(set="logs").filter(
        pl.col("page_id").is_in(cards.filter(pl.col("row").is_not_null())["page_id"].to_list())
    )
    assert logs.height >= 40
    judged = store.read("judgments", where={"run": RUN})
    for variant in VARIANTS:
        mine = judged.filter(pl.col("variant") == variant)
        assert set(mine["page_id"]) == set(pages["page_id"]), variant
    scored = judged.filter(pl.col("variant") != "evidence_only")
    assert scored.filter(pl.col("label").is_null() == pl.col("reason").is_null()).height == 0
    assert set(scored["model"]) == {"offline-baseline"}
    assert set(judged.filter(variant="evidence_only")["model"]) == {"none"}, "no judge stands behind evidence alone"


def test_the_report_says_that_the_log_is_simulated(night):
    folder, store = night
    report = store.read_json(f"reports/{RUN}/report.json")
    assert report["run"]["simulated"] is True and report["leakage"]["violations"] == 0
    html = (folder / "store" / "reports" / RUN / "index.html").read_text()
    assert "simulated log" in html.lower() and "offline-baseline" in html


def test_the_same_night_again_gives_the_same_rows(night, tmp_path):
    folder, store = night
    shutil.copytree(folder, tmp_path / "again")
    hindcast("night", "--config", tmp_path / "again" / "hindcast.toml", "--day", NIGHT, "--json", code=(0, 3))
    again = Store(str(tmp_path / "again" / "store"))
    for table in ("impressions", "daily_counts", "daily_users", "evidence", "pages", "cards", "judgments"):
        assert rows(again, table).equals(rows(store, table)), table


def test_a_launch_is_forecast_frozen_and_aligned_with_its_outcome(launch):
    _, store, launch_id = launch
    report = store.read_json(f"reports/launch-{launch_id}/report.json")["launch"]
    assert report["launch_id"] == launch_id and report["forecast"]
    for variant in ("plain", "qri", "evidence_only"):
        found = report["variants"][variant]
        assert (
            found["n"] > 0
            and found["decided"] + found["tied"] + found.get("both_zero", 0) <= found["n"] + found["both_zero"]
        )
    body = store.read_json("published.json")
    assert body["latest_night"] == RUN and f"launch-{launch_id}" in body["runs"]
    assert json.loads(store.read("launches")["alignment"][0])


def test_two_launches_never_meet(launch):
    folder, store, launch_id = launch
    before = rows(store, "judgments").filter(pl.col("run") == f"launch-{launch_id}")
    pages = ("--pages-a", folder / "launch" / "pages-b.jsonl", "--pages-b", folder / "launch" / "pages-a.jsonl")
    start = json.loads((folder / "launch" / "launch.json").read_text())["start"]
    hindcast(
        "launch",
        "forecast",
        "--config",
        folder / "hindcast.toml",
        "--id",
        "mirror",
        "--start",
        start,
        *pages,
        code=(0, 3),
    )
    after = rows(store, "judgments").filter(pl.col("run") == f"launch-{launch_id}")
    assert after.equals(before)
    assert store.read("judgments", where={"run": "launch-mirror"}).height == before.height
