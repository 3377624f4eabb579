"""The flow, the manifest and publishing: one declaration, an atomic last step, nights that never move back."""

from dataclasses import replace
from datetime import date

import pytest

from jobs import night
from jobs.core.context import Context
from jobs.core.errors import GateFailed, NotThereError, UsageError
from jobs.core.progress import Progress
from jobs.core.publish import published, with_entry
from jobs.core.settings import load_settings
from jobs.core.spark import SparkProvider
from jobs.core.tables import Store
from jobs.core.windows import Run, WindowLengths
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


def test_an_old_night_is_published_and_the_latest_stays_latest(ctx):
    for day in (date(2026, 11, 20), date(2026, 10, 1)):
        one = replace(ctx, run=Run.night(day, lengths=WindowLengths()))
        one.record("reports", {"gates": {"failed": []}})
        night.publish_run(one)
    body = published(ctx)
    assert body["latest_night"] == "night-2026-11-20" and set(body["runs"]) == {"night-2026-11-20", "night-2026-10-01"}


def test_a_launch_never_becomes_the_latest_night():
    body = with_entry({"runs": {}, "latest_night": None}, key="launch-x", entry={})
    assert body["latest_night"] is None and set(body["runs"]) == {"launch-x"}


def test_a_failed_gate_is_published_marked_and_raised(ctx):
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
