"""Ingestion on a real Spark session: the same tables as plain calls make, and Great Expectations' verdict on the
night."""

import json
import tempfile
from dataclasses import replace
from datetime import date, datetime, timedelta
from io import StringIO

import polars as pl
import pytest

from jobs.core.context import Context
from jobs.core.progress import Progress
from jobs.core.settings import Settings
from jobs.core.settings import Spark as SparkSettings
from jobs.core.spark import SparkProvider, read_delta
from jobs.core.windows import Run
from jobs.impressions import daily, stages
from jobs.impressions.forget import Wish, forget
from jobs.impressions.job import run
from jobs.impressions.quality import ChecksFailed, decide
from tests.unit.impressions.conftest import Bench
from tests.unit.impressions.logs import event, query

NIGHT = date(2026, 11, 20)


@pytest.fixture(scope="module")
def spark():
    provider = SparkProvider(SparkSettings(master="local[2]"), store_uri="")
    yield provider
    provider.stop()


@pytest.fixture(autouse=True)
def _salt(monkeypatch):
    monkeypatch.setenv("HINDCAST_USER_SALT", "a secret of the tests")


def write_days(bench: Bench, days: int, *, click: str = "click", last_click: str = "", count: int = 150) -> None:
    """Days up to the night, each with three hits a search and every third search clicked."""
    for n in range(days):
        day = (NIGHT - timedelta(days=days - 1 - n)).isoformat()
        action = last_click or click if n == days - 1 else click
        searches = [query(f"{day}-{i}", hits=["a", "b", "c"], at=f"{day}T{i % 24:02d}:00:00Z", client_id=f"u{i % 40}",
                          query_attributes={"locale": "en"}) for i in range(count)]  # fmt: skip
        clicks = [event(action, f"{day}-{i}", at=f"{day}T{i % 24:02d}:00:09Z") for i in range(0, count, 3)]
        bench.write(day, *searches, *clicks)


def context(bench: Bench, spark: SparkProvider, settings: Settings) -> Context:
    run_ = Run.night(NIGHT, lengths=settings.windows.lengths)
    return Context(settings=settings, store=bench.store, run=run_, spark=spark, progress=Progress(StringIO()))


def settings_of(bench: Bench) -> Settings:
    return bench.settings(bench.source(columns={"locale": "query_attributes.locale"}))


def test_spark_tasks_make_the_same_tables_as_plain_calls(tmp_path, spark, monkeypatch):
    bench = Bench(tmp_path)
    write_days(bench, 3)
    settings = settings_of(bench)
    summary = run(context(bench, spark, settings))
    assert summary["rows_in"] == 600 and summary["clicks"] == 150
    other = Bench(tmp_path)
    other.store = type(bench.store)(str(tmp_path / "other"))
    for module in (stages, daily):
        monkeypatch.setattr(module, "run_tasks", lambda _, function, specs, label: [function(s) for s in specs])
    other.ingest(*settings.sources)
    assert {n: f.equals(other.tables()[n]) for n, f in bench.tables().items()} == dict.fromkeys(bench.tables(), True)
    seen = (
        read_delta(spark, bench.store.table_uri("daily_counts")).selectExpr("sum(impressions)", "sum(clicks)").first()
    )
    assert tuple(seen) == (1350, 150), "what delta-rs committed, Delta's own reader sees"
    again = run(context(bench, spark, settings))
    told = ("rows_in", "accepted", "impressions", "clicks", "days", "sources")
    assert {n: again[n] for n in told} == {n: summary[n] for n in told}, "a night run again reads nothing anew"


