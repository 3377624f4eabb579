"""The command line's conventions: exit codes, one line of error, JSON as the last line, quick help."""

import errno
import json
import os
import subprocess
import sys
from datetime import date

import pytest
import typer
from click.testing import CliRunner

from jobs.__main__ import STEPS, app
from jobs.core import cli
from jobs.core.errors import UsageError
from jobs.core.tables import Store
from jobs.status import overview


def hindcast(*args):
    return subprocess.run([sys.executable, "-m", "jobs", *args], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("args", "code", "said", "why"),
    [
        (("--help",), 0, "Hindcast grades", "help"),
        (("nights",), 2, "No such command", "an unknown step"),
        (("night", "--day", "2026-11-20"), 2, "--config", "no configuration"),
        (
            ("night", "--config", "none.toml", "--day", "2026-11-20"),
            2,
            "no such file",
            "a configuration that is not there",
        ),
        (("publish", "--config", "none.toml"), 2, "none.toml", "no run named"),
    ],
)
def test_exit_codes(args, code, said, why, tmp_path):
    done = hindcast(*args)
    assert done.returncode == code, (why, done.stderr)
    assert said in (done.stdout if code == 0 else done.stderr), why
    assert "Traceback" not in done.stderr


def test_json_is_the_last_line(tmp_path):
    (tmp_path / "hindcast.toml").write_text("")
    done = hindcast("status", "--config", str(tmp_path / "hindcast.toml"), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["runs"] == []


@pytest.mark.parametrize(
    ("options", "want", "why"),
    [
        ({"day": "2026-11-20", "launch": "", "run": ""}, (date(2026, 11, 20), None), "a night by its day"),
        ({"day": "", "launch": "", "run": "night-2026-11-20"}, (date(2026, 11, 20), None), "a night by its run key"),
        ({"day": "", "launch": "x", "run": ""}, (None, "x"), "a launch"),
        ({"day": "", "launch": "", "run": "launch-x"}, (None, "x"), "a launch by its run key"),
        ({"day": "2026-11-20", "launch": "x", "run": ""}, None, "two at once"),
        ({"day": "", "launch": "", "run": ""}, None, "none"),
        ({"day": "20261120", "launch": "", "run": ""}, None, "a date without hyphens"),
        ({"day": "20th", "launch": "", "run": ""}, None, "no date"),
    ],
)
def test_which_run_is_meant(options, want, why):
    if want is None:
        with pytest.raises(UsageError):
            cli._which(**options)
    else:
        assert cli._which(**options) == want, why


def test_status_names_missing_nights(tmp_path):
    store = Store(str(tmp_path))
    for day in ("2026-11-18", "2026-11-20"):
        pages = {"logs": {"pages": 4}, "human": {"pages": 3}}
        store.write_json(f"runs/night-{day}/manifest.json", {"steps": {"pages": pages}})
    body = overview(store)
    assert body["missing_nights"] == ["2026-11-19"]
    assert [r["pages"] for r in body["runs"]] == [7, 7] and not any(r["published"] for r in body["runs"])


@pytest.mark.parametrize("step", sorted(STEPS))
def test_help_of_every_step_shows_an_example_and_only_its_own_options(step, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["hindcast", step, "--help"])
    done = CliRunner().invoke(typer.main.get_command(app), [step, "--help"], env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    assert f"Example: hindcast {step}" in done.output
    assert "completion" not in done.output


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/x/part"), "free disk space"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "/x: Permission denied: give this user access"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "p.jsonl"), "p.jsonl: No such file"),
        (OSError("Generic S3 error: no route"), "Generic S3 error"),
    ],
)
def test_a_refusal_of_the_operating_system_is_one_sentence(error, said, capsys):
    with pytest.raises(SystemExit) as ended, cli.exits():
        raise error
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert said in told
    assert len(told.splitlines()) == 1


def test_a_reader_that_has_seen_enough_is_no_traceback(tmp_path):
    (tmp_path / "hindcast.toml").write_text("")
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "jobs", "status", "--config", str(tmp_path / "hindcast.toml")]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.stderr == ""
