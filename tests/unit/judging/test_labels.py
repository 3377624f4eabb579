"""The label store: what is kept, what is in flight, what several processes see."""

import sqlite3

import pytest

from jobs.judging.labels import LabelStore, Outcome

KEY, OTHER = b"k" * 32, b"o" * 32


@pytest.fixture
def path(tmp_path):
    return tmp_path / "labels.sqlite3"


def test_an_outcome_comes_back_whole(path):
    outcome = Outcome(
        label=0.5, expected_label=0.61, rationale="Zwölf «Worte» 青", cited=[1, 3], cited_invented=1, evidence_cut=2,
        tokens_in=700, tokens_out=20, latency_ms=12.5, possibly_billed_twice=True, served_by="fp", paid_by="run qri p",
    )  # fmt: skip
    with LabelStore(path, run="run") as store:
        store.sending(KEY)
        store.keep(KEY, outcome)
    with LabelStore(path, run="other") as store:
        assert store.find([KEY, OTHER]) == ({KEY: outcome}, set())


@pytest.mark.parametrize("reason", ["deadline", "endpoint", "budget"])
def test_what_was_not_answered_is_not_kept(path, reason):
    with LabelStore(path, run="run") as store:
        store.keep(KEY, Outcome(reason=reason))
        assert store.find([KEY]) == ({}, set())


@pytest.mark.parametrize(
    ("events", "unsure"),
    [
        ("s", True),  # sent, then killed
        ("su", False),  # refused for load: free
        ("ssu", True),  # killed, asked again, refused: the first call may still have been billed
        ("ssuu", False),
        ("susu", False),
        ("suss", True),
        ("sk", False),  # answered
        ("skss", True),  # asked again on purpose, then killed
        ("uu", False),  # never below nothing
    ],
)
def test_calls_in_flight_are_counted(path, events, unsure):
    with LabelStore(path, run="run") as store:
        for event in events:
            match event:
                case "s":
                    store.sending(KEY)
                case "u":
                    store.unbilled(KEY)
                case "k":
                    store.keep(KEY, Outcome(label=1.0))
    with LabelStore(path, run="run") as store:
        known, found = store.find([KEY])
    assert (KEY in found) is unsure
    assert (KEY in known) is ("k" in events)


def test_many_keys_are_found_at_once(path):
    keys = [n.to_bytes(32, "big") for n in range(1300)]
    with LabelStore(path, run="run") as store:
        for n, key in enumerate(keys):
            store.keep(key, Outcome(label=n % 3 / 2))
        known, _ = store.find([*keys, KEY])
    assert len(known) == 1300
    assert all(known[key].label == n % 3 / 2 for n, key in enumerate(keys))


def test_processes_see_each_other_at_once(path):
    with LabelStore(path, run="a") as one, LabelStore(path, run="b") as two:
        one.keep(KEY, Outcome(label=1.0, paid_by=one.payer(page_id="p", variant="qri")))
        assert two.find([KEY])[0][KEY].paid_by == "a qri p"
        one.remember("note", "text")
        assert two.note("note") == "text"
        assert two.note("no such note") is None


def test_the_log_is_written_ahead(path):
    """Readers and a writer do not block each other, and a kill leaves a whole database."""
    with LabelStore(path, run="run"):
        assert sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone() == ("wal",)
