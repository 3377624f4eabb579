"""Judging against a server that fails a fifth of its calls, and against kill -9: nothing is lost, nothing bought twice
unmarked."""

import os
import random
import signal
import time

import pytest

from tests.faults.harness import (
    finished,
    free_port,
    judging,
    ledger_of,
    problems,
    rows_of,
    server,
    wait_for_more,
    write_pages,
)

PAGES = int(os.environ.get("FAULT_PAGES", "2000"))
KILLS = int(os.environ.get("FAULT_KILLS", "5"))
SEED = int(os.environ.get("FAULT_SEED", "11"))
SLOTS = 64


@pytest.fixture
def room(tmp_path):
    write_pages(tmp_path / "pages.jsonl", count=PAGES)
    return tmp_path


def test_every_page_ends_as_label_or_reason(room):
    port = free_port()
    with server(port, seed=SEED, ledger=room / "ledger.jsonl"):
        summary = finished(judging(room, port))
    rows, ledger = rows_of(room), ledger_of(room / "ledger.jsonl")
    assert problems(rows, ledger, count=PAGES, seed=SEED) == []
    kinds = {entry["kind"] for entries in ledger.values() for entry in entries}
    assert len(kinds) >= 9  # every fault that generates a reply did happen
    assert sum(summary["unscored"].values()) < 0.12 * PAGES
    assert summary["calls"] > PAGES


def test_kill_9_loses_nothing_and_hides_nothing(room):
    """SIGKILL at random moments, then again until it ends: at most the calls in flight are asked again, and marked."""
    port, chance = free_port(), random.Random(SEED)
    with server(port, seed=SEED, ledger=room / "ledger.jsonl"):
        killed = 0
        while killed < KILLS:
            process = judging(room, port)
            wait_for_more(room / "ledger.jsonl", process)
            time.sleep(chance.random() * 1.2)
            if process.poll() is not None:
                (room / "judgments.labels.sqlite3").unlink()  # done before the moment came: begin anew
                (room / "ledger.jsonl").write_text("")
                continue
            process.send_signal(signal.SIGKILL)
            process.communicate()
            killed += 1
        finished(judging(room, port))
    rows, ledger = rows_of(room), ledger_of(room / "ledger.jsonl")
    assert problems(rows, ledger, count=PAGES, seed=SEED) == []
    marked = sum(row["possibly_billed_twice"] for row in rows)
    by_faults = sum(any(e["kind"] in ("dropped after", "slow body", "cut off") for e in g) for g in ledger.values())
    assert marked <= by_faults + SLOTS * KILLS


def test_an_outage_is_waited_for(room):
    """The endpoint is away for some seconds in mid-run: calls pause, nothing fails, nothing is bought twice."""
    port = free_port()
    ledger = room / "ledger.jsonl"
    with server(port, seed=SEED, ledger=ledger, share=0.0):
        process = judging(room, port)
        while not ledger.exists() or ledger.read_text().count("\n") < PAGES // 4:
            time.sleep(0.05)
    time.sleep(4)
    with server(port, seed=SEED, ledger=ledger, share=0.0):
        summary = finished(process)
    assert summary["labels"] == PAGES
    assert summary["calls"] < PAGES + 5 * SLOTS  # waiting, not hammering
    assert problems(rows_of(room), ledger_of(ledger), count=PAGES, seed=SEED) == []


def test_the_comparison_itself_can_fail(room):
    """A planted difference of each kind is found."""
    rows = [{"page_id": "page-00000", "label": 0.5, "reason": None, "possibly_billed_twice": False}]
    told = {"page": "page-00000", "kind": "", "label": 1.0, "reason": None}
    found = " ".join(problems(rows, {"page-00000": [told, told]}, count=2, seed=SEED))
    assert "1 pages instead of 2" in found
    assert "the last reply was" in found
    assert "answered 2 times, not marked" in found
