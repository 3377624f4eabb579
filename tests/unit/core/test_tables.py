"""Tables and documents: a write replaces its literal partition and nothing else, and checks its contract first."""

import multiprocessing
from datetime import date
from pathlib import Path

import polars as pl
import pytest

from jobs.core.errors import ContractError, NotThereError, UsageError
from jobs.core.tables import Store, read_files, scan_files, stage
from schemas.catalog import UnknownTable, table

QUERIES = table("queries")
USERS = table("daily_users")


def queries(corpus, *keys):
    rows = [(corpus, "en", k, f"q{k}", date(2026, 1, 1)) for k in keys]
    return pl.DataFrame(rows, schema=QUERIES.polars(), orient="row")


def users(day, *hashes):
    rows = [(day, "tracks", "en", 1, day, "s", h) for h in hashes]
    return pl.DataFrame(rows, schema=USERS.polars(), orient="row")


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "store"))


def test_a_write_replaces_its_partition_and_nothing_else(store):
    first = store.replace("queries", queries("a", 1, 2), where={"corpus": "a"})
    second = store.replace("queries", queries("b", 3), where={"corpus": "b"})
    third = store.replace("queries", queries("a", 9), where={"corpus": "a"})
    assert (first, second, third) == (0, 1, 2)
    assert sorted(store.read("queries").get_column("query_key")) == [3, 9]
    assert sorted(store.read("queries", version=second).get_column("query_key")) == [1, 2, 3]
    assert store.read("queries", where={"corpus": "b"}).height == 1


def test_an_empty_write_empties_the_partition(store):
    store.replace("queries", queries("a", 1), where={"corpus": "a"})
    store.replace("queries", queries("a"), where={"corpus": "a"})
    assert store.read("queries").height == 0
    assert store.read("queries", version=0).height == 1


def test_several_days_are_replaced_in_one_commit_and_the_others_stay(store):
    days = [date(2026, 1, d) for d in (1, 2, 3)]
    store.commit_files(
        "daily_users",
        [
            stage(
                store.table_uri("daily_users"), USERS, users(d, d.day), partition={"event_day": d, "corpus": "tracks"}
            )
            for d in days
        ],
        replaced=[{"event_day": d, "corpus": "tracks"} for d in days],
    )
    new = stage(
        store.table_uri("daily_users"),
        USERS,
        users(days[1], 7, 8),
        partition={"event_day": days[1], "corpus": "tracks"},
    )
    version = store.commit_files(
        "daily_users", [new.as_dict()], replaced=[{"event_day": d, "corpus": "tracks"} for d in days[1:]]
    )
    assert version == 1
    got = store.read("daily_users").sort("event_day", "user_hash")
    assert got.select("event_day", "user_hash").rows() == [(days[0], 1), (days[1], 7), (days[1], 8)]


def test_files_carry_rows_and_bounds_for_pruning(store):
    store.replace("queries", queries("a", -5, 2), where={"corpus": "a"})
    (file,) = store.files("queries")
    assert (file.rows, file.low["query_key"], file.high["query_key"]) == (2, -5, 2)
    assert read_files(QUERIES, [file], columns=["query_key", "corpus"]).rows() == [(-5, "a"), (2, "a")]


