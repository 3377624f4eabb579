"""The Logs set of a night on a store: guards, stability, what is excluded and why. Tasks run in this process."""

import json
from dataclasses import replace
from datetime import date, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.core.errors import LeakageError
from jobs.core.windows import Run, WindowLengths, evaluation_filter, evidence_filter
from jobs.pages import job, logs_set
from jobs.pages.model import page_dicts
from schemas.pages import PAGES
from tests.unit.pages.ministore import CORPUS, DAY, QUERIES, copy_of, in_process, key_of_query, mini_store


@pytest.fixture
def tasks_here(monkeypatch):
    monkeypatch.setattr(logs_set, "run_tasks", in_process)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return mini_store(tmp_path_factory.mktemp("plain"))


@pytest.fixture
def night(plain, tmp_path, tasks_here):
    mini = copy_of(plain, tmp_path)
    return mini, job.run(mini.ctx)


def pages_of(mini, **where):
    return mini.ctx.read("pages", run=mini.ctx.run.key, **where).sort("page_id")


def test_pages_of_a_night(night):
    mini, summary = night
    frame = pages_of(mini)
    assert PAGES.problems(frame) == []
    assert summary["logs"]["configurations"]["good"] == len(QUERIES)
    assert summary["logs"]["pages"] == frame.height > len(QUERIES), "every query is degraded here"
    for page in page_dicts(frame):
        ids = [item["item_id"] for item in page["items"]]
        assert len(set(ids)) == len(ids)
        assert 3 <= len(ids) <= 5
        assert [item["rank"] for item in page["items"]] == list(range(1, len(ids) + 1))
        assert page["truth"] is not None
        assert page["made"]["scored_on"] == "odd event days"


def test_truth_counts_only_odd_days_of_the_evaluation_window_that_arrived(night):
    mini, _ = night
    run = mini.ctx.run
    seen = mini.ctx.store.read("daily_counts").filter(
        (pl.col("event_day") >= run.evaluation.start)
        & (pl.col("event_day") < run.evaluation.end)
        & (pl.col("arrival_day") <= run.as_of)
        & (pl.col("event_day").cast(pl.Int32) % 2 == 1)
    )
    ids = mini.ctx.store.read("item_keys").select("item_key", "item_id")
    totals = {
        (query, item): n
        for query, item, n in seen.join(ids, on="item_key").group_by("query_key", "item_id")
        .agg(pl.col("impressions").sum()).iter_rows()
    }  # fmt: skip
    for row in pages_of(mini).iter_rows(named=True):
        items = json.loads(row["items"])
        want = sum(totals[row["query_key"], item["item_id"]] for item in items)
        assert json.loads(row["made"])["truth_impressions"] == want


def test_running_a_night_again_gives_the_same_pages(night):
    mini, _ = night
    first = pages_of(mini)
    job.run(mini.ctx)
    assert pages_of(mini).equals(first)


def test_rows_that_arrive_after_the_night_change_nothing(night):
    mini, _ = night
    first = pages_of(mini)
    store, last = mini.ctx.store, DAY - timedelta(days=1)
    where = {"event_day": last.isoformat(), "corpus": CORPUS}
    rows = store.read("daily_counts", where=where)
    late = rows.with_columns(arrival_day=pl.lit(DAY + timedelta(days=1)), clicks=pl.col("impressions"), rank=pl.lit(1))
    late = late.group_by(pl.exclude("impressions", "clicks", "interaction"), maintain_order=True).agg(
        pl.col("impressions", "clicks", "interaction").sum()
    )
    store.replace("daily_counts", pl.concat([rows, late.select(rows.columns)]), where=where)
    mini.ctx.record("impressions", {}, tables=("daily_counts",))
    job.run(mini.ctx)
    assert pages_of(mini).equals(first)


def test_one_more_day_of_one_query_leaves_every_other_page_as_it_was(tmp_path, tasks_here):
    mini = mini_store(tmp_path, late=0)
    job.run(mini.ctx)
    first, tomorrow = pages_of(mini), DAY + timedelta(days=1)
    for table in ("daily_counts", "daily_users"):
        where = {"event_day": DAY.isoformat(), "corpus": CORPUS}
        rows = mini.ctx.store.read(table, where=where).filter(pl.col("query_key") == key_of_query("sad piano"))
        moved = rows.with_columns(event_day=pl.lit(tomorrow), arrival_day=pl.lit(tomorrow))
        mini.ctx.store.replace(table, moved, where={**where, "event_day": tomorrow.isoformat()})
    longer = replace(mini.ctx.run.evaluation, end=tomorrow + timedelta(days=1))
    ctx = replace(mini.ctx, run=replace(mini.ctx.run, evaluation=longer, as_of=tomorrow))
    ctx.record("impressions", {}, tables=tuple(mini.ctx.manifest()["tables"]))  # other windows: nothing is taken over
    job.run(ctx)
    second = ctx.read("pages", run=ctx.run.key).sort("page_id")
    changing = ["items", "truth", "truth_standard_error"]
    other = pl.col("query") != "sad piano"
    assert second.filter(other).select("page_id", *changing).equals(first.filter(other).select("page_id", *changing))
    assert not second.filter(~other).select(changing).equals(first.filter(~other).select(changing))


