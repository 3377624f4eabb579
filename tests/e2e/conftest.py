"""One simulated tiny log, one undisturbed night and one launch, shared by the end-to-end tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.core.tables import Store

ROOT = Path(__file__).resolve().parents[2]
NIGHT = "2026-11-22"


def hindcast(*args, code=(0,), environment=None):
    """Run the installed command; returns its last line of stdout as JSON (with --json) or the finished process."""
    command = [sys.executable, "-m", "jobs", *map(str, args)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})}
    )
    assert done.returncode in code, f"{args}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return json.loads(done.stdout.splitlines()[-1]) if "--json" in args else done


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Folder of a simulated tiny log, and what the simulation says of it."""
    folder = tmp_path_factory.mktemp("tiny")
    summary = hindcast("simulate", "--size", "tiny", "--seed", "0", "--out", folder, "--json")
    assert summary["last_day"] == NIGHT
    return folder, summary


@pytest.fixture(scope="session")
def night(tiny):
    """The store after one undisturbed night; the report's gates may fail on so few pages (exit code 3)."""
    folder, _ = tiny
    hindcast("night", "--config", folder / "hindcast.toml", "--day", NIGHT, "--json", code=(0, 3))
    return folder, Store(str(folder / "store"))


@pytest.fixture(scope="session")
def launch(night):
    """The same store after the forecast and the outcome of the simulated A/B test."""
    folder, store = night
    plan = json.loads((folder / "launch" / "launch.json").read_text())
    config = folder / "hindcast.toml"
    pages = ("--pages-a", folder / "launch" / "pages-a.jsonl", "--pages-b", folder / "launch" / "pages-b.jsonl")
    start = ("--id", plan["launch_id"], "--start", plan["start"])
    hindcast("launch", "forecast", "--config", config, *start, *pages, "--json", code=(0, 3))
    outcomes = ("--id", plan["launch_id"], "--outcomes", folder / "launch" / "outcomes.jsonl")
    hindcast("launch", "outcome", "--config", config, *outcomes, "--json", code=(0, 3))
    return folder, store, plan["launch_id"]
