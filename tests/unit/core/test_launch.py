"""Launch parameters: complete before the forecast, unchangeable after it."""

import pytest

from jobs.core.errors import InputError, LeakageError, NotThereError, UsageError
from jobs.core.settings import load_settings
from jobs.core.tables import Store
from jobs.launch import save_outcomes, save_parameters
from schemas.names import BadName

BASE = {"launch_id": "x", "start": "2026-12-01", "windows": {}, "ranker_a": "", "ranker_b": ""}


@pytest.fixture
def room(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"page_id":"{name}"}}\n')
    settings = load_settings(None, environment={}, root=str(tmp_path))
    return Store(settings.store_uri), settings


def saved(room, *, pages_a="a.jsonl", pages_b="b.jsonl", **other):
    store, settings = room
    save_parameters(store, settings, parameters={**BASE, "pages_a": pages_a, "pages_b": pages_b, **other})
    return store


def test_pages_are_copied_and_may_change_until_the_forecast(room):
    saved(room)
    store = saved(room, pages_b="c.jsonl")
    assert b'"c"' in store.documents.read_bytes("launches/x/pages-b.jsonl")
    assert store.read_json("launches/x/launch.json")["start"] == "2026-12-01"


@pytest.mark.parametrize(
    ("change", "named", "why"),
    [
        ({"pages_b": "c.jsonl"}, "pages of system b", "other pages"),
        ({"start": "2026-12-02"}, "start", "another start"),
        ({"windows": {"gap_days": 1}}, "windows", "other windows"),
    ],
)
def test_a_frozen_forecast_stays_as_it_is(room, change, named, why):
    store = saved(room)
    store.write_json("launches/x/forecast.json", {})
    saved(room)
    with pytest.raises(LeakageError, match=named):
        saved(room, **change)
    assert b'"b"' in store.documents.read_bytes("launches/x/pages-b.jsonl"), why


@pytest.mark.parametrize(
    ("change", "error", "why"),
    [
        ({"pages_a": ""}, UsageError, "a system without pages or ranker"),
        ({"ranker_a": "good"}, UsageError, "a system with both"),
        ({"pages_a": "none.jsonl"}, InputError, "a file that is not there"),
        ({"launch_id": "../x"}, BadName, "an id that leaves its folder"),
        ({"pages_a": "", "ranker_a": "../x"}, BadName, "a ranker that is no name"),
    ],
)
def test_incomplete_parameters_are_refused_and_nothing_is_kept(room, change, error, why):
    with pytest.raises(error):
        saved(room, **change)
    assert not room[0].exists("launches"), why


def test_an_outcome_needs_a_forecast_and_json_lines(room, tmp_path):
    store = saved(room)
    (tmp_path / "o.jsonl").write_text("{}\nno json\n")
    with pytest.raises(NotThereError, match="no frozen forecast"):
        save_outcomes(store, room[1], id_="x", outcomes="o.jsonl")
    store.write_json("launches/x/forecast.json", {})
    with pytest.raises(InputError, match="line 2"):
        save_outcomes(store, room[1], id_="x", outcomes="o.jsonl")
    assert not store.exists("launches/x/outcomes.jsonl")
