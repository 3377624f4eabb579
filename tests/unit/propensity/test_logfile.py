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
from jobs.propensity.logfile import read_impressions

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