def test_a_sound_night_passes_and_its_results_can_be_read(tmp_path, spark, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    bench = Bench(tmp_path)
    write_days(bench, 8)
    ctx = context(bench, spark, settings_of(bench))
    run(ctx)
    verdict = decide(ctx)
    assert verdict["failed"] == 0 and verdict["warned"] == []
    checks = bench.store.read_json(f"{ctx.folder}/impressions/expectations.json")["checks"]
    assert {c["suite"] for c in checks} == {"impressions", "drift"}
    assert bench.store.exists(f"{ctx.folder}/impressions/data-docs/index.html")
    figures = bench.store.read_json(f"{ctx.folder}/impressions/figures.json")
    assert figures[0]["volume_ratio"] == pytest.approx(1.0)
    assert [p.name for p in scratch.iterdir()] == [], "the checks leave no temporary folder behind"


def test_a_wrong_action_name_that_makes_every_click_zero_fails_the_night(tmp_path, spark):
    bench = Bench(tmp_path)
    write_days(bench, 5, last_click="item_clicked", count=400)
    ctx = context(bench, spark, settings_of(bench))
    run(ctx)
    with pytest.raises(ChecksFailed, match="action name of clicks is wrong"):
        decide(ctx)
    warned = bench.store.read_json(f"{ctx.folder}/impressions/expectations.json")["warned"]
    assert any("click_rate_ratio" in w for w in warned)


def test_forgetting_a_user_reaches_every_table_and_old_files(tmp_path, spark):
    bench = Bench(tmp_path)
    write_days(bench, 2)
    bench.write("2026-11-20", query("own", hits=["only"], text="a query of one user", client_id="u1"),
                event(search="lost", client_id="u1"), name="one.ndjson")  # fmt: skip
    settings = settings_of(bench)
    ctx = context(bench, spark, settings)
    run(ctx)
    work = replace(bench.work(settings), spark=spark)
    key = work.salt.key("u1")
    shown = bench.store.read("impressions")
    assert shown.filter(pl.col("user_key") == key).height == 8 * 3 + 1
    done = forget(Wish(users=("u1",)), work=work)
    assert done["impressions"] == 25 and done["rejected"] == 1 and done["queries"] == 1 and done["items"] == 1
    assert bench.store.read("impressions").filter(pl.col("user_key") == key).height == 0
    assert bench.store.read("daily_users").filter(pl.col("user_hash") == key).height == 0
    assert bench.store.read("daily_counts")["impressions"].sum() == shown.height - 25
    assert "a query of one user" not in bench.store.read("queries")["query"].to_list()
    files = set((tmp_path / "store" / "tables" / "impressions").rglob("*.parquet"))
    assert len(files) == len(bench.store.files("impressions")), "old versions are gone from the disk"
    assert ctx.manifest()["tables"]["impressions"] == bench.store.version("impressions")
    log = json.loads((tmp_path / "store" / "forgotten" / f"{work.run_id}.json").read_text())
    assert log["users"] == [f"{key & 0xFFFFFFFFFFFFFFFF:016x}"] and log["not_reached"]


def test_forgetting_everything_before_a_day_drops_whole_days(tmp_path, spark):
    bench = Bench(tmp_path)
    write_days(bench, 3)
    settings = settings_of(bench)
    run(context(bench, spark, settings))
    done = forget(Wish(before=NIGHT), work=replace(bench.work(settings), spark=spark))
    assert done["days"] == ["2026-11-18", "2026-11-19"]
    assert bench.store.read("impressions")["event_day"].unique().to_list() == [NIGHT]
    assert datetime.fromisoformat("2026-11-20T00:00:00+00:00") <= bench.store.read("impressions")["shown_at"].min()


def test_a_file_that_goes_on_after_the_night_is_read_whole_and_seen_by_arrival(tmp_path, spark):
    bench = Bench(tmp_path)
    days = [(NIGHT + timedelta(days=n)).isoformat() for n in (0, 1)]
    searches = [query(f"{day}-{n}", hits=["a"], at=f"{day}T10:00:00Z") for day in days for n in range(10)]
    bench.write("any", *searches)
    settings = bench.settings(bench.source(path="logs/any/*.gz"))
    summary = run(context(bench, spark, settings))
    assert (summary["rejected"], summary["impressions"]) == ({}, 20)
    assert summary["sources"]["web"]["arrival_guarded"] is False
    arrivals = bench.store.read("daily_counts").group_by("arrival_day").agg(pl.col("impressions").sum())
    assert dict(arrivals.iter_rows()) == {NIGHT: 10, NIGHT + timedelta(days=1): 10}
