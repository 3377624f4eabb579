"""Impressions in a file of one's own, and the command on it."""

import gzip
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from benchmarks.estimator_real import ADJACENT, BANDIT, EM, YANDEX, YANDEX_COLUMNS
from benchmarks.planted_counts import relative_error, two_rankers
from jobs.core.errors import InputError, UsageError
from jobs.propensity.job import app
from jobs.propensity.logfile import read_impressions, read_log

CSV = 'q,doc,pos,c\nshoes,a,1,1\nshoes,a,1,0\nshoes,b,2,0\n"tv, 55",a,1,1\n'
COLUMNS = "query=q,item=doc,rank=pos,click=c"


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(path)


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_rows_become_counts(tmp_path, name):
    found = read_impressions([write(tmp_path, name, CSV)], columns=COLUMNS)
    assert found["impressions"].sum() == 4
    assert sorted(found["clicks"]) == [0, 1, 1]
    assert found["query_key"].n_unique() == 2
    assert found["item_key"].n_unique() == 3
    assert not found["randomised"].any()


def test_json_lines_and_parquet_give_the_same(tmp_path):
    rows = pl.read_csv(CSV.encode())
    rows.write_ndjson(tmp_path / "log.jsonl")
    rows.write_parquet(tmp_path / "log.parquet")
    one, two, three = (
        read_impressions([str(tmp_path / n)], columns=COLUMNS)
        for n in ("log.jsonl", "log.parquet", Path(write(tmp_path, "log.csv", CSV)).name)
    )
    assert one.equals(two)
    assert one.equals(three)


def test_ready_counts_and_own_names_need_no_mapping(tmp_path):
    text = "query,item,rank,click,impressions,ranker\na,x,1,5,10,new\na,x,2,1,10,old\n"
    found = read_impressions([write(tmp_path, "c.csv", text)], columns="impressions=impressions")
    assert found.select("impressions", "clicks", "ranker").rows() == [(10, 5, "new"), (10, 1, "old")]


@pytest.mark.parametrize(
    ("columns", "text", "error", "message"),
    [
        ("query=q,thing=doc", CSV, UsageError, "'thing' is no field=column pair"),
        ("query=", CSV, UsageError, "'query' is no field=column pair"),
        ("query=q,item=doc,rank=pos", CSV, InputError, "no column for click"),
        ("query=q,item=nope,rank=pos,click=c", CSV, InputError, "no column for item=nope"),
        (COLUMNS, "q,doc,pos,c\na,b,first,1\n", InputError, "1 of 1 rows lack a whole number"),
        (COLUMNS, "q,doc,pos,c\na,b,0,1\n", InputError, "ranks start at 1"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, columns, text, error, message):
    path = write(tmp_path, "log.csv", text)
    from jobs.propensity.estimate import Options, fit

    with pytest.raises(error, match=message):
        fit(read_impressions([path], columns=columns), options=Options(replicates=0))


YES_NO = [("1", "0"), ("true", "false"), ("True", "FALSE"), ("yes", "no"), (" 1.0", "0.0"), ("t", "f")]


@pytest.mark.parametrize("kind", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize(("yes", "no"), YES_NO)
@pytest.mark.parametrize(
    "dirty", [("c", "maybe"), ("c", None), ("pos", "x"), ("pos", "1.5"), ("doc", None), ("pos", "true"), None]
)
def test_a_dirty_cell_costs_its_row_and_is_named(tmp_path, kind, yes, no, dirty):
    rows = [{"q": f"q{i % 7}", "doc": f"d{i}", "pos": str(i % 5 + 1), "c": yes if i % 3 else no} for i in range(40)]
    clean, line = len(rows), 31 if kind != ".csv" else 32
    if dirty:
        rows[30][dirty[0]], clean = dirty[1], clean - 1
    path = tmp_path / f"log{kind}"
    frame = pl.DataFrame(rows)
    {".csv": frame.write_csv, ".jsonl": frame.write_ndjson, ".parquet": frame.write_parquet}[kind](path)
    log = read_log([str(path)], columns=COLUMNS)
    assert log.counts["impressions"].sum() == clean
    assert log.counts["clicks"].sum() == sum(i % 3 > 0 for i in range(40) if not dirty or i != 30)
    assert len(log.notes) == bool(dirty)
    if dirty:
        value = "empty" if dirty[1] is None else repr(dirty[1])
        assert "1 of 40 rows" in log.notes[0]
        assert f"first line {line}: " in log.notes[0]
        assert f" is {value}; they are left out" in log.notes[0]


def test_a_dirty_cell_after_any_number_of_clean_rows_is_the_same(tmp_path):
    body = "".join(f"q{i % 9},d,1,{i % 2}\n" for i in range(120_000))
    log = read_log([write(tmp_path, "log.csv", f"q,doc,pos,c\n{body}q1,d,1,maybe\n")], columns=COLUMNS)
    assert log.counts["impressions"].sum() == 120_000
    assert "first line 120002: click is 'maybe'" in log.notes[0]


def test_many_dirty_cells_are_refused_with_line_and_value(tmp_path):
    path = write(tmp_path, "log.csv", "q,doc,pos,c\na,x,1,0\na,y,2,perhaps\n")
    with pytest.raises(InputError, match=r"1 of 2 rows .* line 3: click is 'perhaps'"):
        read_log([path], columns=COLUMNS)


def test_ids_of_a_csv_stay_text(tmp_path):
    text = "q,doc,pos,c\n" + "".join(f"007,{item},{k},1\n" for item, k in (("01", 1), ("1", 2), ("1.0", 3)))
    assert read_impressions([write(tmp_path, "log.csv", text)], columns=COLUMNS)["item_key"].n_unique() == 3


def test_the_curve_says_what_was_left_out(tmp_path):
    body = "".join(f"q{i % 30},d{i % 4},{i % 3 + 1},{i % 2}\n" for i in range(900))
    path = write(tmp_path, "log.csv", f"q,doc,pos,c\n{body}q1,d1,1,maybe\n")
    result = CliRunner().invoke(app, ["fit", "--impressions", path, "--columns", COLUMNS, "--bootstrap", "5", "--json"])
    warnings = json.loads(result.output.splitlines()[-1])["warnings"]
    assert any("1 of 901 rows" in w and "'maybe'" in w for w in warnings)


def test_a_missing_file_is_named():
    with pytest.raises(InputError, match="no such file"):
        read_impressions(["nowhere.csv"], columns=COLUMNS)


def test_the_command_writes_the_curve_and_prints_one_json_object(tmp_path):
    two_rankers(1, queries=200).rename({"query_key": "query", "item_key": "item", "clicks": "click"}).write_csv(
        tmp_path / "counts.csv"
    )
    out = tmp_path / "made" / "curve.json"
    arguments = ["fit", "--impressions", str(tmp_path / "counts.csv"), "--columns", "impressions=impressions",
                 "--bootstrap", "40", "--out", str(out), "--json"]  # fmt: skip
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    printed, written = json.loads(result.output.splitlines()[-1]), json.loads(out.read_text())
    assert printed["curve_id"] == written["curve_id"]
    assert written["identified"]
    assert relative_error(np.array([r["propensity"] for r in written["ranks"]])) < 0.1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["fit"], 2),
        (["fit", "--impressions", "nowhere.csv"], 1),
        (["fit", "--impressions", "nowhere.csv", "--estimator", "magic"], 2),
        (["fit", "--estimator", "allpairs"], 2),
    ],
)
def test_exit_codes(arguments, code):
    assert CliRunner().invoke(app, arguments).exit_code == code


