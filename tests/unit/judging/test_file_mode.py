"""Judging files through a scripted endpoint: every page a label or a reason, nothing asked twice, the bill known."""

import json
import sqlite3

import pytest

from jobs.core.errors import InputError, UsageError
from jobs.core.progress import Progress
from jobs.judging.file_mode import plan_files, run_files
from jobs.judging.job import file_job
from tests.unit.judging.scripted import GOOD, completion, endpoint

QUIET = Progress(None)


def page(name, query=None, **other):
    items = [{"item_id": f"{name}-{n}", "rank": n, "title": f"title {n} of {name}"} for n in (1, 2)]
    return {"page_id": name, "query": query or f"query of {name}", "items": items, **other}


def card(name, *rows):
    defaults = {"relevance": 0.4, "impressions": 100, "clicks": 20}
    return {"page_id": name, "item_id": f"{name}-1", "rows": [defaults | row for row in rows]}


CARDS = [card("a", {"query": "earlier one", "similarity": 0.8}, {"query": "earlier two", "similarity": 0.5})]


class Room:
    """A folder with pages and cards, and a way to judge them."""

    def __init__(self, folder):
        self.folder = folder
        self.write([page("a"), page("b")], CARDS)

    def write(self, pages, cards=()):
        for name, rows in (("pages", pages), ("cards", cards)):
            (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def job(self, url, *, retry="", **over):
        over = {"judge": "openai", "base_url": url, "model": "m", "variants": ["plain", "qri"]} | over
        files = {name: str(self.folder / f"{name}.jsonl") for name in ("pages", "cards")}
        return file_job(over, config="", out=str(self.folder / "out.jsonl"), labels="", retry=retry, **files)

    def judge(self, url, *, retry="", **over):
        summary = run_files(self.job(url, retry=retry, **over), QUIET)
        return summary, self.rows()

    def rows(self):
        return [json.loads(line) for line in (self.folder / "out.jsonl").read_text().splitlines()]


@pytest.fixture
def room(tmp_path):
    return Room(tmp_path)


def graded(grade):
    return 200, completion({**GOOD, "grade": grade})


def test_rows_come_in_the_order_of_pages_and_variants(room):
    with endpoint() as (url, calls):
        summary, rows = room.judge(url)
    assert [(r["page_id"], r["variant"]) for r in rows] == [("a", "plain"), ("a", "qri"), ("b", "plain"), ("b", "qri")]
    assert {r["label"] for r in rows} == {0.5}
    assert (summary["rows"], summary["asked"], summary["reused"]) == (4, 3, 1)
    assert len(calls.prompts) == 3


def test_a_page_without_evidence_takes_plains_label_and_is_not_sent(room):
    with endpoint(lambda body, nth: graded(2 if "title 1 of b" in str(body) else 0)) as (url, calls):
        _, rows = room.judge(url)
    plain, grounded = rows[2], rows[3]
    assert grounded["reused_from_plain"]
    assert grounded["label"] == plain["label"] == 1.0
    assert (grounded["tokens_in"], plain["tokens_in"]) == (0, 100)
    assert sum("title 1 of b" in text for text in calls.prompts) == 1


def test_a_second_run_asks_nothing_and_says_so(room):
    with endpoint() as (url, calls):
        _, first = room.judge(url)
        asked = len(calls)
        summary, second = room.judge(url)
    assert len(calls) == asked
    assert summary["asked"] == 0
    assert [r["cached"] for r in second] == [True, True, True, False]  # the last one is plain's, not a call's
    ignored = {"cached"}
    assert [{k: v for k, v in r.items() if k not in ignored} for r in first] == [
        {k: v for k, v in r.items() if k not in ignored} for r in second
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"model": "n"},
        {"temperature": 0.5},
        {"max_output_tokens": 301},
        {"kind": "item"},
        {"prompts": True},
    ],
)
def test_one_changed_byte_is_a_new_question(room, change):
    """Rubric, model, parameter or schema: nothing old is served."""
    if "prompts" in change:
        own = room.folder / "own"
        own.mkdir()
        (own / "rubric.md").write_text("Other rules. {{reply}}")
        change = {"prompts": str(own)}
    with endpoint() as (url, calls):
        room.judge(url)
        before = len(calls.prompts)
        room.judge(url, **change)
    assert len(calls.prompts) == before + 3


def test_changed_evidence_is_a_new_question_for_the_grounded_variant_only(room):
    with endpoint() as (url, calls):
        room.judge(url)
        before = len(calls.prompts)
        room.write([page("a"), page("b")], [card("a", {"query": "earlier three", "similarity": 0.8})])
        room.judge(url)
    assert len(calls.prompts) == before + 1


