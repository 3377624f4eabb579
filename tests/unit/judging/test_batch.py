"""Batch mode: nothing is bought twice, every id is accounted for, whatever crashes in between."""

from dataclasses import replace

import pytest

from jobs.core.errors import UsageError
from jobs.core.progress import Progress
from jobs.judging import batch as module
from jobs.judging.batch import Limits
from jobs.judging.batch_run import batch_states, request_folder
from jobs.judging.failures import EndpointRefused
from jobs.judging.file_mode import submit_files
from tests.unit.judging.batch_server import batch_endpoint
from tests.unit.judging.scripted import GOOD, completion
from tests.unit.judging.test_file_mode import QUIET, Room, page

PAGES = 20


@pytest.fixture
def room(tmp_path):
    room = Room(tmp_path)
    room.write([page(f"p{n:02d}") for n in range(PAGES)])
    return room


def judge(room, url, **over):
    return room.judge(url, **({"batch": True, "variants": ["plain"]} | over))


def submit(room, url):
    return submit_files(room.job(url, batch=True, variants=["plain"]), QUIET)


def test_replies_in_any_order_find_their_pages(room):
    grades = {}

    def line(name, body):
        grade = int(body["messages"][1]["content"].split("query of p")[1][:2]) % 3
        grades[name] = grade / 2
        return {"custom_id": name, "response": {"status_code": 200, "body": completion({**GOOD, "grade": grade})}}

    with batch_endpoint() as (url, server):
        server.line = line
        summary, rows = judge(room, url)
    assert [r["label"] for r in rows] == [int(r["page_id"][1:]) % 3 / 2 for r in rows]
    assert all(r["label"] == grades[r["prompt_sha256"]] for r in rows)
    assert len(server.batches) == 1
    assert summary["asked"] == len(server.bought) == PAGES
    assert not any(r["possibly_billed_twice"] for r in rows)


def test_a_second_run_buys_nothing(room):
    with batch_endpoint() as (url, server):
        judge(room, url)
        _, rows = judge(room, url)
    assert len(server.bought) == PAGES
    assert all(r["cached"] and r["label"] == 0.5 for r in rows)
    assert list(request_folder(room.job(url).labels).glob("*.jsonl")) == []  # request files are gone


def test_absent_ids_and_strangers_are_accounted_for(room):
    with batch_endpoint() as (url, server):
        server.absent = {0, 5}
        good = server.line
        server.line = lambda name, body: good(name if server.bought.index(name) != 9 else "00" * 32, body)
        summary, _ = judge(room, url)
    assert summary["unscored"] == {"missing": 3}
    assert summary["labels"] == PAGES - 3


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"response": {"status_code": 200, "body": completion("I cannot judge this")}}, "refusal"),
        ({"response": {"status_code": 200, "body": completion("{", finish="length")}}, "cut_off"),
        ({"response": {"status_code": 400, "body": {"error": {"message": "maximum context length"}}}}, "too_long"),
        ({"response": None, "error": {"code": "batch_expired", "message": "not in time"}}, "deadline"),
        ({"response": None, "error": {"code": "server_error", "message": "x"}}, "deadline"),  # unanswered: next time
    ],
)
def test_lines_that_are_no_labels_have_their_reason(room, line, reason):
    with batch_endpoint() as (url, server):
        server.line = lambda name, body: {"custom_id": name, **line}
        _, rows = judge(room, url)
    assert {r["reason"] for r in rows} == {reason}
    assert {r["label"] for r in rows} == {None}


def test_a_crash_after_submission_re_attaches(room):
    """Submitted, then the process was gone; the next one collects instead of submitting again."""
    with batch_endpoint() as (url, server):
        server.auto_finish = False
        assert submit(room, url) == {"submitted": PAGES, "under_way": 1}
        assert submit(room, url) == {"submitted": 0, "under_way": 1}
        server.auto_finish = True
        _, rows = judge(room, url)
    assert len(server.bought) == len(set(server.bought)) == PAGES
    assert {r["label"] for r in rows} == {0.5}


def test_an_accepted_batch_whose_reply_was_lost_is_found_again(room):
    """Killed between the provider's acceptance and our note of its id: found by its token, not bought again."""
    with batch_endpoint() as (url, server):
        server.lose_reply_to = {"batches"}
        with pytest.raises(EndpointRefused, match="run again to resume"):
            submit(room, url)
        assert len(server.bought) == PAGES
        server.lose_reply_to = set()
        _, rows = judge(room, url)
    assert len(server.bought) == PAGES
    assert {r["label"] for r in rows} == {0.5}


