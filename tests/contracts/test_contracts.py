"""Contracts: one declaration renders to every engine alike, the dictionary is fresh, imports run one way."""

import ast
import tomllib
from pathlib import Path

import pytest

import jobs
from schemas.catalog import TABLES, catalog_markdown
from schemas.names import BadName, launch_id, plain_name, run_key

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_renders_alike_for_every_engine(name):
    spec = TABLES[name]
    fields = spec.spark_json()["fields"]
    assert [f["name"] for f in fields] == spec.names == spec.arrow().names == list(spec.polars())
    assert [f["nullable"] for f in fields] == [c.nullable for c in spec.columns]
    assert spec.key or name == "rejected_impressions"
    assert all(c.meaning for c in spec.columns) and spec.meaning


@pytest.mark.parametrize("name", TABLES)
def test_expectations_cover_every_check(name):
    spec = TABLES[name]
    kinds = {(e["type"], e["kwargs"]["column"]) for e in spec.expectations()}
    for c in spec.columns:
        assert c.nullable or ("expect_column_values_to_not_be_null", c.name) in kinds
        assert c.allowed is None or ("expect_column_values_to_be_in_set", c.name) in kinds


def test_the_data_dictionary_is_fresh():
    path = ROOT / "schemas" / "CATALOG.md"
    assert path.read_text(encoding="utf-8") == catalog_markdown(), "run `python -m schemas.catalog`"


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize(
    ("folder", "forbidden", "why"),
    [
        ("schemas", {"jobs", "dags", "pyspark", "airflow"}, "contracts import nothing of ours, and no engine"),
        ("jobs", {"dags", "airflow", "tests"}, "jobs know no scheduler"),
        ("dags", {"jobs", "pyspark", "polars", "pandas"}, "dags import names from schemas only"),
    ],
)
def test_imports_run_one_way(folder, forbidden, why):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    found = [(str(f.relative_to(ROOT)), m) for f in files for m in imports(f) if m.split(".")[0] in forbidden]
    assert found == [], why


STEPS = ["impressions", "propensity", "evidence", "pages", "cards", "judging", "skills", "reports"]


@pytest.mark.parametrize("step", STEPS)
def test_steps_do_not_import_later_steps(step):
    order = STEPS.index(step)
    later = {s for s in STEPS[order + 1 :] if s != "skills"} if step != "skills" else {"reports"}
    found = [
        (str(f.relative_to(ROOT)), m)
        for f in sorted((ROOT / "jobs" / step).rglob("*.py"))
        for m in imports(f)
        if m.startswith("jobs.") and m.split(".")[1] in later
    ]
    assert found == []


@pytest.mark.parametrize("bad", ["", "A", "-x", "x" * 42, "a/b", "a b", "..", "é", "x\n", None])
def test_launch_ids_that_could_be_paths_are_refused(bad):
    with pytest.raises(BadName):
        launch_id(bad)


@pytest.mark.parametrize("bad", ["night-2026-02-30", "night-x", "launch-", "nightly", "night-2026-11-20\n"])
def test_run_keys_that_mean_no_run_are_refused(bad):
    with pytest.raises(BadName):
        run_key(bad)


def test_the_package_says_one_version():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == jobs.__version__


def test_good_names_pass():
    assert launch_id("new-ranker-2") == "new-ranker-2" and plain_name("tracks_2") == "tracks_2"
    assert run_key("launch-x") == "launch-x" and run_key("night-2026-11-20") == "night-2026-11-20"
