"""Brief locks by tickets: one holder at a time among processes, whoever dies."""

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from jobs.core.errors import ConflictError
from jobs.core.storage import Files
from jobs.core.tickets import STALE_S, held

TURNS, WORKERS = 12, 5


@pytest.fixture
def files(tmp_path):
    return Files(str(tmp_path / "store"))


def count(root):
    """Add to a number that is read, then written: without a lock, turns are lost."""
    files = Files(root)
    for _ in range(TURNS):
        with held(files, "n", timeout_s=120):
            n = files.read_json("n.json") if files.exists("n.json") else 0
            time.sleep(0.002)
            files.write_json("n.json", n + 1)


def test_no_turn_is_lost_among_processes(files):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=count, args=(files.root,)) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [w.exitcode for w in workers] == [0] * WORKERS
    assert files.read_json("n.json") == TURNS * WORKERS
    assert files.list("locks/n") == [], "every ticket was handed back"


def planted(files, name, age_s):
    files.write_bytes(f"locks/n/{name}", b"x")
    at = time.time() - age_s
    os.utime(Path(files.root) / "locks" / "n" / name, (at, at))


@pytest.mark.parametrize("name", ["ticket-00000001-dead", "choosing-dead"])
def test_what_a_dead_process_left_is_passed_over(files, name):
    planted(files, name, STALE_S + 1)
    with held(files, "n", timeout_s=0):
        assert name not in files.list("locks/n")


@pytest.mark.parametrize("name", ["ticket-00000001-alive", "choosing-alive"])
def test_who_waits_in_vain_is_told_and_leaves_no_ticket(files, name):
    planted(files, name, 1)
    with pytest.raises(ConflictError, match="locks/n was held for 0 s"), held(files, "n", timeout_s=0):
        raise AssertionError("somebody else holds it")
    assert files.list("locks/n") == [name]


def test_a_later_ticket_waits_for_nobody_behind_it(files):
    with held(files, "n", timeout_s=0):
        planted(files, "ticket-00000009-later", 0)
    with pytest.raises(ConflictError), held(files, "n", timeout_s=0):
        raise AssertionError("the later one is before us now")


def test_the_ticket_goes_back_when_the_holder_fails(files):
    with pytest.raises(KeyError), held(files, "n", timeout_s=0):
        raise KeyError("x")
    assert files.list("locks/n") == []