@pytest.mark.parametrize(
    ("change", "reason", "why"),
    [
        ({"users": [500, 900]}, "too_few_users", "fewer issuers than the range"),
        ({"users": [1, 2]}, "too_many_users", "more issuers than the range"),
        ({"min_item_relevance": 3.0}, "too_few_relevant_items", "nothing is that relevant"),
        ({"min_item_impressions": 10**6}, "too_few_relevant_items", "nothing was shown that often"),
    ],
)
def test_what_is_excluded_is_counted(plain, tmp_path, tasks_here, change, reason, why):
    mini = copy_of(plain, tmp_path, pages={"users": [1, 900], "min_item_impressions": 2, **change})
    summary = job.run(mini.ctx)["logs"]
    assert summary["pages"] == 0, why
    assert summary["excluded_queries"][reason] == len(QUERIES), why


def test_a_smaller_sample_is_a_part_of_the_larger_one(night, tmp_path_factory):
    mini, _ = night
    everything = set(pages_of(mini)["page_id"])
    few = copy_of(
        mini,
        tmp_path_factory.mktemp("few"),
        pages={"queries": 4, "users": [5, 400], "min_item_impressions": 10, "degraded_share": 1.0},
    )
    summary = job.run(few.ctx)["logs"]
    assert summary["queries"] == 4
    assert summary["excluded_queries"]["not_sampled"] == len(QUERIES) - 4
    assert set(pages_of(few)["page_id"]) < everything


def test_sensitive_queries_get_no_page(plain, tmp_path, tasks_here):
    (tmp_path / "sensitive.txt").write_text("# health\nsad\n")
    mini = copy_of(plain, tmp_path, privacy={"sensitive_queries": "sensitive.txt"})
    summary = job.run(mini.ctx)["logs"]
    assert summary["excluded_queries"]["sensitive"] == 2
    assert not pages_of(mini)["query"].str.contains("sad").any()


def test_shares_of_the_key_ranges_give_the_same_pages(night, monkeypatch):
    mini, _ = night
    first = pages_of(mini)
    monkeypatch.setattr(logs_set, "ROWS_A_TASK", 1000)
    assert len(logs_set._shares(10**9)) == 16
    job.run(mini.ctx)
    assert pages_of(mini).equals(first)


DAYS = st.dates(min_value=date(2019, 12, 1), max_value=date(2024, 4, 30))
LENGTHS = st.builds(
    WindowLengths,
    evaluation_days=st.integers(1, 40),
    gap_days=st.integers(0, 20),
    evidence_days=st.integers(1, 60),
    min_evidence_days=st.just(1),
)


@settings(max_examples=300, deadline=None)
@given(day=DAYS, lengths=LENGTHS, rows=st.lists(st.tuples(st.integers(-90, 30), st.integers(0, 40)), max_size=40))
def test_no_windows_let_truth_and_cards_share_an_impression(day, lengths, rows):
    run = Run.night(day, lengths=lengths)
    made = [(day + timedelta(days=back), day + timedelta(days=back + late)) for back, late in rows]
    frame = pl.DataFrame(made, schema={"event_day": pl.Date, "arrival_day": pl.Date}, orient="row").with_row_index(
        "impression"
    )
    truth = set(frame.filter(evaluation_filter(run))["impression"])
    cards = set(frame.filter(evidence_filter(run))["impression"])
    assert not truth & cards
    assert all(made[i][0] <= day and made[i][1] <= day for i in truth), "nothing later than the night"
    assert all(made[i][0] < run.cut - timedelta(days=lengths.gap_days) and made[i][1] < run.cut for i in cards)


@settings(max_examples=200, deadline=None)
@given(day=DAYS, lengths=LENGTHS, shift=st.integers(1, 60))
def test_a_run_whose_windows_overlap_cannot_be_made(day, lengths, shift):
    run = Run.night(day, lengths=lengths)
    with pytest.raises(LeakageError):
        replace(
            run, evidence=replace(run.evidence, end=run.cut - timedelta(days=lengths.gap_days) + timedelta(days=shift))
        )
