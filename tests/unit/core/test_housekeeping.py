"""Housekeeping: the same rows in fewer files of the same layout, and nothing gone that a kept run names."""

import os
import time
from datetime import date, timedelta
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from jobs import housekeeping
from jobs.core import upkeep
from jobs.core.keys import range_bounds, range_of
from jobs.core.progress import Progress
from jobs.core.settings import Settings
from jobs.core.tables import Store, stage
from schemas.catalog import table

USERS = table("daily_users")
DAY = date(2026, 11, 20)
PART = {"event_day": DAY, "corpus": "tracks"}


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "store"))


def users(keys, day=DAY, base=0):
    rows = [(day, "tracks", "en", k, day, "s", base + i) for i, k in enumerate(keys)]
    return pl.DataFrame(rows, schema=USERS.polars(), orient="row")


def crowd(store, *frames, part=PART):
    """One partition of daily_users in as many files as frames."""
    staged = [stage(store.table_uri("daily_users"), USERS, f, partition=part) for f in frames]
    return store.commit_files("daily_users", staged, replaced=[part])


KEYS = [low + 5 for low, _ in range_bounds()]


def compacted(store, **options):
    defaults = {"small": 1 << 20, "cuts": housekeeping.range_cuts_of, "dry_run": False}
    return upkeep.compact(store, "daily_users", **{**defaults, **options})


def test_small_files_become_one_sorted_file_with_a_row_group_a_key_range(store):
    other = {"event_day": DAY + timedelta(days=1), "corpus": "tracks"}
    crowd(store, users([1, 2], day=other["event_day"]), part=other)
    before = crowd(store, users(KEYS[9:]), users(KEYS[:9], base=100), users([3], base=200))
    rows = store.read("daily_users").sort("event_day", "query_key", "user_hash")
    untouched = [f.uri for f in store.files("daily_users", where=other)]
    assert compacted(store) | {"bytes": 0} == {"partitions": 1, "files": 2, "bytes": 0, "busy": 0}
    (file,) = store.files("daily_users", where=PART)
    held = pq.ParquetFile(file.uri)
    parts = [held.read_row_group(i, columns=["query_key"]) for i in range(held.num_row_groups)]
    groups = [part["query_key"].to_pylist() for part in parts]
    assert [sorted(g) == g and len({range_of(k) for k in g}) == 1 for g in groups] == [True] * 16
    assert store.read("daily_users").sort("event_day", "query_key", "user_hash").equals(rows)
    assert [f.uri for f in store.files("daily_users", where=other)] == untouched
    assert (file.rows, file.low["query_key"], file.high["query_key"]) == (17, min(KEYS), max(KEYS))
    assert len(store.files("daily_users", version=before, where=PART)) == 3, "the version of before is still there"
    assert compacted(store)["partitions"] == 0, "there is nothing left to do"


def test_partitions_of_large_files_and_a_dry_run_change_nothing(store):
    version = crowd(store, users([1]), users([2], base=9))
    assert compacted(store, small=1)["partitions"] == 0
    assert compacted(store, dry_run=True)["partitions"] == 1
    assert store.version("daily_users") == version


@pytest.mark.parametrize("where", ["before the rows are read", "after the rows are read"])
def test_a_partition_that_is_replaced_meanwhile_stays_the_other_writers(store, monkeypatch, where):
    crowd(store, users([1]), users([2], base=9))
    real = upkeep.joined

    def meanwhile(spec, files):
        rows = real(spec, files)
        store.replace("daily_users", users([7], base=50), where=PART)
        return rows

    if where.startswith("after"):
        monkeypatch.setattr(upkeep, "joined", meanwhile)
    else:
        files = upkeep._crowded(store, "daily_users", 1 << 20)
        store.replace("daily_users", users([7], base=50), where=PART)
        monkeypatch.setattr(upkeep, "_crowded", lambda *_: files)
    assert compacted(store)["busy"] == 1
    assert store.read("daily_users").select("query_key", "user_hash").rows() == [(7, 50)]
    parts = [p for p in Path(store.uri).rglob("*.parquet") if "20" in str(p)]
    named = {f.uri for v in (0, 1) for f in store.files("daily_users", version=v)}
    assert {str(p) for p in parts} == named, "what was joined in vain is gone"


def test_vacuum_keeps_the_named_versions_whole_and_young_files(store):
    versions = [crowd(store, users([k], base=k)) for k in (1, 2, 3, 4)]
    folder = Path(store.table_uri("daily_users")) / f"event_day={DAY}" / "corpus=tracks"
    for name, age in (("young", 3600), ("old", 90_000)):
        (folder / f"part-{name}.parquet").write_bytes(b"left by a killed task")
        os.utime(folder / f"part-{name}.parquet", (time.time() - age,) * 2)
    assert upkeep.vacuum(store, "daily_users", keep=[versions[1]], hours=24, dry_run=False)["files"] == 1
    assert {p.name for p in folder.glob("part-young*")} and not list(folder.glob("part-old*"))
    done = upkeep.vacuum(store, "daily_users", keep=[versions[1], 99], hours=0, dry_run=False)
    assert done["files"] == 3 and done["missing"] == [99], "two versions nobody names, and the young file"
    assert [upkeep.whole(store, "daily_users", v) for v in versions] == [False, True, False, True]
    assert store.read("daily_users", version=versions[1])["query_key"].to_list() == [2]
    assert store.read("daily_users")["query_key"].to_list() == [4]


