"""The three uses through a real scheduler: a night, a backfill and a launch, asked for as an operator would.

The fixtures run in this order over one store: the night that is due by the clock (ended at once: its log is not
simulated), a backfill backwards, a night by hand, the asset, a forecast in batches, its outcome, a launch that fails.
"""

import json
import time
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from tests.e2e.conftest import NIGHT
from tests.ops.conftest import BY_DAY, BY_RUN, PAST, AtVersions, differences
from tests.ops.scheduler import Refused

LIMIT_S = 1500  # of one run; it takes one or two minutes on an idle machine
RUNS = [f"night-{day}" for day in PAST]
pytestmark = [
    pytest.mark.timeout(4 * LIMIT_S),
    pytest.mark.skipif(
        datetime.now(UTC).date().isoformat() <= NIGHT,
        reason=f"this clock stands before {NIGHT}, the last simulated day, and the future cannot be backfilled",
    ),
]


def seconds(run: dict) -> float:
    """How long a run took."""
    begun, ended = (datetime.fromisoformat(run[k]) for k in ("start_date", "end_date"))
    return (ended - begun).total_seconds()


def idle_share(run: dict, tasks: list[dict]) -> float:
    """Share of the run's time in which no task ran."""
    spans = sorted((t["start_date"], t["end_date"]) for t in tasks if t["start_date"] and t["end_date"])
    covered, until = timedelta(), datetime.min.replace(tzinfo=UTC)
    for begun, ended in ((datetime.fromisoformat(a), datetime.fromisoformat(b)) for a, b in spans):
        covered += max(timedelta(), ended - max(begun, until))
        until = max(until, ended)
    return 1 - covered.total_seconds() / seconds(run)


def well(operated, dag: str, run_id: str) -> dict:
    """The run once it has ended well; only its publishing may fail (report gates, on so few pages)."""
    run = operated.airflow.wait(dag, run_id, limit_s=LIMIT_S)
    bad = [t["task_id"] for t in operated.airflow.tasks(dag, run_id) if t["state"] not in ("success", "skipped")]
    assert set(bad) <= {"publish.publish"}, operated.airflow.failures(dag, run_id)
    if bad:
        assert "is published, marked" in operated.airflow.failures(dag, run_id)
    return run


@pytest.fixture(scope="module")
def scheduled(operated) -> dict:
    """The run that the clock asked for when the DAG was switched on; ended, since its day is not simulated."""
    end = time.monotonic() + 120
    while not (found := [r for r in operated.airflow.runs("nightly") if r["run_type"] == "scheduled"]):
        assert time.monotonic() < end, "the scheduler made no run"
        time.sleep(1)
    path = f"/api/v2/dags/nightly/dagRuns/{found[0]['dag_run_id']}"
    operated.airflow.ask("PATCH", path, {"state": "failed"})
    return found[0]


@pytest.fixture(scope="module")
def backfilled(operated, scheduled) -> list[dict]:
    """The past nights, asked for backwards and two at a time; the tables at their end stay as `operated.past`."""
    span = ("--from-date", PAST[0], "--to-date", f"{PAST[-1]}T23:59:59")
    limits = ("--run-backwards", "--max-active-runs", "2")
    operated.airflow.command("backfill", "create", "--dag-id", "nightly", *span, *limits)
    runs = [r for r in operated.airflow.runs("nightly") if r["run_type"] == "backfill"]
    done = [well(operated, "nightly", r["dag_run_id"]) for r in runs]
    operated.past = AtVersions(operated.store)
    return done


@pytest.fixture(scope="module")
def by_hand(operated, backfilled) -> dict:
    """The last simulated night, by its parameter alone; `jvms` counts the JVMs that it started."""
    before = operated.jvms()
    run = well(operated, "nightly", operated.airflow.trigger("nightly", day=NIGHT))
    return run | {"jvms": operated.jvms() - before}


@pytest.fixture(scope="module")
def arrived(operated, by_hand) -> dict:
    """The run that the log's arrival asks for, of a day that is done."""
    assets = operated.airflow.ask("GET", "/api/v2/assets?name_pattern=hindcast_log")["assets"]
    event = {"asset_id": assets[0]["id"], "extra": {"day": NIGHT}}
    operated.airflow.ask("POST", "/api/v2/assets/events", event)
    end = time.monotonic() + 120
    while not (found := [r for r in operated.airflow.runs("nightly") if r["run_type"] == "asset_triggered"]):
        assert time.monotonic() < end, "the event started no run"
        time.sleep(1)
    return operated.airflow.wait("nightly", found[0]["dag_run_id"], limit_s=LIMIT_S)