def test_a_crash_before_the_provider_knew_submits_once(room, monkeypatch):
    async def dies(self, batch):
        raise KeyboardInterrupt

    with batch_endpoint() as (url, server):
        with monkeypatch.context() as patched:
            patched.setattr(module.Batches, "_create", dies)
            with pytest.raises(KeyboardInterrupt):
                submit(room, url)
        assert server.bought == []
        _, rows = judge(room, url)
    assert len(server.bought) == PAGES
    assert {r["label"] for r in rows} == {0.5}


def test_a_crash_while_collecting_collects_again(room, monkeypatch):
    real = module.BatchLedger.close

    def dies(self, handed):
        raise KeyboardInterrupt

    with batch_endpoint() as (url, server):
        monkeypatch.setattr(module.BatchLedger, "close", dies)
        with pytest.raises(KeyboardInterrupt):
            judge(room, url)
        monkeypatch.setattr(module.BatchLedger, "close", real)
        _, rows = judge(room, url)
    assert len(server.bought) == PAGES
    assert {r["label"] for r in rows} == {0.5}


@pytest.mark.parametrize("limits", [Limits(max_requests=7), Limits(max_bytes=20_000)])
def test_batches_are_split_by_the_providers_limits(room, monkeypatch, limits):
    monkeypatch.setattr(module, "Limits", lambda: replace(limits, poll_s=0.01))
    with batch_endpoint() as (url, server):
        _, rows = judge(room, url)
    sizes = [len(server.files[batch["input_file_id"]].splitlines()) for batch in server.batches.values()]
    assert len(sizes) >= 3
    assert sum(sizes) == PAGES
    assert max(sizes) <= limits.max_requests
    assert all(len(server.files[b["input_file_id"]]) <= limits.max_bytes for b in server.batches.values())
    assert {r["label"] for r in rows} == {0.5}


def test_each_model_has_its_own_batch(room):
    with batch_endpoint() as (url, server):
        judge(room, url, model="x,y")
    models = [
        {line.split(b'"model":"')[1][:1] for line in server.files[b["input_file_id"]].splitlines()}
        for b in server.batches.values()
    ]
    assert sorted(map(sorted, models)) == [[b"x"], [b"y"]]


def test_a_batch_that_the_provider_refuses_says_why_and_frees_its_questions(room):
    with batch_endpoint() as (url, server):
        server.status = "failed"
        with pytest.raises(EndpointRefused, match="line 1 is wrong"):
            judge(room, url)
        server.status = "completed"
        _, rows = judge(room, url)
    assert {r["label"] for r in rows} == {0.5}


def test_an_expired_batch_is_asked_again_for_what_it_did_not_reach(room):
    with batch_endpoint() as (url, server):
        server.status, server.absent = "expired", {1, 2, 3}
        _, rows = judge(room, url)
        assert sum(r["reason"] == "deadline" for r in rows) == 3
        server.status, server.absent = "completed", set()
        _, rows = judge(room, url)
    assert len(server.bought) == PAGES + 3
    assert {r["label"] for r in rows} == {0.5}


def test_the_budget_holds_for_batches_at_half_the_price(room):
    (room.folder / "prices.toml").write_text('batch = 0.5\n[models]\n"m" = { input = 10.0, output = 0.0 }\n')
    with batch_endpoint() as (url, server):
        prices = str(room.folder / "prices.toml")
        summary, _ = judge(room, url, prices=prices, budget_usd=0.04)
    assert 0 < len(server.bought) < PAGES
    assert summary["unscored"] == {"budget": PAGES - len(server.bought)}
    assert summary["cost_usd"] == pytest.approx(len(server.bought) * 100 * 10 / 1e6 / 2)


def test_the_status_tells_what_is_under_way(room):
    with batch_endpoint() as (url, server):
        server.auto_finish = False
        submit(room, url)
        job = room.job(url, batch=True)
        state = batch_states(job.judging, job.labels, say=Progress(None).say)
        assert state == {"batches": {"batch-0": "in_progress"}, "under_way": 1, "done": False}
        server.finish("batch-0")
        assert batch_states(job.judging, job.labels, say=Progress(None).say)["done"] is True


def test_submitting_needs_batch_mode(room):
    with pytest.raises(UsageError, match="--batch"):
        submit_files(room.job("http://127.0.0.1:9/v1"), QUIET)