@pytest.mark.parametrize(
    ("frame", "named", "why"),
    [
        (queries("a", 1, 1), "key (corpus, locale, query_key) doubled", "a key twice"),
        (queries("a", 1).with_columns(query=pl.lit(None, pl.String)), "queries.query: null in 1 of 1", "a null"),
        (queries("a", 1).drop("query"), "queries.query: missing", "a column less"),
        (queries("a", 1).with_columns(extra=1), "queries.extra: not declared", "a column more"),
        (
            queries("a", 1).with_columns(pl.col("query_key").cast(pl.Int32)),
            "queries.query_key: is Int32",
            "another type",
        ),
        (queries("b", 1), "queries.corpus: rows of 'b'", "rows of another partition"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_their_path(store, frame, named, why):
    with pytest.raises(ContractError) as caught:
        store.replace("queries", frame, where={"corpus": "a"})
    assert named in str(caught.value), why
    assert store.version("queries") is None


def test_every_mismatch_is_named_at_once(store):
    bad = queries("a", 1, 1).with_columns(query=pl.lit(None, pl.String))
    with pytest.raises(ContractError) as caught:
        store.replace("queries", bad, where={"corpus": "a"})
    assert "null in 2 of 2" in str(caught.value) and "doubled" in str(caught.value)


def test_a_partition_value_like_a_number_stays_text(store):
    store.replace("queries", queries("01", 1), where={"corpus": "01"})
    assert store.read("queries").get_column("corpus").to_list() == ["01"]


def test_what_is_not_there_is_an_error_with_its_name(store):
    with pytest.raises(UnknownTable, match="nope"):
        store.read("nope")
    with pytest.raises(NotThereError, match="version 4"):
        store.read("queries", version=4)
    assert store.read("queries").height == 0, "a table that nothing wrote yet reads as empty"


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "a\x00b"])
def test_no_path_leaves_the_store(store, path):
    with pytest.raises(UsageError, match="leaves the store"):
        store.write_json(path, {})


def test_documents_are_replaced_whole_and_hold_no_nan(store):
    store.write_json("a/b.json", {"x": 1})
    with pytest.raises(ValueError, match="JSON compliant"):
        store.write_json("a/b.json", {"x": float("nan")})
    assert store.read_json("a/b.json") == {"x": 1}
    assert store.documents.list("a") == ["b.json"], "no draft is left behind"


def _write_corpus(uri, corpus):
    Store(uri).replace("queries", queries(corpus, 1, 2, 3), where={"corpus": corpus})


def test_writers_of_disjoint_partitions_both_land(store):
    store.replace("queries", queries("z", 1), where={"corpus": "z"})
    workers = [multiprocessing.get_context("spawn").Process(target=_write_corpus, args=(store.uri, c)) for c in "abcd"]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert [w.exitcode for w in workers] == [0, 0, 0, 0]
    assert sorted(set(store.read("queries").get_column("corpus"))) == ["a", "b", "c", "d", "z"]


@pytest.mark.parametrize("damage", ["gone", "cut off"])
def test_a_file_that_is_not_whole_where_it_is_committed_commits_nothing(store, damage):
    """An executor with a disk of its own, or one that was full: never a table that names what is not there."""
    version = store.replace("queries", queries("a", 1), where={"corpus": "a"})
    staged = stage(store.table_uri("queries"), QUERIES, queries("a", 2), partition={"corpus": "a"})
    file = Path(store.table_uri("queries")) / staged.path
    file.unlink() if damage == "gone" else file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(ContractError, match="driver and executors need one shared store"):
        store.commit_files("queries", [staged], replaced=[{"corpus": "a"}])
    assert store.version("queries") == version
    assert store.read("queries")["query_key"].to_list() == [1]


class Overtaken(Store):
    """A store in which another writer commits between this one's look at the table and its commit."""

    def __init__(self, uri, other):
        super().__init__(uri)
        self.other, self.armed = other, False

    def _commit_once(self, table, files, replaced):
        self.armed = True
        return super()._commit_once(table, files, replaced)

    def _open(self, table, version, *, missing_ok):
        found = super()._open(table, version, missing_ok=missing_ok)
        if self.other and self.armed:
            other, self.other = self.other, None
            other()
        return found


@pytest.mark.parametrize("there", [None, "z", "a"], ids=["no table", "an empty partition", "a full partition"])
def test_of_two_writers_of_one_partition_the_later_commit_stands_alone(store, there):
    if there:
        store.replace("queries", queries(there, 1), where={"corpus": there})
    second = Overtaken(store.uri, lambda: store.replace("queries", queries("a", 1, 2), where={"corpus": "a"}))
    second.replace("queries", queries("a", 2, 3), where={"corpus": "a"})
    assert second.other is None
    assert sorted(store.read("queries", where={"corpus": "a"}).get_column("query_key")) == [2, 3]


@pytest.mark.parametrize("name", ["store", "a b [x] 100%", "env=prod", "event_day=2020-01-01"])
def test_a_scan_of_many_files_reads_what_each_of_them_holds(tmp_path, name):
    store = Store(str(tmp_path / name))
    for day in (date(2026, 1, 1), date(2026, 1, 2)):
        for corpus in ("a", "0.5-b"):
            frame = users(day, day.day, 9).with_columns(corpus=pl.lit(corpus))
            store.replace("daily_users", frame, where={"event_day": day, "corpus": corpus})
    files = store.files("daily_users")
    for columns in (None, ["user_hash", "event_day"], ["corpus", "query_key"], ["locale"]):
        found = scan_files(USERS, files, columns=columns).collect()
        assert found.equals(read_files(USERS, files, columns=columns).select(found.columns)), columns
    one = scan_files(USERS, files).filter(pl.col("event_day") == date(2026, 1, 2), pl.col("corpus") == "a").collect()
    assert sorted(one["user_hash"]) == [2, 9]
