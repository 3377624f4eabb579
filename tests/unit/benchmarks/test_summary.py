"""What `make bench` prints and keeps: one line a figure, a verdict each, one sentence last, and the exit code."""

import json

import pytest

from benchmarks import __main__ as bench
from benchmarks import lines
from benchmarks.demo import Demo, figures
from benchmarks.lines import Line, at_least, at_most, holds, sentence, table, within
from benchmarks.measure import Usage


@pytest.fixture
def room(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "FIGURES", tmp_path / "figures")
    monkeypatch.setattr(bench, "FIGURES", tmp_path / "figures")
    monkeypatch.setattr(bench, "OUT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        (at_most("a", 1.0, 1.0), "pass"),
        (at_most("a", 1.0001, 1.0), "FAIL"),
        (at_most("not a number never passes", float("nan"), 1.0), "FAIL"),
        (at_least("a", 0.9, 0.9), "pass"),
        (at_least("a", float("nan"), 0.9), "FAIL"),
        (within("a", 2.0, 1.0, 3.0), "pass"),
        (within("a", 3.1, 1.0, 3.0), "FAIL"),
        (holds("a", truth=False, figure="no"), "FAIL"),
        (Line("a", "1"), "reported"),
    ],
)
def test_verdicts(line, verdict):
    assert line.verdict == verdict


def test_the_table_has_the_verdict_last_and_a_line_a_figure():
    head, *rows = table([at_most("a", 1, 2), Line("b", "3", note="why")], notes=False).splitlines()
    assert [cell.strip() for cell in head.split("|")] == ["figure", "measured", "bound", "verdict"]
    assert [row.split("|")[-1].strip() for row in rows] == ["pass", "reported"]


def test_the_last_sentence_counts():
    assert sentence([at_most("a", 1, 2), at_most("b", 3, 2), Line("c", "1")]) == "3 figures: 1 pass, 1 FAIL, 1 reported"


def summary_of(*rows, seconds):
    found = [{"module": module, **vars(line)} for module, line in rows]
    return {"at": "2026-12-01T00:00:00+00:00", "quick": False, "versions": {"python": "3"}, "seconds": seconds,
            "figures": found}  # fmt: skip


def test_a_run_of_one_module_keeps_the_figures_of_the_others(room):
    bench.keep(
        summary_of(("night", at_most("n", 1, 2)), ("cards", at_most("c", 9, 2)), seconds={"night": 1, "cards": 2})
    )
    bench.keep(summary_of(("cards", at_most("c", 1, 2)), seconds={"cards": 3}))
    kept = bench.last()
    assert [(row["name"], row["verdict"]) for row in kept["figures"]] == [("n", "pass"), ("c", "pass")]
    assert kept["seconds"] == {"night": 1, "cards": 3}
    history = [json.loads(line) for line in (room / "history.jsonl").read_text().splitlines()]
    assert [list(one["figures"]) for one in history] == [["n", "c"], ["c"]]


def test_a_missed_bound_is_exit_code_1_and_the_sentence_is_last(room, capsys):
    assert bench.show(summary_of(("night", at_most("n", 3, 2)), seconds={"night": 1})) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 figures: 0 pass, 1 FAIL, 0 reported"
    assert bench.show(summary_of(("night", at_most("n", 1, 2)), seconds={"night": 1})) == 0


def test_a_module_that_dies_without_a_figure_is_a_fail(room, monkeypatch):
    monkeypatch.setitem(bench.MODULES, "no_such_module", bench.Module("nothing", (), 0))
    found, _ = bench.run("no_such_module", ())
    assert [line.verdict for line in found] == ["FAIL"]


def test_an_unknown_module_is_wrong_use(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks", "nihgt"])
    assert bench.main() == 2
    assert "nihgt" in capsys.readouterr().err


def test_the_demo_is_timed_from_its_first_dag_run_and_jvms_belong_to_the_run_in_which_they_start():
    demo = Demo()
    told = [(0, "simulated log"), (10, "nightly: 2026-11-22"), (60, "  impressions.ingest          48.0 s"),
            (100, "forecast: launch x"), (150, "  impressions.ingest … 5 s"), (200, "outcome: launch x"),
            (230, "Simulated log. Judge: offline-baseline")]  # fmt: skip
    for now, line in told:
        demo.see(line, now)
    usage = Usage(jvms={1: 5.0, 2: 20.0, 3: 90.0, 4: 120.0})
    seconds, jvms, _ = figures(demo, usage)
    assert (seconds.figure, seconds.verdict) == ("220.0000", "pass")
    assert float(jvms.figure) == 2
    assert "nightly impressions.ingest 48 s" in seconds.note


def test_a_billion_a_day_follows_the_measured_slope():
    rows = [("night", Line(f"steady night, {n} million: {what}", value)) for n, what, value in (
        (20, "processor seconds", "10"), (100, "processor seconds", "50"), (100, "stored bytes an impression", "30"),
    )]  # fmt: skip
    told = bench.on_paper(summary_of(*rows, seconds={}))
    assert "slope 1.00" in told
    assert "4.2 hours of one core" in told  # 50 s x 300
    assert "0.9 TB" in told


def test_one_size_cannot_be_extrapolated():
    with pytest.raises(SystemExit, match="two sizes"):
        bench.on_paper(summary_of(seconds={}))