@pytest.fixture(scope="module")
def forecast(operated, by_hand) -> dict:
    """A forecast with parameters of its own: an endpoint's batches, plain alone. `deferred`: shards that waited."""
    plan = json.loads((operated.folder / "launch" / "launch.json").read_text())
    own = {"judge": "openai", "model": "batch-model", "variants": ["plain"], "budget_usd": "off", "gap_days": 1}
    pages = {f"pages_{s}": str(operated.folder / "launch" / f"pages-{s}.jsonl") for s in ("a", "b")}
    named = {"launch_id": plan["launch_id"], "start": plan["start"]}
    run_id = operated.airflow.trigger("pre_launch", **named, **pages, **own)
    end, deferred = time.monotonic() + LIMIT_S, []
    while time.monotonic() < end and not deferred:
        tasks = operated.airflow.tasks("pre_launch", run_id)
        assert not [t for t in tasks if t["state"] == "failed"], operated.airflow.failures("pre_launch", run_id)
        deferred = [t for t in tasks if t["state"] == "deferred"]
        time.sleep(1)
    operated.provider.auto_finish = True
    run = well(operated, "pre_launch", run_id)
    return run | {"deferred": deferred, "launch_id": plan["launch_id"], "bought": list(operated.provider.bought)}


@pytest.fixture(scope="module")
def outcome(operated, forecast) -> dict:
    """The same launch after its A/B test."""
    outcomes = str(operated.folder / "launch" / "outcomes.jsonl")
    run_id = operated.airflow.trigger("pre_launch", launch_id=forecast["launch_id"], outcomes=outcomes)
    return well(operated, "pre_launch", run_id)


def test_the_clock_asks_for_the_day_before(scheduled):
    begun, ended = (datetime.fromisoformat(scheduled[k]) for k in ("data_interval_start", "data_interval_end"))
    assert ended - begun == timedelta(days=1) and (begun.hour, begun.utcoffset()) == (4, timedelta())
    assert begun < datetime.now(UTC) - timedelta(days=1) and ended <= datetime.now(UTC)


def test_a_backfill_ran_every_night_once_and_backwards(backfilled):
    nights = [r["data_interval_start"][:10] for r in sorted(backfilled, key=lambda r: r["start_date"])]
    assert sorted(nights) == PAST
    assert nights[0] == PAST[-1], "the last one was first"


@pytest.mark.parametrize("table", [*BY_DAY, *(t for t in BY_RUN if t != "judgments")])
def test_backfilled_nights_equal_nights_run_in_order(operated, backfilled, past_nights, table):
    assert past_nights.read(table).height > 0, "there is something to compare"
    assert differences(operated.past, past_nights, tables=(table,), runs=RUNS) == []


def test_judging_was_off_in_the_backfill_and_nothing_was_sent(operated, backfilled):
    assert operated.store.read("judgments").filter(pl.col("run").is_in(RUNS)).height == 0
    for run in RUNS:
        assert operated.store.read_json(f"runs/{run}/manifest.json")["steps"]["judging"]["judged"] is False


def rows_read(store) -> int:
    """Rows that the past nights read themselves; a night whose rows another one read tells what is stored."""
    steps = [store.read_json(f"runs/{run}/manifest.json")["steps"]["impressions"] for run in RUNS]
    return sum(s["rows_in"] for step in steps for s in step["sources"].values() if not s.get("stored"))


def test_each_raw_day_was_read_once(operated, backfilled, past_nights):
    assert rows_read(operated.store) == rows_read(past_nights) > 0


def test_an_older_night_never_moved_the_latest_back(operated, backfilled, by_hand):
    body = operated.store.read_json("published.json")
    assert body["latest_night"] == f"night-{NIGHT}" and set(RUNS) < set(body["runs"])


def test_a_night_by_hand_needs_no_logical_date_and_equals_the_command(operated, by_hand, night):
    assert by_hand["logical_date"] is None and by_hand["conf"] == {"day": NIGHT}
    assert differences(operated.store, night[1], runs=[f"night-{NIGHT}"]) == []


def test_a_night_starts_few_jvms(by_hand, past_summary):
    assert 1 <= by_hand["jvms"] <= 5
    assert [found["jvm_starts"] for found in past_summary["nights"].values()] == [1] * len(PAST), "one for all of them"