@pytest.mark.skipif(not YANDEX.exists(), reason=f"{YANDEX} is not here")
@pytest.mark.parametrize(
    ("extra", "reference", "worst"),
    [
        (["--estimator", "pbm_em"], EM, 0.0105),
        (["--estimator", "pbm_em", "--start", "0"], EM, 0.0105),
        (["--estimator", "pbm_em", "--start", "0.9"], EM, 0.0105),
        (["--estimator", "allpairs"], ADJACENT, 0.10),
        (["--estimator", "allpairs", "--pairs", "adjacent"], ADJACENT, 0.01),
        ([], ADJACENT, 0.10),
    ],
)
def test_the_yandex_sample_gives_its_published_curves(tmp_path, extra, reference, worst):
    out = tmp_path / "curve.json"
    arguments = ["fit", "--impressions", str(YANDEX), "--columns", YANDEX_COLUMNS, "--out", str(out), *extra]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    curve = json.loads(out.read_text())
    found = np.array([r["propensity"] for r in curve["ranks"]])
    assert np.abs(found - reference).max() <= worst
    assert curve["identified"]
    assert any("exogenous" in w for w in curve["warnings"])
    assert all(r["standard_error"] is not None for r in curve["ranks"])


@pytest.mark.skipif(not BANDIT[0].exists(), reason=f"{BANDIT[0]} is not here")
def test_a_random_policy_without_position_effect_gives_a_flat_curve_with_a_warning(tmp_path):
    files = [part for path in BANDIT for part in ("--impressions", str(path))]
    arguments = ["fit", *files, "--columns", "item=item_id,rank=position,click=click", "--randomised", "--json"]
    result = CliRunner().invoke(app, arguments)
    curve = json.loads(result.output.splitlines()[-1])
    assert (curve["estimator"], curve["identified"], len(curve["ranks"])) == ("randomised", True, 3)
    assert all(r["low"] <= 1 <= r["high"] for r in curve["ranks"])
    assert any("wide intervals" in w for w in curve["warnings"])
