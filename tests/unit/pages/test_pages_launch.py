"""The A/B set of a launch: from files, or as two rankers of the log showed it."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from io import BytesIO, StringIO

import polars as pl
import pytest

from jobs.core.errors import InputError, UsageError
from jobs.core.keys import query_key
from jobs.core.progress import Progress
from jobs.core.windows import Run, Window
from jobs.pages import job, shown
from schemas.logs import IMPRESSIONS
from schemas.pages import PAGES
from tests.unit.pages.ministore import CORPUS, DAY, WINDOWS, copy_of, in_process, mini_store

START = DAY + timedelta(days=1)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return mini_store(tmp_path_factory.mktemp("plain"), pages_a_day=4)


@pytest.fixture
def launch(plain, tmp_path, monkeypatch):
    """The context of a launch that starts after the last day; `register` writes its parameters and pages."""
    monkeypatch.setattr(shown, "run_tasks", in_process)
    ctx = copy_of(plain, tmp_path).ctx
    run = Run.launch("new-ranker", start=START, lengths=ctx.settings.windows.lengths)
    ctx = replace(ctx, run=run)
    tables = ("items", "queries", "item_keys", "daily_users")
    ctx.record("launch", {}, tables=tables)
    return ctx


def register(ctx, *, a=None, b=None, **parameters):
    folder = f"launches/{ctx.run.launch_id}"
    ctx.store.write_json(f"{folder}/launch.json", {"launch_id": ctx.run.launch_id, "start": str(START), **parameters})
    for system, pages in (("a", a), ("b", b)):
        if pages is not None:
            text = "\n".join(map(json.dumps, pages))
            ctx.store.documents.write_bytes(f"{folder}/pages-{system}.jsonl", text.encode())


def page(page_id, *items, query="sad piano", **more):
    return {"page_id": page_id, "query": query, "items": [{"item_id": i} for i in items], **more}


def test_pages_of_two_files(launch):
    register(launch, a=[page("p", "item-1", "item-2"), page("q", "item-1", query="jazz")],
             b=[page("p", "item-2"), page("bad")])  # fmt: skip
    summary = job.run(launch)["launch"]
    frame = launch.read("pages", run=launch.run.key)
    assert PAGES.problems(frame) == []
    assert sorted(frame["page_id"]) == ["a-p", "a-q", "b-p"], "the same id in both files stays two pages"
    assert set(frame["corpus"]) == {CORPUS}, "the only corpus is meant where none is named"
    assert json.loads(frame["items"][0])[0]["title"] == "Song number 1", "titles come from the catalogue"
    assert summary["file_b"]["refused"] == 1
    assert (summary["coverage"]["queries_both"], summary["coverage"]["queries_a_only"]) == (1, 1)


def test_pages_may_come_as_parquet(launch):
    register(launch, b=[page("p", "item-2")])
    frame = pl.DataFrame({"page_id": ["p"], "query": ["sad piano"], "items": ['[{"item_id": "item-1"}]']})
    buffer = BytesIO()
    frame.write_parquet(buffer)
    launch.store.documents.write_bytes(f"launches/{launch.run.launch_id}/pages-a.jsonl", buffer.getvalue())
    job.run(launch)
    assert sorted(launch.read("pages", run=launch.run.key)["page_id"]) == ["a-p", "b-p"]


def test_an_unknown_corpus_is_refused(launch):
    register(launch, a=[page("p", "item-1", corpus="films")], b=[page("p", "item-1")])
    with pytest.raises(InputError, match="films"):
        job.run(launch)


def impressions(ctx, rows):
    """Write impressions: (day, search, item, rank, ranker, query, arrived days later, excluded)."""
    made = []
    for day, search, item, rank, ranker, query, late, excluded in rows:
        moment = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
        made.append({
            "event_day": day, "corpus": CORPUS, "source": "web", "search_id": search, "item_id": item, "rank": rank,
            "locale": "en", "segment": None, "query_raw": query, "query": query,
            "query_key": query_key(CORPUS, "en", query), "ranker": ranker, "randomised": False, "shown_at": moment,
            "arrived_at": moment + timedelta(days=late), "click_arrived_at": None, "user_key": 1, "salt_id": "s",
            "session_key": None, "clicked": False, "interaction": 0, "excluded": excluded,
        })  # fmt: skip
    frame = pl.DataFrame(made, schema=IMPRESSIONS.polars(), orient="row")
    for (day,), part in frame.group_by("event_day"):
        ctx.store.replace("impressions", part, where={"event_day": str(day), "corpus": CORPUS, "source": "web"})
    ctx.record("launch", {}, tables=("impressions",))


def searches(day, ranker, n, *, query="sad piano", late=0, excluded=None):
    return [
        (day, f"{ranker}-{query}-{day}-{i}", f"item-{place}", place, ranker, query, late, excluded)
        for i in range(n)
        for place in (1, 2)
    ]


GAP = DAY  # the launch's gap of two days ends with DAY


def test_pages_as_two_rankers_showed_them(launch):
    impressions(launch, [
        *searches(GAP, "old", 5), *searches(GAP, "new", 2), *searches(GAP, "new", 1, query="carols"),
        *searches(GAP, "third", 9), *searches(GAP, "old", 4, query="running songs", late=2),
        *searches(GAP, "old", 4, query="lofi beats to study", excluded="bot"),
        *searches(GAP - timedelta(days=5), "old", 9, query="running songs"),
        *searches(GAP, "old", 3, query="asked by nobody else"),
    ])  # fmt: skip
    register(launch, ranker_a="old", ranker_b="new")
    summary = job.run(launch)["launch"]
    frame = launch.read("pages", run=launch.run.key)
    assert PAGES.problems(frame) == []
    counts = {(s, q): n for s, q, n in frame.group_by("system", "query").len().iter_rows()}
    assert counts == {("a", "sad piano"): 3, ("b", "sad piano"): 2, ("b", "carols"): 1}, (
        "the gap only, as it arrived in time"
    )
    assert summary["sampled_within"] == str(Window(START - timedelta(days=WINDOWS["gap_days"]), START))
    assert summary["coverage"]["queries_b_only"] == 1
    assert summary["rare_queries"] == 1
    again = job.run(launch)
    assert again["launch"] == summary
    assert launch.read("pages", run=launch.run.key).equals(frame)


@pytest.mark.parametrize(
    ("change", "error", "said", "why"),
    [
        (
            {"ranker_b": "nwe"},
            InputError,
            "there: new, old",
            "a ranker that showed nothing is named, with those there are",
        ),
        ({"ranker_b": "old"}, UsageError, "name two that differ", "one ranker against itself"),
        ({"pages_window": ["2024-03-19", "2024-03-25"]}, UsageError, "reaches beyond", "days after the launch's start"),
    ],
)
def test_what_cannot_be_sampled(launch, change, error, said, why):
    impressions(launch, [*searches(GAP, "old", 2), *searches(GAP, "new", 2)])
    register(launch, **{"ranker_a": "old", "ranker_b": "new", **change})
    with pytest.raises(error, match=said):
        job.run(launch)


def test_without_a_gap_pages_must_come_from_files(launch):
    lengths = launch.settings.windows.model_copy(update={"gap_days": 0}).lengths
    ctx = replace(launch, run=Run.launch("new-ranker", start=date(2024, 3, 21), lengths=lengths))
    register(ctx, ranker_a="old", ranker_b="new")
    with pytest.raises(UsageError, match="no gap"):
        job.run(ctx)


def test_locales_that_nobody_declared_are_counted_and_said(launch):
    settings, stream = launch.settings, StringIO()
    corpora = {CORPUS: settings.corpora[CORPUS].model_copy(update={"locales": ("en", "de")})}
    ctx = replace(launch, settings=settings.model_copy(update={"corpora": corpora}), progress=Progress(stream))
    rows = [page(f"{locale}-{n}", "i1", locale=locale) for locale, n in (("en", 0), ("fr", 0), ("fr", 1))]
    register(ctx, a=rows, b=[page("en-0", "i2", locale="en", query="one side only")])
    summary = job.run(ctx)
    assert summary["launch"]["undeclared_locales"] == {"fr": 2}
    said = stream.getvalue()
    assert "2 pages are in locales that no setting declares: fr (2)" in said
    assert "queries have pages of one system only (2 of A, 1 of B)" in said
