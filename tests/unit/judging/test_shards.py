"""Judging a run of a store, without Spark: shards, one commit, pages without evidence, restarts."""

from datetime import date

import polars as pl
import pytest

from jobs.core.context import Context
from jobs.core.errors import NotThereError, UsageError
from jobs.core.keys import query_key
from jobs.core.progress import Progress
from jobs.core.settings import Settings
from jobs.core.tables import Store
from jobs.core.windows import Run, WindowLengths
from jobs.judging import shard_task, trust
from jobs.judging import shards as module
from jobs.judging.shards import commit, judge_run, plan, run_shard
from jobs.judging.tonight import cut, part_of, variants_of
from schemas.cards import CARDS
from schemas.pages import PAGES
from tests.unit.judging.scripted import GOOD, completion, endpoint
from tests.unit.judging.test_baseline import Axes

SATURDAY, SUNDAY = date(2026, 11, 21), date(2026, 11, 22)


def page_row(run, name, *, corpus="tracks", set_="logs", query="rain"):
    items = '[{"item_id": "%s-1", "rank": 1, "title": "rain"}, {"item_id": "%s-2", "rank": 2, "title": "sun"}]'
    given = {
        "run": run, "set": set_, "page_id": name, "corpus": corpus, "locale": "en", "query": query,
        "query_key": query_key(corpus, "en", query), "instance": 0, "configuration": "good",
        "items": items % (name, name), "made": "{}",
    }  # fmt: skip
    return dict.fromkeys(PAGES.names) | given


