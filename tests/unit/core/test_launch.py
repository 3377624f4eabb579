"""Launch parameters: complete before the forecast, unchangeable after it."""

import sys

import pytest
import typer
from click.testing import CliRunner

from jobs import launch
from jobs.core import cli
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
    (tmp_path / "o.jsonl").write_text('{"query_key": "00", "system_a": 1, "system_b": 2}\nno json\n')
    with pytest.raises(NotThereError, match="no frozen forecast"):
        save_outcomes(store, room[1], id_="x", outcomes="o.jsonl")
    store.write_json("launches/x/forecast.json", {})
    with pytest.raises(InputError, match="line 2"):
        save_outcomes(store, room[1], id_="x", outcomes="o.jsonl")
    assert not store.exists("launches/x/outcomes.jsonl")


CONFIG = """
store = "store/"
[corpora.tracks]
[corpora.talks]
[[sources]]
name = "a"
corpus = "tracks"
path = "logs/{day}/*.csv"
[[sources]]
name = "b"
corpus = "talks"
path = "logs/{day}/*.csv"
"""


@pytest.fixture
def forecast(tmp_path, monkeypatch):
    """`hindcast launch forecast` up to its flow: exit code, stderr, and the context that every task then gets."""
    (tmp_path / "hindcast.toml").write_text(CONFIG)
    (tmp_path / "a.jsonl").write_text("{}\n")
    seen = []

    def run(*options):
        def flow(ctx, use):
            seen.append(ctx)
            raise NotThereError("stop here")

        monkeypatch.setattr(launch, "run_flow", flow)
        monkeypatch.setattr(sys, "argv", ["hindcast", "launch"])
        pages = tmp_path / "a.jsonl"
        given = ["--id", "x", "--start", "2026-12-01", "--pages-a", pages, "--pages-b", f"file://{pages}"]
        args = ["forecast", "--config", tmp_path / "hindcast.toml", *given, *options]
        done = CliRunner().invoke(typer.main.get_command(launch.app), list(map(str, args)))
        return done, (seen[-1] if seen else None)

    return run


OWN = [
    (("--corpora", "talks"), lambda s: (sorted(s.corpora), [x.name for x in s.sources]), (["talks"], ["b"])),
    ((), lambda s: sorted(s.corpora), ["talks", "tracks"]),
    (("--judge", "local"), lambda s: s.judging.judge, "local"),
    (("--model", "m,n"), lambda s: (s.judging.judge, s.judging.model), ("openai", "m,n")),
    (("--variants", "plain,ctr"), lambda s: s.judging.variants, ("plain", "ctr")),
    (("--budget-usd", "0"), lambda s: s.judging.budget_usd, 0),
    (("--budget-usd", "off"), lambda s: s.judging.budget_usd, None),
    (("--budget-usd", ""), lambda s: s.judging.budget_usd, 20),
]


@pytest.mark.parametrize(("options", "part", "want"), OWN)
def test_a_launch_has_settings_of_its_own_in_every_task(forecast, options, part, want):
    done, ctx = forecast(*options)
    assert "stop here" in done.stderr
    assert part(ctx.settings) == want
    config = str(ctx.settings.root) + "/hindcast.toml"
    with cli.context(config=config, launch="x") as later:
        assert part(later.settings) == want, "a later task of the DAG reads the same"
    with cli.context(config=config, day="2026-11-20") as night:
        assert part(night.settings) == part(load_settings(config, environment={})), "and a night does not"


def test_lengths_of_windows_reach_the_run(forecast):
    _, ctx = forecast("--evidence-days", "10", "--gap-days", "2")
    assert [d.isoformat() for d in (ctx.run.evidence.start, ctx.run.evidence.end)] == ["2026-11-19", "2026-11-29"]


@pytest.mark.parametrize(
    ("options", "named", "why"),
    [
        (("--corpora", "../x"), "no [corpora.NAME] table", "a corpus that nobody declared, whatever it looks like"),
        (("--judge", "human"), "judge", "a judge that does not exist"),
        (("--variants", "best"), "variants", "a variant that does not exist"),
        (("--budget-usd", "-1"), "budget_usd", "less than nothing"),
        (("--budget-usd", "much"), "budget_usd", "no number"),
        (("--pages-window", "2026-11-01"), "--pages-window", "half a window"),
        (("--outcomes", "o.jsonl"), "hindcast launch outcome", "an outcome with a forecast"),
        (("--pages-b", "http://127.0.0.1/x"), "only local paths, s3:// and s3a://", "an address that no store has"),
    ],
)
def test_parameters_that_do_not_fit_are_wrong_use_and_nothing_is_kept(forecast, tmp_path, options, named, why):
    done, ctx = forecast(*options)
    assert done.exit_code == 2 and ctx is None, why
    assert named in done.stderr
    assert not (tmp_path / "store" / "launches").exists()
