"""The propensity and evidence steps on a small store, tasks in this process: what they write, keep, drop and mark."""

from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import polars as pl
import pytest

from jobs.core.errors import NotThereError
from jobs.core.keys import FINEST, RANGES, range_bounds
from jobs.core.windows import Run
from jobs.evidence import build
from jobs.evidence import job as evidence_job
from jobs.propensity import fitting, reading
from jobs.propensity import job as propensity_job
from jobs.propensity.curve import from_file
from jobs.propensity.sample import split
from schemas.catalog import table
from tests.unit.pages.ministore import CORPUS, DAY, copy_of, in_process, mini_store

MODULES = (fitting, build)


@pytest.fixture(autouse=True)
def _tasks_here(monkeypatch):
    for module in MODULES:
        monkeypatch.setattr(module, "run_tasks", in_process)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return mini_store(tmp_path_factory.mktemp("written"))


def night(written, folder, **overrides):
    """Propensity and evidence of the mini store's night under other settings."""
    ctx = copy_of(written, folder, **overrides).ctx
    propensity_job.run(ctx)
    return ctx, evidence_job.run(ctx)


def rows_of(ctx):
    return ctx.read("evidence", run=ctx.run.key).sort("query_key", "item_key")


def reference(ctx, curve):
    """Sums of every row that the guard lets through, one row after the other."""
    counts = ctx.store.read("daily_counts")
    sums = defaultdict(lambda: [0, 0, 0.0])
    for r in counts.iter_rows(named=True):
        if ctx.run.evidence_sees(r["event_day"], r["arrival_day"]):
            s = sums[r["query_key"], r["item_key"]]
            s[0] += r["impressions"]
            s[1] += r["clicks"]
            s[2] += r["impressions"] * curve.at(r["rank"])
    return sums


@pytest.mark.parametrize("rows_a_task", [3_000_000, 4_000, 100], ids=["one task", "some", "sixteen"])
def test_evidence_is_the_guarded_sum_however_many_tasks_there_are(written, tmp_path, monkeypatch, rows_a_task):
    monkeypatch.setattr(reading, "ROWS_A_TASK", rows_a_task)
    ctx, summary = night(written, tmp_path)
    curve = fitting.read_curves(ctx, CORPUS)[0]
    expected = reference(ctx, curve)
    rows = rows_of(ctx)
    assert rows.height == len(expected) == summary["corpora"][CORPUS]["rows"]
    for r in rows.iter_rows(named=True):
        n, c, x = expected[r["query_key"], r["item_key"]]
        assert (r["impressions"], r["clicks"], r["examined"]) == (n, c, pytest.approx(x, rel=1e-9))
        assert r["relevance_low"] <= r["relevance"] <= r["relevance_high"]
        assert r["curve_id"] == curve.curve_id
    assert rows["last_shown_day"].max() < ctx.run.evidence.end
    assert rows["relevance_shrunk"].mean() == pytest.approx(rows["relevance"].mean(), rel=0.15)


def test_what_arrived_after_the_cut_or_happened_outside_the_window_is_not_seen(written, tmp_path):
    ctx = copy_of(written, tmp_path).ctx
    run = ctx.run
    propensity_job.run(ctx)
    evidence_job.run(ctx)
    before = rows_of(ctx)
    day = run.evidence.start.isoformat()
    where = {"event_day": day, "corpus": CORPUS}
    counts = ctx.store.read("daily_counts", where=where).filter(pl.col("arrival_day") == pl.col("event_day"))
    whole = ctx.store.read("daily_counts", where=where)
    late = counts.with_columns(arrival_day=pl.lit(run.cut))
    ctx.store.replace("daily_counts", pl.concat([whole, late]).sort("query_key", "item_key"), where=where)
    outside = run.evidence.start - timedelta(days=1)
    early = counts.with_columns(event_day=pl.lit(outside), arrival_day=pl.lit(outside))
    ctx.store.replace("daily_counts", early, where={"event_day": outside.isoformat(), "corpus": CORPUS})
    ctx.record("impressions", {}, tables=("daily_counts",))
    propensity_job.run(ctx)
    evidence_job.run(ctx)
    assert rows_of(ctx).equals(before)


