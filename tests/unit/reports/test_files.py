"""Reports on files of other tools: what is read, what is refused, and what is said about ids that do not match."""

import gzip
import json

import polars as pl
import pytest

from jobs.core.errors import GateFailed, InputError, NotThereError, UsageError
from jobs.core.keys import key_of
from jobs.reports.build import build
from jobs.reports.data import Options
from jobs.reports.files import from_files, outcome_frame, query_number
from jobs.reports.job import build_files, compare_text, read_labels, read_report


def write(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def judged(*labels):
    return [{"page_id": f"p{i}", "variant": "plain", "label": x} for i, x in enumerate(labels)]


def truths(*values):
    return [{"page_id": f"p{i}", "query_key": f"q{i}", "truth": x} for i, x in enumerate(values)]


def placed(rows, name="o.jsonl"):
    return [(f"{name} line {n}", row) for n, row in enumerate(rows, 1)]


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
        ("no page", [{"variant": "plain", "label": 1}], "line 1: page_id is missing or null among 'variant', 'label'"),
        ("no variant", [{"page_id": "p", "variant": None, "label": 1}], "variant is missing or null"),
        ("a sample that is no number", [{"page_id": "p", "variant": "v", "sample": "x"}], "sample is 'x'"),
        ("a negative count", [{"page_id": "p", "variant": "v", "qri_count": -1}], "qri_count is -1"),
        ("cited ids instead of row numbers", [{"page_id": "p", "variant": "v", "cited": ["d1"]}], r"cited\.0 is 'd1'"),
        ("a label that is true", [{"page_id": "p", "variant": "v", "label": True}], "label is True"),
        ("a label beyond any float", [{"page_id": "p", "variant": "v", "label": 10**400}], "label is 1000"),
        ("an empty page id", [{"page_id": "", "variant": "v"}], "page_id is ''"),
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


KEYS = {
    "judgments": ("label", "expected_label", "latency_ms", "something_unknown"),
    "truth": ("truth", "truth_standard_error", "human_label"),
    "outcomes": ("system_a", "standard_error_b", "n_a"),
    "pages": ("truth", "made.deep"),
    "cards": ("rows.relevance",),
}
LINES = {
    "judgments": {"page_id": "p0", "variant": "plain", "label": 1, "system": "a", "query_key": "q"},
    "truth": {"page_id": "p0", "truth": 1},
    "outcomes": {"query_key": "q", "system_a": 1, "system_b": 0},
    "pages": {"page_id": "p0", "query": "q", "items": [{"item_id": "i"}]},
    "cards": {"page_id": "p0", "item_id": "i", "rows": [{"query": "h"}]},
}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize(("file", "key"), [(f, k) for f, keys in KEYS.items() for k in keys])
def test_numbers_that_are_not_finite_are_named_with_file_and_line(tmp_path, file, key, number):
    paths = {name: write(tmp_path / f"{name}.jsonl", [row]) for name, row in LINES.items()}
    first, _, inner = key.partition(".")
    body = {k: v for k, v in LINES[file].items() if k != first}
    value = number if not inner else f'{{"{inner}": {number}}}' if first == "made" else f'[{{"{inner}": {number}}}]'
    line = json.dumps(body)[:-1] + f', "{first}": {value}}}\n'
    paths[file].write_text(json.dumps(LINES[file]) + "\n\n" + line)
    with pytest.raises(
        InputError, match=rf"{file}\.jsonl line 3: .*{inner or first}.* (nan|-?inf), which is no finite"
    ):
        from_files(**paths)


@pytest.mark.parametrize(
    ("why", "content"),
    [
        ("half a line", b'{"page_id": '),
        ("bytes that are no UTF-8", b'{"page_id": "\xff"}'),
        ("a list", b'["p0", "plain", 1]'),
        ("a number", b"7"),
        ("nested beyond reason", b"[" * 100_000),
    ],
)
@pytest.mark.parametrize("file", LINES)
def test_what_is_no_line_is_named_with_file_and_line(tmp_path, file, why, content):
    paths = {name: write(tmp_path / f"{name}.jsonl", [row]) for name, row in LINES.items()}
    paths[file].write_bytes(json.dumps(LINES[file]).encode() + b"\n" + content + b"\n")
    with pytest.raises(InputError, match=rf"{file}\.jsonl line 2 "):
        from_files(**paths)


@pytest.mark.parametrize("file", LINES)
def test_files_that_are_not_there_are_named(tmp_path, file):
    paths = {name: write(tmp_path / f"{name}.jsonl", [row]) for name, row in LINES.items()}
    for missing, why in ((tmp_path / "gone.jsonl", "no such file"), (tmp_path, "a folder")):
        with pytest.raises(NotThereError, match=why):
            from_files(**{**paths, file: missing})


def test_numbers_that_are_not_finite_are_named_in_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"page_id": ["p0", "p1"], "truth": [0.5, float("nan")]}).write_parquet(path)
    with pytest.raises(InputError, match=r"t\.parquet row 2: truth is nan"):
        from_files(judgments=write(tmp_path / "j.jsonl", judged(0, 1)), truth=path)
    path.write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match="is no Parquet file"):
        from_files(judgments=write(tmp_path / "j.jsonl", judged(0, 1)), truth=path)