def test_times_are_told(operated, backfilled, by_hand, tell):
    """What a backfill costs and what the scheduler adds; printed, never asserted: the machine may be busy."""
    tasks = operated.airflow.tasks("nightly", by_hand["dag_run_id"])
    total = (max(r["end_date"] for r in backfilled), min(r["start_date"] for r in backfilled))
    span = (datetime.fromisoformat(total[0]) - datetime.fromisoformat(total[1])).total_seconds()
    tell(
        f"a night {seconds(by_hand):.0f} s ({idle_share(by_hand, tasks):.0%} in no task), a backfill of"
        f" {len(backfilled)} nights {span:.0f} s: {span / seconds(by_hand):.2f} nights"
    )
    assert len(tasks) > len(BY_RUN)


def test_mapped_tasks_are_named_for_people(operated, by_hand):
    tasks = operated.airflow.tasks("nightly", by_hand["dag_run_id"])
    shown = {t["rendered_map_index"] for t in tasks if t["task_id"] == "judging.run"}
    assert "tracks qri 0" in shown and len(shown) == sum(t["task_id"] == "judging.run" for t in tasks)


def test_the_arrival_of_a_day_that_is_done_runs_nothing_twice(operated, arrived):
    states = {t["task_id"]: t["state"] for t in operated.airflow.tasks("nightly", arrived["dag_run_id"])}
    assert arrived["state"] == "success" and set(states.values()) == {"skipped"}, states


def test_a_launch_waits_for_its_batches_without_a_worker(operated, forecast):
    assert forecast["deferred"], "a shard was deferred until the provider had finished"
    assert len(forecast["bought"]) == len(set(forecast["bought"])) > 0


def test_parameters_of_a_launch_are_honoured(operated, forecast):
    judged = operated.store.read("judgments", where={"run": f"launch-{forecast['launch_id']}"})
    assert set(judged["variant"]) == {"plain", "evidence_only"}
    assert set(judged.filter(pl.col("variant") == "plain")["model"]) == {"batch-model"}
    assert judged.filter(pl.col("variant") == "plain")["label"].null_count() == 0


@pytest.mark.parametrize("table", ["evidence", "pages", "cards"])
def test_a_launch_equals_that_of_the_command(operated, forecast, launch, table):
    _, wanted, launch_id = launch
    assert launch_id == forecast["launch_id"]
    assert differences(operated.store, wanted, tables=(table,), runs=[f"launch-{launch_id}"]) == []


def test_an_outcome_is_aligned_and_leaves_the_night_alone(operated, outcome, forecast):
    report = operated.store.read_json(f"reports/launch-{forecast['launch_id']}/report.json")["launch"]
    assert report["variants"]["plain"]["n"] > 0 and report["track"]
    body = operated.store.read_json("published.json")
    assert body["latest_night"] == f"night-{NIGHT}" and f"launch-{forecast['launch_id']}" in body["runs"]


BAD = [
    ("nightly", {"day": "soon"}, "no date"),
    ("nightly", {"day": 20261120}, "no text"),
    ("pre_launch", {"launch_id": "../up"}, "an id that could be a path"),
    ("pre_launch", {"launch_id": "x", "budget_usd": "much"}, "no number"),
    ("pre_launch", {"launch_id": "x", "corpora": ["../x"]}, "no name of a corpus"),
    ("pre_launch", {"launch_id": "x", "judge": "human"}, "no judge"),
]


@pytest.mark.parametrize(("dag", "conf", "why"), BAD)
def test_the_api_refuses_bad_parameters(operated, dag, conf, why):
    with pytest.raises(Refused, match=r"^4\d\d: "):
        operated.airflow.trigger(dag, **conf)


def test_a_failed_run_leaves_what_is_published_and_tells_once(operated, outcome):
    before = operated.store.documents.read_bytes("published.json")
    run_id = operated.airflow.trigger("pre_launch", launch_id="unknown", outcomes="none.jsonl")
    run = operated.airflow.wait("pre_launch", run_id, limit_s=LIMIT_S)
    states = {t["task_id"]: t["state"] for t in operated.airflow.tasks("pre_launch", run_id)}
    assert run["state"] == "failed" and states["launch.register"] == "failed", states
    assert "no frozen forecast" in operated.airflow.failures("pre_launch", run_id)
    assert operated.store.documents.read_bytes("published.json") == before
    end = time.monotonic() + 120
    while not (told := [n["text"] for n in operated.notices if run_id in n["text"]]) and time.monotonic() < end:
        time.sleep(1)
    assert len(told) == 1 and "pre_launch" in told[0]
