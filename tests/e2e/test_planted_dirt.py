"""What ingestion counted against what the simulator planted: every dirty row met its fate, no clean one was lost."""

import json
from collections import Counter

import pytest

from tests.e2e.conftest import NIGHT


@pytest.fixture(scope="module")
def planted(tiny):
    return json.loads((tiny[0] / "truth" / "dirty.json").read_text())


@pytest.fixture(scope="module")
def ingested(night):
    return night[1].read_json(f"runs/night-{NIGHT}/manifest.json")["steps"]["impressions"]["sources"]


@pytest.mark.parametrize("corpus", ["tracks", "podcasts"])
def test_refused_rows_are_those_that_were_planted(planted, ingested, corpus):
    refused, others = Counter(), Counter()
    for kind in planted[corpus]["dirty"].values():
        fate, _, reason = kind["expected"].partition(": ")
        (refused if reason else others)[reason or fate] += kind["lines"]
    found = ingested[f"{corpus}-ubi"]
    assert found["rejected"] == dict(+refused)
    assert found["duplicates"] == others["duplicate"]
    assert found["ignored"] == others["ignored"]


@pytest.mark.parametrize("corpus", ["tracks", "podcasts"])
def test_clean_rows_are_all_there(planted, ingested, corpus):
    """Canonical impressions: listed or displayed hits, the bot's beside them (stored, but excluded from counts)."""
    found, truth = ingested[f"{corpus}-ubi"], planted[corpus]
    assert found["rows_in"] == truth["documents"]
    assert found["impressions"] == truth["impressions"] + truth["bot_impressions"]
    assert found["clicks"] == truth["clicks"]


@pytest.mark.parametrize("corpus", ["tracks", "podcasts"])
def test_counts_leave_the_bots_out(night, planted, corpus):
    counts = night[1].read("daily_counts", where={"corpus": corpus})
    assert counts["impressions"].sum() == planted[corpus]["impressions"]
    assert counts["clicks"].sum() == planted[corpus]["clicks"]
