"""Nights that are killed, run twice at once, run out of disk or meet a broken table: afterwards the tables equal those
of an undisturbed night, row for row, or the failure is said in a sentence. A wrong table is never published.

OPS_KILLS kills (4; 30 with OPS_FULL) at moments that follow from OPS_SEED, which is printed.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from jobs.core.tables import Store
from tests.e2e.conftest import NIGHT, ROOT, hindcast
from tests.ops.conftest import BY_DAY, BY_RUN, FULL, copied, differences
from tests.ops.killing import PUBLISHED, Kill, Night, kills, struck

SEED = int(os.environ.get("OPS_SEED", "17"))
KILLS = int(os.environ.get("OPS_KILLS", "30" if FULL else "4"))
A_NIGHT = 2  # kills of one night before it may end
RUN = f"night-{NIGHT}"
ROUNDS = [kills(SEED + n, A_NIGHT) for n in range(-(-KILLS // A_NIGHT))]
pytestmark = pytest.mark.timeout(3600)


class Published:
    """The tables at the versions that consumers find in published.json."""

    def __init__(self, store: Store) -> None:
        self._store, self._versions = store, store.read_json("published.json")["runs"][RUN]["tables"]

    def read(self, table: str) -> pl.DataFrame:
        """Rows of the published version."""
        return self._store.read(table, version=self._versions[table])


@pytest.fixture
def room(tiny, tmp_path) -> Path:
    """A copy of the log; the settings' path."""
    return copied(tiny[0], tmp_path) / "hindcast.toml"


def store_of(config: Path) -> Store:
    """The store beside the settings."""
    return Store(str(config.parent / "store"))


def finished(config: Path) -> Store:
    """The store after a night that must succeed."""
    last = Night(config)
    assert last.ended() in PUBLISHED, "\n".join(last.said[-20:])
    return store_of(config)


def same(store: Store, wanted: Store) -> list[str]:
    """What a consumer would find different, in the tables and in the report's figures."""
    found = differences(Published(store), Published(wanted))
    ours, theirs = (s.read_json(f"reports/{RUN}/report.json") for s in (store, wanted))
    parts = ("logs", "human", "evidence", "leakage")
    return found + [f"report: {part}" for part in parts if ours[part] != theirs[part]]


@pytest.mark.parametrize("plan", ROUNDS, ids=lambda plan: "-".join(f"{k.step}+{k.delay_s:.1f}s:{k.part}" for k in plan))
def test_a_night_that_is_killed_and_run_again_equals_an_undisturbed_one(room, night, tell, plan: list[Kill]):
    for kill in plan:
        killed, struck_night = struck(room, kill)
        tell(f"seed {SEED}: {kill.step} + {kill.delay_s:.1f} s: {killed or 'had ended'} ({kill.part})")
        assert struck_night.orphans() == [], "what a kill leaves behind ends by itself"
        code = struck_night.process.returncode
        if killed in ("jvm", "worker"):
            assert code in PUBLISHED or struck_night.clear(), "\n".join(struck_night.said[-20:])
        assert killed or code in PUBLISHED, "\n".join(struck_night.said[-20:])
    assert same(finished(room), night[1]) == []


def test_two_runs_of_one_night_at_once_give_its_rows_once(room, night):
    both = [Night(room), Night(room)]
    for one in both:
        assert one.ended() in PUBLISHED or one.clear(), "\n".join(one.said[-20:])
    if not any(one.process.returncode in PUBLISHED for one in both):
        finished(room)
    assert same(store_of(room), night[1]) == []


