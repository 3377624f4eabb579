"""Reports on files of other tools: what is read, what is refused, and what is said about ids that do not match."""

import json

import pytest

from jobs.core.errors import GateFailed, InputError, UsageError
from jobs.core.keys import key_of
from jobs.reports.data import Options
from jobs.reports.files import from_files, outcome_frame, query_number
from jobs.reports.job import build_files


def write(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def judged(*labels):
    return [{"page_id": f"p{i}", "variant": "plain", "label": x} for i, x in enumerate(labels)]


def truths(*values):
    return [{"page_id": f"p{i}", "query_key": f"q{i}", "truth": x} for i, x in enumerate(values)]


def test_least_that_is_needed(tmp_path):
    data = from_files(
        judgments=write(tmp_path / "j.jsonl", judged(0, 3, None)), truth=write(tmp_path / "t.jsonl", truths(0.1, 7, 2))
    )
    assert data.judgments["label"].to_list() == [0.0, 3.0, None]
    assert data.judgments["reason"].to_list() == [None, None, "missing"]
    assert data.pages["truth"].to_list() == [0.1, 7.0, 2.0]
    assert data.pages["query_key"].to_list() == [key_of(f"q{i}") for i in range(3)]
    assert data.problems == ()


@pytest.mark.parametrize(
    ("why", "given", "key"),
    [("16 hexadecimal digits", "00000000000000ff", 255), ("a number", 12, 12), ("any text", "shoes", key_of("shoes")),
     ("nothing: the page is its own query", None, key_of("p0"))],
)  # fmt: skip
def test_query_keys(why, given, key):
    assert query_number(given, "p0") == key, why


def test_ids_in_one_file_only_are_counted_and_shown(tmp_path):
    data = from_files(
        judgments=write(tmp_path / "j.jsonl", judged(0, 1, 1)),
        truth=write(tmp_path / "t.jsonl", [*truths(0.1, 0.2), {"page_id": "other", "truth": 1}]),
    )
    assert data.problems == (
        "2 page ids stand in both files, 1 only in j.jsonl (such as 'p2'), 1 only in t.jsonl (such as 'other').",
    )


def test_no_common_id_is_refused_with_examples(tmp_path):
    paths = {
        "judgments": write(tmp_path / "j.jsonl", judged(0, 1)),
        "truth": write(tmp_path / "t.jsonl", [{"page_id": "P0", "truth": 1}]),
    }
    with pytest.raises(InputError, match=r"0 page ids stand in both files.*'p0', 'p1'.*'P0'.*spell their ids"):
        from_files(**paths)


@pytest.mark.parametrize(
    ("why", "rows", "message"),
    [
        ("empty", [], "holds no judgment"),
        ("no page", [{"variant": "plain", "label": 1}], "page_id is None"),
        ("no variant", [{"page_id": "p", "label": 1}], "variant is None"),
        ("a label that is no number", [{"page_id": "p", "variant": "plain", "label": "good"}], "label is 'good'"),
        (
            "two labels of one page",
            [*judged(1), {"page_id": "p0", "variant": "plain", "label": 0}],
            "two different rows",
        ),
    ],
)
def test_bad_judgments_are_named(tmp_path, why, rows, message):
    paths = {"judgments": write(tmp_path / "j.jsonl", rows), "truth": write(tmp_path / "t.jsonl", truths(1))}
    with pytest.raises(InputError, match=message):
        from_files(**paths)


def test_bad_lines_are_named_by_number(tmp_path):
    path = tmp_path / "j.jsonl"
    path.write_text('{"page_id": "p0", "variant": "plain", "label": 1}\n{"page_id": \n')
    with pytest.raises(InputError, match=r"j\.jsonl line 2 is no JSON"):
        from_files(judgments=path, truth=write(tmp_path / "t.jsonl", truths(1)))


def test_exact_copies_are_dropped_and_said(tmp_path):
    data = from_files(
        judgments=write(tmp_path / "j.jsonl", judged(1, 0) + judged(1)), truth=write(tmp_path / "t.jsonl", truths(1, 2))
    )
    assert data.judgments.height == 2
    assert data.problems == ("1 judgments were exact copies of others and were dropped.",)


@pytest.mark.parametrize(
    ("why", "rows", "message"),
    [
        ("no number", [{"query_key": "q", "system_a": "x", "system_b": 1}], "system_a is 'x'"),
        ("no query", [{"system_a": 1, "system_b": 1}], "give query_key, or corpus, locale and query"),
        ("one query twice", [{"query_key": "q", "system_a": 1, "system_b": 1}] * 2, "stands twice"),
    ],
)
def test_bad_outcomes_are_named(why, rows, message):
    with pytest.raises(InputError, match=message):
        outcome_frame(rows, "o.jsonl")


def test_outcomes_by_query_text_get_the_logs_key():
    from jobs.core.keys import query_key

    found = outcome_frame(
        [{"corpus": "tracks", "locale": "en", "query": " Blue  Moon", "system_a": 1, "system_b": 0}], "o"
    )
    assert found["query_key"].to_list() == [query_key("tracks", "en", "blue moon")]


def test_usage(tmp_path):
    none = {"judgments": tmp_path / "j", "truth": None, "outcomes": None, "pages": None, "cards": None}
    with pytest.raises(UsageError, match="--out"):
        build_files(none, out="", before="", options=Options())
    with pytest.raises(UsageError, match="--truth"):
        build_files(none, out=str(tmp_path), before="", options=Options())


def test_command_line_fails_a_gate_with_code_3(tmp_path):
    from typer.testing import CliRunner

    from jobs.reports.job import app

    judgments = write(tmp_path / "j.jsonl", judged(1, 0.5, 0, 1))
    truth = write(tmp_path / "t.jsonl", truths(0.1, 0.5, 0.9, 0.2))
    arguments = ["build", "--judgments", str(judgments), "--truth", str(truth), "--out", str(tmp_path / "o"), "--json"]
    done = CliRunner().invoke(app, [*arguments, "--samples", "100", "--min-spearman", "0.2"])
    assert done.exit_code == GateFailed.exit_code
    assert json.loads(done.stdout.splitlines()[-1])["gates"]["failed"]
    report = json.loads((tmp_path / "o" / "report.json").read_text())
    assert report["logs"]["variants"]["plain"]["all"]["spearman"]["value"] == pytest.approx(-0.9486832980505138)
