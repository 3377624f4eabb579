"""The flow, the manifest and publishing: one declaration, an atomic last step, nights that never move back."""

import sys
from dataclasses import replace
from datetime import date
from types import SimpleNamespace

import pytest
import typer
from click.testing import CliRunner

from jobs import night
from jobs.__main__ import app as hindcast_app
from jobs.core.context import Context
from jobs.core.errors import GateFailed, NotThereError, UsageError
from jobs.core.progress import Progress
from jobs.core.publish import published, with_entry
from jobs.core.settings import load_settings
from jobs.core.spark import SparkProvider
from jobs.core.tables import Store
from jobs.core.windows import Run, WindowLengths
from jobs.status import due, overview
from schemas.flow import ALL_USES, FLOW, flow, qualified


@pytest.fixture
def ctx(tmp_path):
    settings = load_settings(
        None, environment={}, root=str(tmp_path), corpora={"tracks": {"documents": "d"}, "talks": {}}
    )
    run = Run.night(date(2026, 11, 20), lengths=WindowLengths())
    spark = SparkProvider(settings.spark, store_uri=settings.store_uri)
    return Context(settings=settings, store=Store(settings.store_uri), run=run, spark=spark, progress=Progress(None))


def test_every_task_waits_only_for_tasks_before_it():
    for use in ALL_USES:
        seen = set()
        for task in flow(use):
            assert set(task.after) <= seen, (use, qualified(task))
            seen.add(qualified(task))
        assert qualified(flow(use)[-1]) == "publish.publish"


def test_every_task_has_its_function():
    for task in FLOW:
        assert callable(night.function_of(task)), qualified(task)


def test_the_whole_flow_starts_few_jvms():
    assert sum(t.engine == "spark" for t in flow("night")) <= 5


def test_run_flow_maps_shards_and_corpora(ctx, monkeypatch):
    calls = []

    def function_of(task):
        def work(_ctx, *args):
            calls.append((qualified(task), *args))
            return {"shards": [{"index": 0}, {"index": 1}]} if qualified(task) == "judging.plan" else {}

        return work

    monkeypatch.setattr(night, "function_of", function_of)
    night.run_flow(ctx, "night")
    assert [c for c in calls if c[0] == "judging.run"] == [("judging.run", 0), ("judging.run", 1)]
    assert [c for c in calls if c[0] == "skills.discover"] == [("skills.discover", "tracks")], "talks has no documents"
    assert calls[0] == ("impressions.ingest",) and calls[-1] == ("publish.publish",)


def test_a_run_without_a_report_is_not_published(ctx):
    with pytest.raises(NotThereError, match="no report"):
        night.publish_run(ctx)
    assert published(ctx)["runs"] == {}


def _rows(ctx, days):
    """Register an impressions table with one row a day, as every night's manifest would name it."""
    files = [SimpleNamespace(rows=1, day=day) for day in days]
    found = SimpleNamespace(files=lambda table, *, version, where: [f for f in files if f.day == where["event_day"]])
    return replace(ctx, store=_Both(ctx.store, found))


class _Both:
    """A store whose table files come from elsewhere."""

    def __init__(self, store, tables):
        self._store, self.files = store, tables.files

    def __getattr__(self, name):
        return getattr(self._store, name)


def _night(ctx, day):
    one = replace(ctx, run=Run.night(day, lengths=WindowLengths()))
    one.pin("reports", {"gates": {"failed": []}}, versions={"impressions": 0})
    return one


OLD, LATE = date(2026, 10, 1), date(2026, 11, 20)


@pytest.mark.parametrize("order", [(LATE, OLD), (OLD, LATE)])
def test_an_old_night_is_published_and_the_latest_stays_latest(ctx, order):
    ctx = _rows(ctx, order)
    for day in order:
        night.publish_run(_night(ctx, day))
    body = published(ctx)
    assert body["latest_night"] == "night-2026-11-20" and set(body["runs"]) == {"night-2026-11-20", "night-2026-10-01"}


