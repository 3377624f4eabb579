"""A small dirty log: every canonical row and every refused line. HINDCAST_REBUILD_GOLDEN=1 writes expected.json
anew."""

import json
import os
from pathlib import Path

import polars as pl

from jobs.core.settings import load_settings
from tests.unit.impressions.conftest import bench  # noqa: F401 - a fixture

HERE = Path(__file__).parent
ROW = ["event_day", "search_id", "item_id", "rank", "locale", "query_raw", "query", "ranker", "randomised", "shown_at",
       "click_arrived_at", "clicked", "interaction"]  # fmt: skip


def test_the_dirty_log_gives_the_expected_rows(bench):  # noqa: F811 - the fixture
    (source,) = load_settings(HERE / "dirty.toml", environment={}).sources
    summary = bench.ingest(source, paths=[HERE / "dirty.ndjson"])
    found = {
        "summary": {k: summary[k] for k in ("rows_in", "accepted", "duplicates", "ignored", "rejected", "impressions")},
        "impressions": _plain(bench.store.read("impressions").select(ROW).sort("search_id", "rank")),
        "rejected": _plain(bench.store.read("rejected_impressions").select("line", "reason", "detail").sort("line")),
        "daily_counts": _plain(
            bench.store.read("daily_counts").group_by("event_day", "arrival_day", "ranker", "rank").agg(
                pl.col("impressions", "clicks", "interaction").sum()
            ).sort("event_day", "arrival_day", "ranker", "rank", nulls_last=True)
        ),
    }  # fmt: skip
    expected = HERE / "expected.json"
    if os.environ.get("HINDCAST_REBUILD_GOLDEN"):
        expected.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert found == json.loads(expected.read_text(encoding="utf-8"))


def _plain(frame: pl.DataFrame) -> list[dict]:
    plain = str | int | None
    return [{k: v if isinstance(v, plain) else str(v) for k, v in row.items()} for row in frame.to_dicts()]