def test_reasons_are_kept_never_served_as_labels_and_asked_again_on_demand(room):
    replies = iter(["I cannot judge this", "I would rate this 10/10", {**GOOD, "grade": 7}])
    with endpoint(lambda body, nth: (200, completion(next(replies, GOOD)))) as (url, calls):
        _, rows = room.judge(url, slots=1)
        assert sorted(r["reason"] for r in rows[:3]) == ["malformed", "out_of_range", "refusal"]
        assert [r["label"] for r in rows] == [None] * 4
        before = len(calls.prompts)
        _, again = room.judge(url)
        assert [r["reason"] for r in again] == [r["reason"] for r in rows]
        assert len(calls.prompts) == before
        _, retried = room.judge(url, retry="unscored")
    assert [r["label"] for r in retried] == [0.5] * 4
    assert len(calls.prompts) == before + 3


def test_a_reply_that_is_cut_off_gets_one_more_try_with_a_bigger_budget(room):
    room.write([page("a")])

    def script(body, nth):
        return (200, completion('{"grade": 1, "ra', finish="length")) if nth == 0 else graded(2)

    with endpoint(script) as (url, calls):
        _, rows = room.judge(url, variants=["plain"])
    budgets = [call["body"]["max_tokens"] for call in calls[-2:]]
    assert budgets == [300, 1200]
    assert rows[0]["label"] == 1.0
    assert rows[0]["tokens_out"] == 20  # of both calls
    assert rows[0]["possibly_billed_twice"]
    with endpoint(lambda body, nth: (200, completion("{", finish="length"))) as (url, calls):
        _, rows = room.judge(url, variants=["plain"], model="other")
    assert (rows[0]["label"], rows[0]["reason"]) == (None, "cut_off")
    assert len(calls.prompts) == 2


def test_too_long_a_prompt_loses_the_least_similar_evidence_never_the_rubric(room):
    rows = [{"query": f"earlier {n}", "similarity": n / 10} for n in range(1, 9)]
    room.write([page("a")], [card("a", *rows)])

    def script(body, nth):
        text = body["messages"][1]["content"]
        full = text.count('earlier_query": "earlier')
        return graded(1) if full <= 3 else (400, {"error": {"message": "maximum context length is 99 tokens"}})

    with endpoint(script) as (url, calls):
        _, judged = room.judge(url, variants=["qri"])
    assert (judged[0]["label"], judged[0]["evidence_rows"], judged[0]["evidence_cut"]) == (0.5, 2, 6)
    assert "earlier 8" in calls.prompts[-1]
    assert "earlier 7" in calls.prompts[-1]
    assert "earlier 6" not in calls.prompts[-1]
    assert len({call["body"]["messages"][0]["content"] for call in calls[1:]}) == 1  # the rubric is whole


def test_a_prompt_that_never_fits_is_too_long(room):
    with endpoint(lambda body, nth: (400, {"error": {"message": "prompt is too long"}})) as (url, _):
        summary, rows = room.judge(url)
    assert {r["reason"] for r in rows} == {"too_long"}
    assert summary["unscored"] == {"too_long": 4}


def test_a_declared_context_size_cuts_before_anything_is_sent(room):
    rows = [{"query": "a long earlier query " * 5 + str(n), "similarity": n / 100} for n in range(1, 11)]
    room.write([page("a")], [card("a", *rows)])
    with endpoint() as (url, calls):
        _, judged = room.judge(url, variants=["qri"], context_tokens=1500)
    assert 0 < judged[0]["evidence_cut"] < 10
    assert judged[0]["evidence_rows"] == 10 - judged[0]["evidence_cut"]
    assert len(calls.prompts) == 1


def test_a_budget_stops_cleanly_and_the_rest_is_asked_next_time(room):
    prices = room.folder / "prices.toml"
    prices.write_text('[models]\n"m" = { input = 10.0, output = 0.0 }\n')
    room.write([page(f"p{n}") for n in range(40)])
    with endpoint() as (url, calls):
        summary, rows = room.judge(url, variants=["plain"], budget_usd=0.05, slots=2, prices=str(prices))
        assert summary["cost_usd"] <= 0.05
        assert summary["unscored"]["budget"] == summary["budget_left_out"] > 0
        assert all((r["label"] is None) == (r["reason"] == "budget") for r in rows)
        before = len(calls.prompts)
        summary, rows = room.judge(url, variants=["plain"], budget_usd=5, prices=str(prices))
    assert len(calls.prompts) - before == sum(r["reason"] == "budget" for r in rows) + summary["asked"]
    assert {r["label"] for r in rows} == {0.5}


def test_what_was_in_flight_at_a_kill_is_asked_again_and_marked(room):
    with endpoint() as (url, _):
        room.judge(url)
        with sqlite3.connect(room.folder / "out.labels.sqlite3") as base:
            base.execute("UPDATE answers SET in_flight = 1, outcome = NULL")
        _, rows = room.judge(url)
    assert [r["possibly_billed_twice"] for r in rows] == [True, True, True, False]