def test_a_night_whose_day_has_no_rows_is_marked_and_never_the_latest(ctx):
    ctx = _rows(ctx, [OLD])
    night.publish_run(_night(ctx, OLD))
    with pytest.raises(GateFailed, match="2026-11-20 has no rows"):
        night.publish_run(_night(ctx, LATE))
    body = published(ctx)
    assert body["latest_night"] == "night-2026-10-01" and body["runs"]["night-2026-11-20"]["no_rows"] is True
    assert due(ctx.store, LATE, again=False)["due"], "it is run again when its log is there"
    assert {r["run"]: r["gates"] for r in overview(ctx.store)["runs"]}["night-2026-11-20"] == ["no rows"]
    night.publish_run(_night(_rows(ctx, [OLD, LATE]), LATE))
    body = published(ctx)
    assert body["latest_night"] == "night-2026-11-20" and "no_rows" not in body["runs"]["night-2026-11-20"]


@pytest.mark.parametrize(
    ("day", "again", "want", "why"),
    [
        (OLD, False, False, "published: the asset's run or the scheduled one did it"),
        (OLD, True, True, "published, but asked for by hand or by a backfill"),
        (LATE, False, True, "not published yet"),
    ],
)
def test_a_night_is_due_once(ctx, day, again, want, why):
    ctx = _rows(ctx, [OLD])
    night.publish_run(_night(ctx, OLD))
    found = due(ctx.store, day, again=again)
    assert found["due"] is want, why
    assert (found["why"] is None) is want


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("", "no [corpora.NAME] and no [[sources]]"),
        ("[corpora.tracks]\n", "no [[sources]]"),
    ],
)
@pytest.mark.parametrize("command", [("night", "--day"), ("status", "--due")])
def test_settings_without_a_log_are_wrong_use_before_any_jvm_starts(tmp_path, monkeypatch, body, named, command):
    config = tmp_path / "hindcast.toml"
    config.write_text(f'store = "store/"\n{body}')
    monkeypatch.setattr(sys, "argv", ["hindcast", *command])
    monkeypatch.setattr(SparkProvider, "_start", lambda self: pytest.fail("a JVM was started"))
    app = typer.main.get_command(hindcast_app)
    done = CliRunner().invoke(app, [*command, "2026-11-20", "--config", str(config)])
    assert done.exit_code == 2 and named in done.stderr
    assert not (tmp_path / "store").exists()


def test_a_launch_never_becomes_the_latest_night():
    body = with_entry({"runs": {}, "latest_night": None}, key="launch-x", entry={})
    assert body["latest_night"] is None and set(body["runs"]) == {"launch-x"}


def test_a_failed_gate_is_published_marked_and_raised(ctx):
    ctx = _night(_rows(ctx, [ctx.run.day]), ctx.run.day)
    ctx.record("reports", {"gates": {"failed": ["min_spearman .1 < .2"]}})
    with pytest.raises(GateFailed, match="min_spearman"):
        night.publish_run(ctx)
    assert published(ctx)["runs"]["night-2026-11-20"]["gates"]["failed"]


def test_the_manifest_keeps_versions_windows_and_steps(ctx):
    ctx.record("evidence", {"rows": 3})
    body = ctx.manifest()
    assert body["windows"]["evidence"] == ["2026-10-05", "2026-11-04"] and body["steps"]["evidence"]["rows"] == 3
    assert body["versions"]["polars"] and body["config_sha256"] == ctx.settings.sha256()
    with pytest.raises(NotThereError, match="has not written cards"):
        ctx.table_version("cards")


@pytest.mark.parametrize(
    ("args", "want", "why"),
    [
        (("2026-11-20", "", ""), 1, "one night"),
        (("", "2026-11-20", "2026-11-22"), 3, "a range includes both ends"),
        (("", "2026-11-22", "2026-11-20"), None, "a range that runs backwards"),
        (("2026-11-20", "2026-11-20", ""), None, "both forms at once"),
        (("", "", ""), None, "no night at all"),
        (("2026-02-30", "", ""), None, "no calendar date"),
    ],
)
def test_which_nights(args, want, why):
    if want is None:
        with pytest.raises(UsageError):
            night._days(*args)
    else:
        assert len(night._days(*args)) == want, why
