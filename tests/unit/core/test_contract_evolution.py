"""A contract gains nullable columns, old files stay; every other change is refused, with column and way out."""

import json
from dataclasses import replace

import polars as pl
import pytest
from deltalake import DeltaTable

from jobs.core.errors import ContractError
from jobs.core.tables import Store
from schemas import catalog
from schemas.contract import Column, Table

BASE = Table(
    name="probe",
    meaning="a row",
    partition=("corpus",),
    columns=(
        Column(name="corpus", type="string", key=True, meaning="c"),
        Column(name="query_key", type="bigint", key=True, meaning="k"),
        Column(name="clicks", type="bigint", meaning="n"),
        Column(name="segment", type="string", nullable=True, meaning="s"),
    ),
)


def with_column(name, **changes):
    """BASE with one column changed."""
    return replace(BASE, columns=tuple(replace(c, **changes) if c.name == name else c for c in BASE.columns))


def without(name):
    return replace(BASE, columns=tuple(c for c in BASE.columns if c.name != name))


def plus(**column):
    return replace(BASE, version=2, columns=(*BASE.columns, Column(meaning="new", since=2, **column)))


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store that holds two partitions written under BASE."""
    declare(monkeypatch, BASE)
    found = Store(str(tmp_path / "store"))
    for corpus in ("a", "b"):
        found.replace("probe", frame(corpus), where={"corpus": corpus})
    return found


def declare(monkeypatch, spec):
    monkeypatch.setitem(catalog.TABLES, "probe", spec)


def frame(corpus, **more):
    body = {"corpus": [corpus] * 2, "query_key": [1, 2], "clicks": [3, 4], "segment": ["x", None]}
    return pl.DataFrame({**body, **more}, schema_overrides={"segment": pl.String})


@pytest.mark.parametrize(
    ("kind", "value"), [("string", "x"), ("bigint", 7), ("double", 0.5), ("boolean", True), ("list of bigint", [1, 2])]
)
def test_a_new_nullable_column_reads_as_null_in_old_files_which_stay(store, monkeypatch, kind, value):
    before = {f.uri for f in store.files("probe")}
    declare(monkeypatch, plus(name="fresh", type=kind, nullable=True))
    assert store.read("probe")["fresh"].to_list() == [None] * 4
    store.replace("probe", frame("c", fresh=[value, None]), where={"corpus": "c"})
    assert before < {f.uri for f in store.files("probe")}, "no old file was rewritten"
    rows = store.read("probe").sort("corpus", "query_key")
    assert rows["fresh"].to_list() == [None] * 4 + [value, None]
    assert rows["clicks"].to_list() == [3, 4] * 3
    other = DeltaTable(store.table_uri("probe")).to_pyarrow_table()
    assert other.num_rows == 6 and other["fresh"].null_count == 5
    assert store.read("probe", version=1)["fresh"].to_list() == [None] * 4, "old versions are read with it too"


REFUSED = [
    ("another type", with_column("clicks", type="double"), "clicks is long there and double here"),
    ("text for a number", with_column("query_key", type="string"), "query_key is long there and string here"),
    ("never null any more", with_column("segment", nullable=False), "segment is nullable there and not here"),
    ("null allowed", with_column("clicks", nullable=True), "clicks is never null there and not here"),
    ("another partition", replace(BASE, partition=("query_key",)), "partitioned by ['corpus'] there"),
    ("no partition", replace(BASE, partition=()), "partitioned by ['corpus'] there and by [] here"),
    ("renamed", replace(without("clicks"), columns=(*without("clicks").columns, Column(name="taps", type="bigint",
                                                                                    meaning="n"))),
     "taps is not there and not nullable"),
]  # fmt: skip


@pytest.mark.parametrize(("why", "spec", "message"), REFUSED, ids=[r[0] for r in REFUSED])
def test_any_other_change_is_refused_when_reading_and_writing(store, monkeypatch, why, spec, message):
    log = sorted(store.documents.list("tables/probe/_delta_log"))
    declare(monkeypatch, spec)
    for act in (
        lambda: store.read("probe"),
        lambda: store.files("probe", version=0),
        lambda: store.commit_files("probe", [], replaced=[dict.fromkeys(spec.partition, "a")]),
    ):
        with pytest.raises(ContractError) as told:
            act()
        assert message in str(told.value), why
        assert "use the version of Hindcast that wrote the table, or build a new store" in str(told.value)
    assert sorted(store.documents.list("tables/probe/_delta_log")) == log, "nothing was written"


@pytest.mark.parametrize("name", ["segment", "clicks"])
def test_a_dropped_column_is_never_lost_by_a_write(store, monkeypatch, name):
    """An earlier version of Hindcast may still read what a later one wrote."""
    declare(monkeypatch, without(name))
    assert store.read("probe").height == 4
    with pytest.raises(ContractError, match=f"{name} is there and not declared here"):
        store.replace("probe", frame("c").drop(name), where={"corpus": "c"})
    assert name in {f["name"] for f in json.loads(DeltaTable(store.table_uri("probe")).schema().to_json())["fields"]}


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"since": 2, "nullable": False}, id="a later column that must be filled"),
        pytest.param({"since": 3, "nullable": True}, id="a column later than its table"),
    ],
)
def test_a_contract_that_old_tables_could_not_meet_cannot_be_declared(columns):
    with pytest.raises(ValueError, match="columns after version 1 are nullable"):
        replace(BASE, version=2, columns=(*BASE.columns, Column(name="fresh", type="int", meaning="m", **columns)))


def test_the_log_forgets_no_version_by_itself(store):
    """Manifests name versions for longer than Delta's 30 days."""
    assert DeltaTable(store.table_uri("probe")).metadata().configuration["delta.enableExpiredLogCleanup"] == "false"