def card_row(run, name, *, set_="logs", query="rain song", relevance=0.1, row=1):
    given = {
        "run": run, "set": set_, "page_id": name, "item_id": f"{name}-1", "corpus": "tracks", "query": query,
        "query_key": query_key("tracks", "en", query), "similarity": 0.9, "impressions": 5000, "clicks": 100,
        "ctr": 0.02, "examined": 1000.0, "relevance": relevance, "relevance_low": 0.0, "relevance_high": 1.0,
        "relevance_shrunk": relevance, "users": 30, "last_shown_day": date(2026, 11, 1), "row": row,
        "row_unfiltered": 1, "embedding_model": "axes",
    }  # fmt: skip
    return dict.fromkeys(CARDS.names) | given


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Contexts on a store with twelve Logs pages, two human ones, and cards for half of the Logs pages."""
    monkeypatch.setattr(shard_task, "embedder_for", lambda settings, say=None: Axes())
    store = Store(str(tmp_path / "store"))

    def context(day=SATURDAY, *, backfill=False, **judging):
        settings = Settings(root=str(tmp_path), store="store/", corpora={"tracks": {}, "podcasts": {}}, judging=judging)
        run = Run.night(day, lengths=WindowLengths())
        ctx = Context(settings=settings, store=store, run=run, spark=None, progress=Progress(None), backfill=backfill)
        logs = [page_row(run.key, f"l{n:02d}", corpus="podcasts" if n == 11 else "tracks") for n in range(12)]
        human = [page_row(run.key, f"h{n}", set_="human") for n in range(2)]
        cards = [card_row(run.key, f"l{n:02d}") for n in range(0, 10, 2)]
        for table, spec, rows in (("pages", PAGES, logs), ("pages", PAGES, human), ("cards", CARDS, cards)):
            frame = pl.DataFrame(rows, schema=spec.polars())
            store.replace(table, frame, where={"run": run.key, "set": rows[0]["set"]})
        ctx.record("cards", {}, tables=("pages", "cards"))
        return ctx

    return context


def judged(ctx):
    return ctx.read("judgments", run=ctx.run.key).sort("variant", "set", "page_id")


def test_every_page_has_one_row_a_variant(make):
    ctx = make()
    summary = judge_run(ctx)
    rows = judged(ctx)
    assert dict(rows.group_by("variant").len().iter_rows()) == {"plain": 14, "qri": 14, "evidence_only": 14}
    assert summary["rows"] + summary["added_rows"] == rows.height
    assert set(rows["model"]) == {"offline-baseline", "none"}
    assert rows.filter(pl.col("variant") != "evidence_only")["label"].null_count() == 0


def test_pages_without_evidence_take_plains_label(make):
    ctx = make()
    judge_run(ctx)
    plain, qri = (judged(ctx).filter(pl.col("variant") == v) for v in ("plain", "qri"))
    reused = qri.filter("reused_from_plain")
    assert reused.height == 9
    assert reused.join(plain, on="page_id").select((pl.col("label") == pl.col("label_right")).all()).item()
    assert (qri.filter(~pl.col("reused_from_plain"))["label"] < 1).all()  # the cards say that it is poor
    only = judged(ctx).filter(pl.col("variant") == "evidence_only")
    assert only["expected_label"].null_count() == 9


def test_shards_may_run_in_any_order_and_twice(make, monkeypatch):
    monkeypatch.setattr(module, "BASELINE_SHARD_PAGES", 3)
    ctx = make()
    body = plan(ctx)
    assert len(body["shards"]) > 6
    for shard in reversed(body["shards"]):
        run_shard(ctx, shard["index"])
    run_shard(ctx, 0)
    commit(ctx)
    first = judged(ctx)
    commit(ctx)
    assert judged(ctx).equals(first)
    assert first.select(pl.struct("page_id", "variant").is_unique().all()).item()


def test_a_commit_names_the_shards_that_are_missing(make):
    ctx = make()
    plan(ctx)
    run_shard(ctx, 0)
    with pytest.raises(NotThereError, match="3 shards of night-2026-11-21 have not run"):
        commit(ctx)


def test_fewer_variants_leave_no_old_rows(make):
    ctx = make(variants=["plain", "qri", "ctr"])
    judge_run(ctx)
    again = make(variants=["plain"])
    judge_run(again)
    assert set(judged(again)["variant"]) == {"plain", "evidence_only"}


def test_two_runs_do_not_meet(make):
    first, second = make(SATURDAY), make(date(2026, 11, 20))
    judge_run(first)
    before = judged(first)
    judge_run(second)
    first.record("judging", {}, tables=("judgments",))
    assert judged(first).equals(before)


@pytest.mark.parametrize(
    ("day", "options", "expected"),
    [
        (SATURDAY, {}, ("plain", "qri", "evidence_only")),
        (SUNDAY, {}, ("plain", "popularity", "ctr", "qri", "qri_unfiltered", "evidence_only")),
        (SUNDAY, {"ablation_weekday": ""}, ("plain", "qri", "evidence_only")),
        (SATURDAY, {"variants": ["ctr"]}, ("plain", "ctr", "evidence_only")),  # plain is needed by pages without cards
        (SATURDAY, {"backfill": True}, ()),
        (SATURDAY, {"backfill": True, "judge_on_backfill": True}, ("plain", "qri", "evidence_only")),
    ],
)
def test_variants_of_a_night(make, day, options, expected):
    assert variants_of(make(day, **options)) == expected


def test_without_enough_evidence_only_plain_is_judged(make):
    ctx = make()
    ctx.record("evidence", {"corpora": {"tracks": {"days": 3}, "podcasts": {"days": 2}}})
    assert variants_of(ctx) == ("plain",)


def test_a_backfill_judges_nothing_and_says_so(make):
    ctx = make(backfill=True)
    assert plan(ctx)["shards"] == []
    assert commit(ctx)["judged"] is False


@pytest.mark.parametrize("pages", [1, 7, 5_000, 100_000, 10_000_000])
def test_never_more_shards_than_allowed(pages):
    found = cut({"a": pages, "b": 3}, variants=("plain", "qri"), shard_pages=2000, max_shards=200)
    assert len(found) <= 200
    assert [shard.index for shard in found] == list(range(len(found)))
    parts = max(shard.parts for shard in found)
    if pages > 1:
        assert {part_of(f"p{n}", parts=parts) for n in range(parts * 20)} == set(range(parts))


def test_more_corpora_than_shards_is_refused():
    with pytest.raises(UsageError, match="max_shards = 3"):
        cut({"a": 1, "b": 1}, variants=("plain", "qri"), shard_pages=10, max_shards=3)


def test_an_llm_judges_a_store_and_a_rerun_pays_nothing(make):
    with endpoint() as (url, calls):
        ctx = make(judge="openai", base_url=url, model="m", shard_pages=5, repeat_pages=0, anchor_pages=0)
        estimate = plan(ctx)
        first = judge_run(ctx)
        rows, asked = judged(ctx), len(calls.prompts)
        second = judge_run(ctx)
    assert estimate["calls"] == asked == first["asked"]
    assert second["asked"] == 0
    assert len(calls.prompts) == asked
    assert judged(ctx).equals(rows)  # a re-run after a crash gives the same rows
    assert rows.filter(pl.col("variant") == "qri")["prompt_sha256"].null_count() == 0
    assert set(rows["model"]) == {"m", "none"}
    paid = rows.filter(~pl.col("cached"))
    assert paid["tokens_in"].sum() == 100 * asked  # the same question of several pages is paid once


def test_at_most_so_many_pages_in_all_shards(make):
    ctx = make(max_pages=5)
    judge_run(ctx)
    assert 1 <= judged(ctx)["page_id"].n_unique() <= 5


def drifting(state):
    """An endpoint whose grades depend on the night, and that grades pages turned round lower."""

    def script(body, nth):
        text = body["messages"][1]["content"]
        grade = state["grade"] - (text.index('"sun"') < text.index('"rain"', text.index("result 1:")))
        return 200, completion({**GOOD, "grade": grade, "cited": [1, 9] if "<evidence>" in text else []})

    return script


def test_trust_in_the_judge_is_measured_and_an_endpoint_that_changes_raises_an_alarm(make, monkeypatch):
    monkeypatch.setattr(trust, "SHARE_OF_PAGES", 1.0)
    state = {"grade": 2}
    with endpoint(drifting(state)) as (url, _):
        options = {"judge": "openai", "base_url": url, "model": "m"}
        first = judge_run(make(SATURDAY, **options))["trust"]
        again = judge_run(make(SATURDAY, **options))["trust"]
        state["grade"] = 1
        second = judge_run(make(date(2026, 11, 20), **options))["trust"]
    checks = first["checks"]["tracks"]
    assert checks["repeat"] == {"n": 5, "changed": 0, "same_share": 1.0, "mean_change": 0.0, "unscored": 0}
    assert checks["evidence_order"]["changed"] == 0
    assert (checks["result_order"]["changed"], checks["result_order"]["mean_change"]) == (5, -0.5)
    assert (checks["anchors"]["n"], checks["anchors"]["alarm"]) == (5, False)
    assert again == first
    assert second["checks"]["tracks"]["anchors"]["changed"] == 5
    assert second["checks"]["tracks"]["anchors"]["alarm"] is True
    use = first["evidence_use"]["qri"]
    assert (use["n"], use["cited_share"], use["invented_share"]) == (5, 1.0, 1.0)
    assert use["moved"] == {"same": {"n": 5, "mean_value": 0.1}}