def test_other_tools_habits_are_read(tmp_path):
    path = tmp_path / "j.jsonl"
    rows = [{"page_id": 7, "variant": "gpt", "label": 0.7, "set": "test", "system": "bm25", "configuration": "v2",
             "qri_count": 3.0, "rationale": None, "cited": None, "query_key": 2**70},
            {"page_id": "\ud800", "variant": "gpt", "label": 1}]  # fmt: skip
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(json.dumps(r) for r in rows).encode())
    data = from_files(judgments=path, truth=write(tmp_path / "t.jsonl", [{"page_id": 7, "truth": 1}]))
    assert data.judgments["set"].to_list() == ["other", "other"]
    assert data.judgments["system"].to_list() == [None, None]
    assert data.judgments["query_key"][0] == key_of(str(2**70))
    assert data.pages["truth"].to_list() == [1.0, None]


def test_human_pages_with_a_measured_truth_are_reported_on(tmp_path):
    rows = [{**r, "set": "human"} for r in judged(0, 0.5, 1)]
    data = from_files(
        judgments=write(tmp_path / "j.jsonl", rows), truth=write(tmp_path / "t.jsonl", truths(0.1, 0.2, 0.3))
    )
    assert build(data, Options(samples=100))["logs"]["n_pages"] == 3


def test_pages_without_ranks_are_numbered_as_listed(tmp_path):
    shown = [{"page_id": "p0", "query": "q", "items": [{"item_id": "x"}, {"item_id": 2}]}]
    data = from_files(
        judgments=write(tmp_path / "j.jsonl", judged(1)),
        truth=write(tmp_path / "t.jsonl", truths(1)),
        pages=write(tmp_path / "p.jsonl", shown),
    )
    assert [(i["item_id"], i["rank"]) for i in json.loads(data.pages["items"][0])] == [("x", 1), ("2", 2)]


def test_outcomes_of_other_queries_are_counted_or_refused(tmp_path):
    rows = [{**r, "system": s, "query_key": q} for q in "ab" for s, r in zip("ab", judged(1, 0), strict=True)]
    rows = [{**r, "page_id": f"{i}"} for i, r in enumerate(rows)]
    judgments = write(tmp_path / "j.jsonl", rows)
    outcome = {"system_a": 1, "system_b": 0}
    given = write(tmp_path / "o.jsonl", [{**outcome, "query_key": q} for q in "bc"])
    (told,) = from_files(judgments=judgments, truth=None, outcomes=given).problems
    assert "1 query keys stand in both files, 1 only in j.jsonl" in told
    assert "1 only in o.jsonl" in told
    write(given, [{**outcome, "query_key": "z"}])
    with pytest.raises(InputError, match="0 query keys stand in both"):
        from_files(judgments=judgments, truth=None, outcomes=given)
    with pytest.raises(InputError, match="no page of system a or b"):
        from_files(judgments=write(tmp_path / "k.jsonl", judged(1)), truth=None, outcomes=given)
    with pytest.raises(InputError, match="0 page ids stand in both"):
        from_files(judgments=judgments, truth=write(tmp_path / "t.jsonl", truths(1)), outcomes=given)