def test_a_run_repeated_writes_the_same_rows_once(written, tmp_path):
    ctx, _ = night(written, tmp_path)
    before = rows_of(ctx)
    propensity_job.run(ctx)
    evidence_job.run(ctx)
    assert rows_of(ctx).equals(before)
    assert len(ctx.store.files("evidence", where={"run": ctx.run.key})) == 1


def test_rare_and_sensitive_queries_are_counted_and_absent(written, tmp_path):
    patterns = tmp_path / "sensitive.txt"
    patterns.write_text("# comment\nsad (piano|violin)\n", encoding="utf-8")
    privacy = {"privacy": {"sensitive_queries": str(patterns)}}
    ctx, summary = night(written, tmp_path / "store", evidence={"min_users": 5}, **privacy)
    found = summary["corpora"][CORPUS]
    assert (found["queries"], found["dropped_sensitive"], found["dropped_rare"]) == (8, 2, 0)
    assert not rows_of(ctx)["query"].str.contains("sad").any()
    ctx, summary = night(written, tmp_path / "other", evidence={"min_users": 10_000})
    assert (summary["corpora"][CORPUS]["rows"], summary["corpora"][CORPUS]["dropped_rare"]) == (0, 10)


def test_a_short_history_is_marked_and_under_the_minimum_gives_no_evidence(written, tmp_path):
    ctx = copy_of(written, tmp_path).ctx
    first = min(f.partition["event_day"] for f in ctx.store.files("daily_counts"))
    early = Run.night(DAY - timedelta(days=2), lengths=ctx.settings.windows.lengths)
    cold = replace(ctx, run=early)
    cold.record("impressions", {}, tables=("daily_counts", "daily_users", "queries", "item_keys", "items"))
    propensity_job.run(cold)
    summary = evidence_job.run(cold)["corpora"][CORPUS]
    assert summary["cold_start"]
    assert "of 12 days" in summary["state"]
    assert rows_of(cold)["window_start"].unique().to_list() == [pl.Series([first]).str.to_date()[0]]
    colder = replace(ctx, run=Run.night(DAY - timedelta(days=11), lengths=ctx.settings.windows.lengths))
    colder.record("impressions", {}, tables=("daily_counts", "daily_users", "queries", "item_keys", "items"))
    propensity_job.run(colder)
    summary = evidence_job.run(colder)["corpora"][CORPUS]
    assert summary["rows"] == 0
    assert "no evidence: 2 days" in summary["state"]


def test_a_curve_of_a_sample_of_queries_says_so(written, tmp_path):
    ctx, _ = night(written, tmp_path, propensity={"sample_queries": 6})
    curve = fitting.read_curves(ctx, CORPUS)[0]
    assert "fitted on 60.00% of 10 queries" in curve.reason
    whole = copy_of(written, tmp_path / "whole").ctx
    propensity_job.run(whole)
    assert curve.ranks[0].impressions < fitting.read_curves(whole, CORPUS)[0].ranks[0].impressions


@pytest.mark.parametrize("tasks", [0, 1, 3, 16, 99])
@pytest.mark.parametrize("high", [2**63 - 1, 0, -(2**63) + 50])
def test_key_ranges_are_whole_disjoint_and_end_where_the_sample_ends(tasks, high):
    parts = split(high, tasks=tasks)
    assert (parts[0][0], parts[-1][1]) == (-(2**63), high)
    assert all(one[1] + 1 == two[0] for one, two in pairwise(parts))
    assert len(parts) == min(16, max(1, tasks))