def manifest(as_of, *, steps=(), tables=None):
    return {"as_of": as_of, "steps": {step: {} for step in steps}, "tables": tables or {}}


@pytest.mark.parametrize(
    ("runs", "days", "gone"),
    [
        pytest.param({}, 5, [], id="an empty store"),
        pytest.param({"launch-x": manifest("2020-01-01")}, 5, [], id="no night tells what day it is"),
        pytest.param({"night-2026-11-20": manifest("2026-11-20")}, 1, [], id="the newest night, however old, stays"),
        pytest.param(
            {f"night-2026-11-{d}": manifest(f"2026-11-{d}") for d in (20, 14, 15, 10)},
            5,
            ["night-2026-11-10", "night-2026-11-14"],
            id="older than five days, oldest first",
        ),
        pytest.param(
            {
                "night-2026-11-20": manifest("2026-11-20"),
                "launch-open": manifest("2026-01-01", steps=["reports"]),
                "launch-done": manifest("2026-01-01", steps=["reports.outcome"]),
            },
            5,
            ["launch-done"],
            id="a launch that waits for its outcome stays",
        ),
    ],
)
def test_which_runs_expire(store, runs, days, gone):
    assert housekeeping.expired(runs, until=housekeeping.newest(store, runs), retain_days=days) == gone


def test_nights_without_rows_age_nothing(store):
    """The log stopped; nights went on without rows, so that the latest night is an old one."""
    runs = {f"night-{day}": manifest(day) for day in ("2026-01-01", "2026-11-20")}
    store.write_json("published.json", {"runs": {}, "latest_night": "night-2026-01-01"})
    assert housekeeping.newest(store, runs) == date(2026, 1, 1)
    assert housekeeping.expired(runs, until=date(2026, 1, 1), retain_days=1) == []


def curve(run):
    spec = table("propensities")
    filled = {"string": "x", "json": "{}", "bigint": 1, "int": 1, "double": 0.5, "boolean": True, "date": DAY}
    row = {c.name: None if c.nullable else (c.allowed or [filled.get(c.type)])[0] for c in spec.columns}
    return pl.DataFrame([{**row, "run": run, "corpus": "tracks", "rank": 1}], schema=spec.polars())


@pytest.fixture
def lived_in(store):
    """Three nights; every version of two tables is named by one of them."""
    runs = {}
    for number, day in enumerate(("2026-11-01", "2026-11-19", "2026-11-20")):
        key = f"night-{day}"
        versions = {
            "daily_users": crowd(store, users([number], base=number), users([50 + number], base=50)),
            "propensities": store.replace("propensities", curve(key), where={"run": key, "corpus": "tracks"}),
        }
        store.write_json(f"runs/{key}/manifest.json", manifest(day, tables=versions))
        store.write_json(f"reports/{key}/report.json", {})
        runs[key] = {"tables": versions, "report": f"reports/{key}", "as_of": day, "gates": {}}
    store.write_json("published.json", {"runs": runs, "latest_night": "night-2026-11-20"})
    store.write_json("staging/killed/part.json", {})
    return store


def keep_house(store, **changes):
    rules = Settings().housekeeping.model_copy(update={"retain_days": 5, "grace_hours": 0})
    work = housekeeping.Work(store=store, settings=Settings(), rules=rules, dry_run=False, progress=Progress(None))
    return housekeeping.keep_house(work if not changes else housekeeping.Work(**{**vars(work), **changes}))


def tree(store):
    return {str(p): p.stat().st_mtime_ns for p in Path(store.uri).rglob("*") if p.is_file() and "locks" not in p.parts}


def test_a_dry_run_says_what_would_go_and_changes_nothing(lived_in):
    before = tree(lived_in)
    told = keep_house(lived_in, dry_run=True)
    assert told["runs"] == {"runs": ["night-2026-11-01"], "rows": 1, "kept": 2}
    assert told["staging"]["folders"] == ["killed"] and told["compaction"]["daily_users"]["partitions"] == 1
    assert tree(lived_in) == before


def test_only_what_no_kept_run_needs_goes(lived_in):
    kept = ("night-2026-11-19", "night-2026-11-20")
    held = {k: lived_in.read_json(f"runs/{k}/manifest.json")["tables"] for k in kept}
    rows = {k: lived_in.read("daily_users", version=v["daily_users"]) for k, v in held.items()}
    done = keep_house(lived_in)
    assert done["runs"]["runs"] == ["night-2026-11-01"] and done["vacuum"]["daily_users"]["files"] == 2
    body = lived_in.read_json("published.json")
    assert sorted(body["runs"]) == ["night-2026-11-19", "night-2026-11-20"]
    assert body["latest_night"] == "night-2026-11-20"
    assert not lived_in.exists("runs/night-2026-11-01") and lived_in.exists("reports/night-2026-11-01/report.json")
    assert sorted(lived_in.read("propensities")["run"]) == sorted(held)
    for key, versions in held.items():
        assert all(upkeep.whole(lived_in, name, version) for name, version in versions.items())
        assert lived_in.read("daily_users", version=versions["daily_users"]).equals(rows[key])
    assert not upkeep.whole(lived_in, "daily_users", 0), "the version that only the expired night named"
    assert not lived_in.exists("staging/killed")
    again = keep_house(lived_in)
    assert again["runs"]["runs"] == [] and again["compaction"] == {}