def test_the_same_page_twice_is_asked_once(room):
    """Instances of one system may be the very same page: one call, one bill, one row each."""
    first, second = page("a"), page("a") | {"page_id": "a2", "instance": 1}
    room.write([first, second])
    with endpoint() as (url, calls):
        _, rows = room.judge(url, variants=["plain"])
    assert len(calls.prompts) == 1
    assert sorted(r["cached"] for r in rows) == [False, True]
    assert [r["label"] for r in rows] == [0.5, 0.5]


def test_an_ensemble_keeps_members_and_spread(room):
    room.write([page("a")])
    grades = {"x": 2, "y": 2, "z": 0}
    with endpoint(lambda body, nth: graded(grades[body["model"]])) as (url, _):
        _, rows = room.judge(url, model="x,y,z", variants=["plain"])
    assert (rows[0]["model"], rows[0]["label"], rows[0]["spread"]) == ("x+y+z", 1.0, 1.0)
    assert rows[0]["members"] == [1.0, 1.0, 0.0]
    assert rows[0]["tokens_in"] == 300


def test_the_plan_says_what_the_run_then_does(room):
    with endpoint() as (url, calls):
        plan = plan_files(room.job(url), QUIET)
        assert calls == []
        summary, _ = room.judge(url)
        after = plan_files(room.job(url), QUIET)
    assert (plan["pages"], plan["rows"], plan["calls"], plan["reused_from_plain"]) == (2, 4, summary["asked"], 1)
    assert (after["calls"], after["cached_calls"]) == (0, 3)
    assert (plan["cost_usd"], plan["unpriced"]) == (None, ["m"])  # nobody knows what model "m" costs


def test_at_most_so_many_pages_in_whole_queries(room):
    room.write([page(f"p{n}", query=f"q{n // 2}") for n in range(20)])
    with endpoint() as (url, _):
        _, rows = room.judge(url, variants=["plain"], max_pages=6)
    queries = [r["query_key"] for r in rows]
    assert len(rows) == 6
    assert sorted(queries.count(q) for q in set(queries)) == [2, 2, 2]


def test_evidence_only_needs_no_model_and_no_call(room):
    with endpoint() as (url, calls):
        _, rows = room.judge(url, variants=["evidence_only"])
    assert calls == []
    assert rows[0]["expected_label"] == pytest.approx(0.4)
    assert (rows[0]["label"], rows[0]["reason"]) == (None, None)


def test_no_key_reaches_any_file(room, monkeypatch, capsys):
    secret = "sk-planted-0123456789"
    monkeypatch.setenv("HINDCAST_API_KEY", secret)
    echo = {"error": {"message": f"key {secret} is over its limit"}}
    with endpoint(lambda body, nth: (500, echo) if nth % 3 == 0 else graded(1)) as (url, calls):
        summary, _ = room.judge(url)
    assert any(secret in call["headers"]["authorization"] for call in calls)
    written = b"".join(path.read_bytes() for path in room.folder.rglob("*") if path.is_file())
    told = capsys.readouterr()
    assert secret.encode() not in written
    assert secret not in json.dumps(summary) + told.out + told.err


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        ('{"page_id": "a"}\n', "query is None"),
        ('{"page_id": "a", "query": "q", "items": []}\n', "at least one item"),
        ('{"query": "q", "items": []}\n', "page_id None"),
        ("[1]\n", "not an object"),
        ('{"page_id": "a"\n', "is no JSON"),
        (json.dumps(page("a")) + "\n" + json.dumps(page("a")) + "\n", "stands twice"),
        (json.dumps(page("a", set="maybe")) + "\n", "set 'maybe'"),
        (json.dumps({**page("a"), "items": [{"item_id": "x"}, {"item_id": "x"}]}) + "\n", "an item twice"),
        (json.dumps({**page("a"), "items": [{"item_id": "x", "rank": 0.5}]}) + "\n", "rank 0.5"),
    ],
)
def test_pages_that_cannot_be_judged_are_named_with_their_line(room, pages, message):
    (room.folder / "pages.jsonl").write_text(pages)
    with endpoint() as (url, _), pytest.raises(InputError, match="line") as error:
        room.judge(url)
    assert message in str(error.value)


def test_a_judge_without_a_model_is_refused(room):
    with pytest.raises(UsageError, match="--model"):
        room.judge("http://127.0.0.1:9/v1", model="")


def test_a_foreign_file_is_no_label_store(room):
    (room.folder / "out.labels.sqlite3").write_text("something else, long enough to be no database at all" * 20)
    with endpoint() as (url, _), pytest.raises(InputError, match="no label store"):
        room.judge(url)
