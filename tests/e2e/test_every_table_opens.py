"""Every table of a store, opened by Spark (delta-spark) and by delta-rs: the same rows, columns and old versions."""

from datetime import date

import polars as pl
import pytest
from deltalake import DeltaTable

from jobs.core.settings import Spark
from jobs.core.spark import SparkProvider, read_delta
from jobs.core.tables import Store
from schemas.catalog import TABLES

pytestmark = pytest.mark.timeout(1200)  # it may be the first that asks for the night and the launch


@pytest.fixture(scope="module")
def spark():
    provider = SparkProvider(Spark(master="local[1]"), store_uri="")
    yield provider
    provider.stop()


def test_both_engines_see_the_same_table(launch, spark):
    """After a night and a launch with its outcome, so that every declared table is there."""
    _, store, _ = launch
    missing = [name for name in TABLES if store.version(name) is None]
    assert missing == [], "a table that no test opens"
    for name, spec in TABLES.items():
        uri = store.table_uri(name)
        frame, rust = read_delta(spark, uri), DeltaTable(uri)
        assert frame.count() == rust.count() == store.read(name).height, name
        assert sorted(frame.columns) == sorted(f.name for f in rust.schema().fields) == sorted(spec.names), name
        declared = {f["name"]: f["type"] for f in spec.spark_json()["fields"]}
        assert {f["name"]: f["type"] for f in frame.schema.jsonValue()["fields"]} == declared, name
        assert read_delta(spark, uri, version=0).count() == DeltaTable(uri, version=0).count(), name


def test_spark_reads_a_column_that_old_files_lack_as_null(tmp_path, monkeypatch, spark):
    """A contract that gained a column: what delta-rs wrote before and after, in one Spark frame."""
    from dataclasses import replace

    from schemas import catalog
    from schemas.contract import Column

    store, spec = Store(str(tmp_path / "store")), TABLES["queries"]
    row = {"corpus": "a", "locale": "en", "query_key": 1, "query": "q", "first_day": date(2026, 1, 1)}
    store.replace("queries", pl.DataFrame([row], schema=spec.polars()), where={"corpus": "a"})
    grown = replace(spec, version=spec.version + 1, columns=(
        *spec.columns, Column(name="fresh", type="list of bigint", nullable=True, meaning="m", since=spec.version + 1),
    ))  # fmt: skip
    monkeypatch.setitem(catalog.TABLES, "queries", grown)
    more = {**row, "corpus": "b", "fresh": [1, 2]}
    store.replace("queries", pl.DataFrame([more], schema=grown.polars()), where={"corpus": "b"})
    rows = {r["corpus"]: r["fresh"] for r in read_delta(spark, store.table_uri("queries")).collect()}
    assert rows == {"a": None, "b": [1, 2]}
    assert store.read("queries").sort("corpus")["fresh"].to_list() == [None, [1, 2]]
