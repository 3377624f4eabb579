"""The command line of judging: what options mean, and what is wrong use."""

import json

import pytest
from typer.testing import CliRunner

from jobs.judging.job import app, overrides
from tests.unit.judging.scripted import endpoint
from tests.unit.judging.test_file_mode import Room

NOTHING = {
    "variants": "", "judge": "", "base_url": "", "model": "", "model_path": "", "kind": "", "prompts": "",
    "item_fields": "", "budget_usd": "", "max_pages": -1, "samples": 0, "slots": 0, "batch": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"base_url": "http://h/v1"}, {"judge": "openai", "base_url": "http://h/v1"}),
        ({"model": "m"}, {"judge": "openai", "model": "m"}),
        ({"model": "m", "judge": "local"}, {"judge": "local", "model": "m"}),
        ({"variants": "plain, qri,"}, {"variants": ["plain", "qri"]}),
        ({"budget_usd": "0", "max_pages": 0}, {"budget_usd": "0", "max_pages": 0}),  # 0 says something, -1 nothing
        ({"budget_usd": "off"}, {"budget_usd": "off"}),
        ({"batch": True, "samples": 3}, {"batch": True, "samples": 3}),
    ],
)
def test_options_replace_settings_only_where_given(given, expected):
    assert overrides(**(NOTHING | given)) == expected


def test_paths_of_options_start_where_the_command_is_called(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert overrides(**(NOTHING | {"prompts": "mine"}))["prompts"] == str(tmp_path / "mine")


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--retry", "everything"], "'everything'"),
        (["run"], "no configuration"),
        (["run", "--variants", "qri,best"], "best"),
        (["run", "--variants", "qri,qri"], "qri stands twice"),
        (["run", "--variants", ","], "names nothing"),
        (["run", "--judge", "oracle"], "oracle"),
        (["run", "--budget-usd", "much"], "much"),
        (["run", "--budget-usd", "-3"], "-3"),
        (["run", "--budget-usd", "inf"], "inf"),
        (["run", "--model", "m", "--base-url", "https://models.example.com/v1"], "budget-usd off"),
        (["plan", "--prices", "none.toml", "--model", "m"], "none.toml"),
        (["run", "--base-url", "ftp://x"], "http"),
        (["run", "--model", "m", "--submit-only", "--base-url", "http://127.0.0.1:9/v1"], "--batch"),
        (["batch-status"], "--labels"),
    ],
)
def test_wrong_use_ends_with_2_and_a_sentence(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)  # where the label store of the default --out would go
    room = Room(tmp_path)
    pages = ["--pages", room.folder / "pages.jsonl"] if len(arguments) > 1 else []
    model = ["--model", "m"] if "--base-url" in arguments and "--model" not in arguments else []
    done = call(*arguments, *pages, *model)
    assert done.exit_code == 2
    assert message in done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith("{")]  # the step's own line apart
    assert len(said) == 1


@pytest.mark.parametrize("verb", ["plan", "run", "commit", "batch-status"])
def test_every_verb_has_an_example(verb):
    assert f"hindcast judging {verb}" in call(verb, "--help").stdout


def test_json_is_the_last_line_of_stdout(tmp_path):
    room = Room(tmp_path)
    with endpoint() as (url, _):
        done = call(
            "run", "--pages", tmp_path / "pages.jsonl", "--cards", tmp_path / "cards.jsonl", "--base-url", url,
            "--model", "m", "--variants", "plain,qri", "--out", tmp_path / "out.jsonl", "--json",
        )  # fmt: skip
    assert done.exit_code == 0
    assert json.loads(done.stdout.splitlines()[-1])["labels"] == 4
    assert len(room.rows()) == 4