def test_pages_of_both_systems_count_with_users_too_where_they_have_a_truth(tmp_path):
    rows = [{"page_id": f"{q}{s}", "query_key": q, "variant": "plain", "system": s, "label": (q + (s == "a")) % 3 / 2}
            for q in range(6) for s in "ab"]  # fmt: skip
    data = from_files(
        judgments=write(tmp_path / "j.jsonl", rows),
        truth=write(tmp_path / "t.jsonl", [{"page_id": f"{q}a", "truth": q / 6} for q in range(6)]),
        outcomes=write(tmp_path / "o.jsonl", [{"query_key": q, "system_a": q, "system_b": 2} for q in range(6)]),
    )
    report = build(data, Options(samples=100))
    assert (report["logs"]["n_pages"], report["launch"]["variants"]["plain"]["n"]) == (6, 6)
    assert data.problems == ()


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
        ("one query twice", [{"query_key": "q", "system_a": 1, "system_b": 1}] * 2, "o.jsonl line 2: its query stands"),
        ("no outcome at all", [], "holds no outcome"),
        (
            "a negative error",
            [{"query_key": "q", "system_a": 1, "system_b": 1, "standard_error_a": -1}],
            "_error_a is -1",
        ),
    ],
)
def test_bad_outcomes_are_named(why, rows, message):
    with pytest.raises(InputError, match=message):
        outcome_frame(placed(rows), "o.jsonl")


def test_outcomes_by_query_text_get_the_logs_key():
    from jobs.core.keys import query_key

    row = {"corpus": "tracks", "locale": "en", "query": " Blue  Moon", "system_a": 1, "system_b": 0}
    found = outcome_frame(placed([row]), "o")
    assert found["query_key"].to_list() == [query_key("tracks", "en", "blue moon")]


def test_usage(tmp_path):
    none = {"judgments": tmp_path / "j", "truth": None, "outcomes": None, "pages": None, "cards": None}
    with pytest.raises(UsageError, match="--out"):
        build_files(none, out="", before="", options=Options())
    with pytest.raises(UsageError, match="--truth"):
        build_files(none, out=str(tmp_path), before="", options=Options())


@pytest.mark.parametrize(
    ("why", "arguments", "code", "message"),
    [
        ("truth alone", ["--truth", "t"], 2, "--truth given without --judgments"),
        ("outcomes alone", ["--outcomes", "o", "--out", "x"], 2, "--outcomes given without --judgments"),
        ("files and a run", ["--judgments", "j", "--truth", "t", "--day", "2026-11-20"], 2, "--day on a run"),
        ("nothing", [], 2, "no configuration"),
        ("no folder", ["--judgments", "j", "--truth", "t"], 2, "--out is missing"),
        ("nothing to compare with", ["--judgments", "j", "--out", "x"], 2, "give --truth"),
        ("a gate out of range", ["--judgments", "j", "--truth", "t", "--out", "x", "--min-spearman", "7"], 2, "7.0"),
        ("no share", ["--judgments", "j", "--truth", "t", "--out", "x", "--max-unscored", "nan"], 2, "nan"),
        ("too few samples", ["--judgments", "j", "--truth", "t", "--out", "x", "--samples", "5"], 2, "--samples 5"),
        ("no such file", ["--judgments", "j", "--truth", "t", "--out", "x"], 1, "no such file"),
    ],
)
def test_wrong_use_and_missing_files_have_their_exit_codes(why, arguments, code, message, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from jobs.reports.job import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HINDCAST_CONFIG", raising=False)
    done = CliRunner().invoke(app, ["build", *arguments])
    assert (done.exit_code, message in done.stderr) == (code, True), done.stderr
    assert len([line for line in done.stderr.splitlines() if not line.startswith("{")]) == 1


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


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"run": {}}', b'{"run": {}, "leakage": {}, "logs": [], "human": 1}']
)
@pytest.mark.parametrize("name", ["report.json", "explorer.json.gz"])
def test_folders_that_hold_no_report_are_named(tmp_path, name, content):
    folder = tmp_path / "half"
    folder.mkdir()
    (folder / name).write_bytes(content)
    read = read_report if name == "report.json" else read_labels
    with pytest.raises(InputError, match=rf"half/{name} cannot be read"):
        read(str(folder))
    (folder / "explorer.json.gz").write_bytes(gzip.compress(content))
    with pytest.raises(InputError, match=r"explorer\.json\.gz cannot be read"):
        read_labels(str(folder))


def test_what_has_nothing_in_common_is_said():
    whole = {"before": {"run": "a"}, "after": {"run": "b"}, "figures": [], "pages": {"flips": {}}}
    assert "nothing to compare" in compare_text(whole)
    flips = {"qri": {"n": 9, "flipped": 1, "page_ids": ["p7"]}}
    assert "1 of 9 labels of common pages changed (p7)" in compare_text({**whole, "pages": {"flips": flips}})