def test_segments_get_curves_of_their_own_and_their_rows_are_weighed_with_them(written, tmp_path):
    ctx = copy_of(written, tmp_path, propensity={"by_segment": True}).ctx
    named = ctx.store.read("daily_counts").with_columns(
        segment=pl.when(pl.col("query_key") > 0).then(pl.lit("phone")).otherwise(pl.lit("desktop"))
    )
    for key, part in named.partition_by("event_day", as_dict=True).items():
        ctx.store.replace("daily_counts", part, where={"event_day": key[0].isoformat(), "corpus": CORPUS})
    ctx.record("impressions", {}, tables=("daily_counts",))
    propensity_job.run(ctx)
    evidence_job.run(ctx)
    curves = {c.segment: c for c in fitting.read_curves(ctx, CORPUS)}
    assert set(curves) == {None, "phone", "desktop"}
    stored = ctx.read("propensities", run=ctx.run.key)
    assert set(stored["segment"].unique()) == {None, "phone", "desktop"}
    for r in rows_of(ctx).iter_rows(named=True):
        curve = curves["phone" if r["query_key"] > 0 else "desktop"]
        expected = sum(n * curve.at(k) for k, n in zip(r["ranks"], r["rank_impressions"], strict=True))
        assert r["examined"] == pytest.approx(expected, rel=1e-9)


def test_evidence_needs_its_curve(written, tmp_path):
    ctx = copy_of(written, tmp_path).ctx
    with pytest.raises(NotThereError, match="propensity"):
        evidence_job.run(ctx)


def test_the_propensities_table_and_the_curve_file_say_the_same(written, tmp_path):
    ctx, _ = night(written, tmp_path)
    rows = ctx.read("propensities", run=ctx.run.key).sort("rank")
    curve = from_file({k: v for k, v in ctx.store.read_json(_curve_path(ctx)).items() if k != "segments"})
    assert rows["propensity"].to_list() == curve.values().tolist()
    assert rows["standard_error"].to_list() == [r.standard_error for r in curve.ranks]
    assert rows["curve_id"].unique().to_list() == [curve.curve_id]
    assert not table("propensities").problems(rows.select(table("propensities").names))


def _curve_path(ctx):
    return f"runs/{ctx.run.key}/propensity/{CORPUS}.json"


def test_the_last_good_curve_of_an_earlier_night_is_kept_and_a_later_nights_never(written, tmp_path):
    ctx = copy_of(written, tmp_path).ctx
    lengths = ctx.settings.windows.lengths
    nights = [replace(ctx, run=Run.night(DAY - timedelta(days=back), lengths=lengths)) for back in (1, 0)]
    for one in nights:
        one.record("impressions", {}, tables=("daily_counts", "daily_users", "queries", "item_keys", "items"))
    earlier, later = nights
    propensity_job.run(earlier)
    frozen = ctx.store.read("daily_counts").filter(pl.col("rank") == pl.col("rank").min().over("query_key", "item_key"))
    for key, part in frozen.partition_by("event_day", as_dict=True).items():
        ctx.store.replace("daily_counts", part, where={"event_day": key[0].isoformat(), "corpus": CORPUS})
    later.record("impressions", {}, tables=("daily_counts",))
    found = propensity_job.run(later)["corpora"][CORPUS][0]
    assert (found["estimator"], found["identified"]) == ("last_good", False)
    good = earlier.read("propensities", run=earlier.run.key)
    assert later.read("propensities", run=later.run.key)["propensity"].to_list() == good["propensity"].to_list()
    propensity_job.run(later)
    earlier.record("impressions", {}, tables=("daily_counts",))
    assert propensity_job.run(earlier)["corpora"][CORPUS][0]["estimator"] == "declared"


@pytest.mark.parametrize("rows", [0, 1, 1_000_000, 1_000_001, 9_000_000, 16_000_000, 16_000_001, 47_000_000, 10**9])
def test_tasks_cover_every_key_once_and_keep_to_the_row_groups_of_their_days(rows):
    parts = reading.shares(rows)
    assert parts[0][0] == -(2**63)
    assert parts[-1][1] == 2**63 - 1
    assert all(end + 1 == start for (_, end), (start, _) in pairwise(parts))
    fine = rows > RANGES * reading.ROWS_A_TASK
    edges = {low for low, _ in range_bounds(ranges=FINEST if fine else RANGES)}
    assert {low for low, _ in parts} <= edges
