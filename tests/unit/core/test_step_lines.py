"""One structured line a step, with counts and seconds, whether it runs in a night or alone, ends well or not."""

import io
import json
from types import SimpleNamespace

import pytest
import typer
from click.testing import CliRunner

from jobs import night
from jobs.core import cli
from jobs.core.errors import GateFailed
from jobs.core.progress import Progress, counts_of
from schemas.flow import FLOW, flow, qualified


def lines(text):
    """The structured lines of a log."""
    return [json.loads(line) for line in text.splitlines() if line.startswith('{"step"')]


@pytest.mark.parametrize(
    ("summary", "counts"),
    [
        ({"rows": 3, "state": "x", "ok": True, "share": 0.5, "none": None}, {"rows": 3}),
        ({"corpora": {"a": {"rows": 3, "users": 1}, "b": {"rows": 4}}}, {"rows": 7, "users": 1}),
        ({"logs": {"pages": 2}, "human": {"pages": 5}}, {"pages": 7}),
        ([{"labels": 2}, {"labels": 3, "shard": 1}], {"labels": 5}),
        ({"a": {"b": {"c": {"deep": 1}}}, "days": [1, 2]}, {}),
        (None, {}),
    ],
)
def test_counts_are_the_whole_numbers_of_a_summary(summary, counts):
    assert counts_of(summary) == counts


def test_a_step_that_fails_says_so_in_its_line():
    told = io.StringIO()

    def fails():
        with Progress(told).step("pages.build") as counts:
            counts["pages"] = 3
            raise GateFailed("short\nof it")

    with pytest.raises(GateFailed):
        fails()
    (line,) = lines(told.getvalue())
    assert line.pop("seconds") >= 0
    assert line == {"step": "pages.build", "pages": 3, "error": "GateFailed"}


def test_every_task_of_a_night_says_one_line_with_its_counts(monkeypatch):
    told = io.StringIO()
    ctx = SimpleNamespace(progress=Progress(told), run=SimpleNamespace(key="night-2026-11-20"), corpora=[])
    summary = {"rows": 4, "shards": []}
    monkeypatch.setattr(night, "function_of", lambda task: lambda *_: summary)
    night.run_flow(ctx, "night")
    found = lines(told.getvalue())
    assert [line["step"] for line in found] == [qualified(task) for task in flow("night")]
    assert {line["run"] for line in found} == {"night-2026-11-20"} and all("seconds" in line for line in found)
    of_no_parts = [line["step"] for line in found if line.get("rows") != 4]
    assert of_no_parts == ["skills.discover", "judging.run"]


@pytest.mark.parametrize("task", FLOW, ids=qualified)
@pytest.mark.parametrize("as_json", [True, False])
def test_every_task_says_the_same_line_as_a_command(task, as_json):
    """Commands are known by module and verb, as each registers itself."""
    app = typer.Typer()

    def verb(day: cli.DayOption = "", run_: cli.RunOption = ""):
        cli.finish({"rows": 4, "finished_at": "x"}, as_json=as_json)

    verb.__module__ = "jobs.night" if len(task.command) == 1 else f"jobs.{task.command[0]}.job"
    cli.command(app, task.command[-1], example="x")(verb)
    for options in (["--day", "2026-11-20"], ["--run", "night-2026-11-20"]):
        done = CliRunner().invoke(typer.main.get_command(app), options)
        (line,) = lines(done.stderr)
        assert line.pop("seconds") >= 0
        assert line == {"step": qualified(task), "run": "night-2026-11-20", "rows": 4}
        assert not lines(done.stdout), "the outcome alone is on stdout"


def test_a_command_that_fails_says_one_line_and_one_sentence():
    app = typer.Typer()

    def build(launch: cli.LaunchOption = ""):
        raise GateFailed("too low")

    build.__module__ = "jobs.reports.job"
    cli.command(app, "build", example="x")(build)
    done = CliRunner().invoke(typer.main.get_command(app), ["--launch", "new"])
    assert done.exit_code == 3
    (line,) = lines(done.stderr)
    assert (line["step"], line["run"], line["error"]) == ("reports.build", "launch-new", "GateFailed")
    assert done.stderr.splitlines()[-1] == "hindcast: too low"


def test_commands_that_are_no_step_say_none():
    app = typer.Typer()

    def status():
        cli.finish({"rows": 1}, as_json=True)

    status.__module__ = "jobs.status"
    cli.command(app, "status", example="x")(status)
    assert lines(CliRunner().invoke(typer.main.get_command(app), []).stderr) == []


def test_every_command_of_the_flow_exists_where_the_line_expects_it():
    """Guards the rule by which a command is known (module and verb) against commands that moved."""
    from jobs.__main__ import STEPS

    for task in FLOW:
        module = STEPS[task.command[0]][0]
        assert cli._words(module, task.command[-1]) == task.command
