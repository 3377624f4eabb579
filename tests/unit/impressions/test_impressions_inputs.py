"""Files behind a path, arrival days, and what is remembered of them."""

from datetime import date

import polars as pl
import pytest

from jobs.core.errors import InputError
from jobs.core.tables import Store
from jobs.impressions.inputs import Ledger, list_files


@pytest.fixture
def logs(tmp_path):
    for name in (
        "a/2026-11-20/p1.gz",
        "a/2026-11-20/_SUCCESS",
        "a/2026-11-21/p1.gz",
        "a/2026-11-21/deep/p2.gz",
        "b/x.csv",
        "a/notes.txt",
    ):
        path = tmp_path / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return tmp_path / "logs"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a/{day}/*.gz", ["a/2026-11-20/p1.gz", "a/2026-11-21/p1.gz"]),
        ("a/{day}/**/*.gz", ["a/2026-11-20/p1.gz", "a/2026-11-21/deep/p2.gz", "a/2026-11-21/p1.gz"]),
        ("b/x.csv", ["b/x.csv"]),
        ("b", ["b/x.csv"]),
        ("a/2026-11-2[0]/*", ["a/2026-11-20/p1.gz"]),
        ("a/2026-11-2?/p1.gz", ["a/2026-11-20/p1.gz", "a/2026-11-21/p1.gz"]),
    ],
)
def test_paths_folders_globs_and_days(logs, path, found):
    files = list_files(str(logs / path))
    assert [f.uri.removeprefix(f"{logs}/") for f in files] == found
    assert all((f.arrival_day is not None) == ("{day}" in path) for f in files)


@pytest.mark.parametrize("path", ["c/*.gz", "a/{day}/*.json", "missing.csv"])
def test_nothing_found_is_an_error_that_names_the_path(logs, path):
    with pytest.raises(InputError, match="check the path"):
        list_files(str(logs / path))


def test_a_folder_that_is_no_calendar_day_is_an_error(logs):
    (logs / "a" / "2026-13-40").mkdir()
    (logs / "a" / "2026-13-40" / "p.gz").write_text("x")
    with pytest.raises(InputError, match="2026-13-40 is no calendar day"):
        list_files(str(logs / "a/{day}/*.gz"))


BODY = {"documents": ["d1"], "first_arrival": "2026-11-20", "last_arrival": "2026-11-21", "run_id": "r"}


def test_a_file_is_new_until_it_is_remembered_and_again_when_it_changes(logs, tmp_path):
    store = Store(str(tmp_path / "store"))
    files = list_files(str(logs / "a/{day}/*.gz"))
    ledger = Ledger(store, "web")
    assert ledger.unread(files) == files
    ledger.add(files[:1], body=BODY, figures={})
    assert Ledger(store, "web").unread(files) == files[1:]
    (logs / "a/2026-11-20/p1.gz").write_text("longer")
    assert len(Ledger(store, "web").unread(list_files(str(logs / "a/{day}/*.gz")))) == 2


def test_documents_are_context_while_they_are_near_and_go_when_they_are_old(logs, tmp_path):
    store = Store(str(tmp_path / "store"))
    store.documents.write_bytes("d1", b"x")
    ledger = Ledger(store, "web")
    ledger.add(list_files(str(logs / "a/{day}/*.gz"))[:1], body=BODY, figures={})
    near = {"first": date(2026, 11, 21), "last": date(2026, 11, 30)}
    assert ledger.context(**near) == [store.documents.uri("d1")]
    assert ledger.context(first=date(2026, 11, 22), last=date(2026, 11, 30)) == []
    assert ledger.complete(first=date(2026, 11, 1))
    assert ledger.drop_before(date(2026, 11, 22)) == ["d1"]
    assert not store.exists("d1") and ledger.context(**near) == []
    assert not ledger.complete(first=date(2026, 11, 1)) and ledger.complete(first=date(2026, 11, 22))


def test_an_empty_arrival_day_is_remembered_and_nothing_is_deleted(bench):
    from tests.unit.impressions.test_impressions_ingestion import searches

    bench.write("2026-11-20", *searches("2026-11-20"))
    bench.ingest()
    before = bench.tables()
    Ledger(bench.store, "web").mark_empty("2026-11-21", run_id="r")
    assert Ledger(bench.store, "web").entries["2026-11-21.json"]["empty"]
    assert all(f.equals(before[n]) for n, f in bench.tables().items())


def test_a_user_set_keeps_the_smallest_hashes_of_each_arrival_day():
    from jobs.impressions.days import USERS_KEPT, daily_users

    n = USERS_KEPT + 200
    rows = pl.DataFrame(
        {
            "event_day": [date(2026, 11, 20)] * n * 2, "corpus": ["tracks"] * n * 2, "locale": ["en"] * n * 2,
            "query_key": [7] * n * 2, "salt_id": ["s"] * n * 2, "user_key": [*range(n), *range(n)],
            "arrived_at": [None] * n * 2, "excluded": [None] * n * 2,
        },
        schema_overrides={"arrived_at": pl.Datetime("us", "UTC"), "excluded": pl.String, "user_key": pl.Int64},
    ).with_columns(arrived_at=pl.datetime(2026, 11, 20, time_zone="UTC"))  # fmt: skip
    users = daily_users(rows)
    assert users["user_hash"].to_list() == list(range(USERS_KEPT))
    late = rows.head(5).with_columns(arrived_at=pl.datetime(2026, 11, 21, time_zone="UTC"))
    assert daily_users(pl.concat([rows, late])).height == USERS_KEPT + 5
    assert daily_users(rows.with_columns(excluded=pl.lit("bot_rate"))).height == 0
