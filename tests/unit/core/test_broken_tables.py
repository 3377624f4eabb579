"""A broken Delta log is never read as if nothing had happened: the table is named, and whole versions stay readable."""

from datetime import date
from pathlib import Path

import polars as pl
import pytest

from jobs.core.errors import HindcastError, NotThereError
from jobs.core.tables import Store
from schemas.catalog import table

QUERIES = table("queries")
COMMITS = 4


def queries(*keys):
    rows = [("a", "en", k, f"q{k}", date(2026, 1, 1)) for k in keys]
    return pl.DataFrame(rows, schema=QUERIES.polars(), orient="row")


@pytest.fixture
def store(tmp_path) -> Store:
    """A store whose table `queries` has versions 0 to 3, each with one row of its number."""
    store = Store(str(tmp_path / "store"))
    for n in range(COMMITS):
        store.replace("queries", queries(n), where={"corpus": "a"})
    return store


def commit(store: Store, version: int) -> Path:
    return Path(store.table_uri("queries")) / "_delta_log" / f"{version:020d}.json"


BREAKS = {
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "noise": lambda path: path.write_bytes(b"\x00\xff no json \n" * 20),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
}
USES = {
    "files": lambda store, version: store.files("queries", version=version),
    "read": lambda store, version: store.read("queries", version=version),
}


@pytest.mark.parametrize("use", sorted(USES))
@pytest.mark.parametrize("how", sorted(BREAKS))
@pytest.mark.parametrize("broken", range(COMMITS))
def test_a_version_behind_a_broken_commit_is_refused_by_name(store, broken, how, use):
    BREAKS[how](commit(store, broken))
    for version in range(broken, COMMITS):
        with pytest.raises(HindcastError, match="table queries "):
            USES[use](store, version)


@pytest.mark.parametrize("how", sorted(BREAKS))
@pytest.mark.parametrize("broken", range(1, COMMITS))
def test_versions_before_a_broken_commit_stay_readable(store, broken, how):
    BREAKS[how](commit(store, broken))
    for version in range(broken):
        assert store.read("queries", version=version)["query_key"].to_list() == [version]


@pytest.mark.parametrize("how", sorted(set(BREAKS) - {"gone"}))
def test_nothing_is_written_over_a_broken_log(store, how):
    BREAKS[how](commit(store, COMMITS - 1))
    with pytest.raises(NotThereError, match=r"table queries .* cannot be opened"):
        store.replace("queries", queries(9), where={"corpus": "a"})
    assert not commit(store, COMMITS).exists()