DISK = """
mount -t tmpfs -o size={small} none store || exit 99
{night} 2>first.err >/dev/null; echo $? >first.code
ls store >first.ls
mount -o remount,size=1g store && {night} 2>second.err >/dev/null; echo $? >second.code
cp -r store after
"""


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.9, 0.97] if FULL else [0.6])
def test_a_full_disk_is_said_and_what_was_published_stays(room, night, share):
    used = sum(f.stat().st_size for f in Path(night[1].uri).rglob("*") if f.is_file())
    command = f"{sys.executable} -m jobs night --config {room} --day {NIGHT} --json"
    script = DISK.format(small=int(used * share), night=command)
    (room.parent / "store").mkdir()
    wrapped = ["unshare", "--map-root-user", "--mount", "sh", "-c", script]
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(wrapped, cwd=room.parent, env=variables, capture_output=True, text=True, check=False)
    if not (room.parent / "first.code").exists():
        pytest.skip(f"no file system of a chosen size can be mounted here: {done.stderr.strip()}")
    said = (room.parent / "first.err").read_text().splitlines()
    assert (room.parent / "first.code").read_text().strip() == "1", said[-5:]
    assert said[-1].startswith("hindcast: ") and "disk" in said[-1].lower(), said[-5:]
    assert "published.json" not in (room.parent / "first.ls").read_text()
    assert int((room.parent / "second.code").read_text()) in PUBLISHED, (room.parent / "second.err").read_text()[-2000:]
    assert same(Store(str(room.parent / "after")), night[1]) == []


# --- broken tables ---


@pytest.fixture
def again(night, tmp_path) -> Path:
    """A copy of the finished night, which a test may break; the settings' path."""
    shutil.copytree(night[0], tmp_path / "again")
    return tmp_path / "again" / "hindcast.toml"


def newest_log(store: Store, table: str) -> Path:
    """The file of the newest commit."""
    return sorted(Path(store.table_uri(table)).glob("_delta_log/*.json"))[-1]


BREAKS = {
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "noise": lambda path: path.write_bytes(b"\x00\xff no json \n" * 20),
    "empty": lambda path: path.write_bytes(b""),
}
COMMANDS = [("judging", "plan", "pages"), ("reports", "build", "cards"), ("reports", "build", "judgments"),
            ("cards", "audit", "cards"), ("judging", "commit", "judgments")]  # fmt: skip


@pytest.mark.parametrize("how", sorted(BREAKS))
@pytest.mark.parametrize(("step", "verb", "table"), COMMANDS)
def test_a_broken_table_is_named_and_nothing_is_published(again, step, verb, table, how):
    store = store_of(again)
    before = store.documents.read_bytes("published.json")
    BREAKS[how](newest_log(store, table))
    done = hindcast(step, verb, "--config", again, "--day", NIGHT, code=(1,))
    last = done.stderr.splitlines()[-1]
    assert last.startswith("hindcast: ") and f"table {table} " in last, done.stderr[-2000:]
    assert store.documents.read_bytes("published.json") == before


# --- the comparison itself ---


class Planted:
    """A store with a difference in one table."""

    def __init__(self, store: Store, table: str, change) -> None:
        self._store, self._table, self._change = store, table, change

    def read(self, table: str) -> pl.DataFrame:
        """Rows of a table, those of the one table changed."""
        found = self._store.read(table)
        return self._change(found) if table == self._table else found


def other(column: str, value: object):
    """A change of one value of one row."""
    here = pl.int_range(pl.len()) == pl.len() // 2
    return lambda rows: rows.with_columns(pl.when(here).then(pl.lit(value)).otherwise(pl.col(column)).alias(column))


PLANTED = {
    "a row less": lambda rows: rows.slice(1),
    "a row twice": lambda rows: pl.concat([rows, rows.tail(1)]),
    "a row in place of another": lambda rows: pl.concat([rows.slice(1), rows.tail(1)]),
    "no row": lambda rows: rows.clear(),
}


@pytest.mark.parametrize("how", sorted(PLANTED))
@pytest.mark.parametrize("table", BY_DAY + BY_RUN)
def test_the_comparison_sees_a_planted_difference(night, table, how):
    assert differences(night[1], night[1], tables=(table,)) == []
    found = differences(Planted(night[1], table, PLANTED[how]), night[1], tables=(table,))
    assert [told.split(":")[0] for told in found] == [table]


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [("judgments", "rationale", "another"), ("evidence", "clicks", 10**6), ("pages", "query", "another"),
     ("cards", "similarity", 0.5)],
)  # fmt: skip
def test_the_comparison_sees_one_value(night, table, column, value):
    found = differences(Planted(night[1], table, other(column, value)), night[1], tables=(table,))
    assert [told.split(":")[0] for told in found] == [table]
