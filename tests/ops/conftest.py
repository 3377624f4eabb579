"""The logs, undisturbed runs and the running scheduler that the tests of this folder share."""

import json
import os
import shutil
import sys
import threading
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jobs.core.tables import Store
from tests.e2e.conftest import hindcast, launch, night, tiny  # noqa: F401 - fixtures
from tests.e2e.test_tiny_night import rows
from tests.ops.scheduler import Airflow, airflow
from tests.unit.judging.batch_server import batch_endpoint

FULL = bool(os.environ.get("OPS_FULL"))
INPUTS = ("hindcast.toml", "logs", "items", "documents", "retrieval", "labels", "launch")
PAST = ["2026-11-17", "2026-11-18", "2026-11-19", "2026-11-20", "2026-11-21"][0 if FULL else 2 :]
"""Nights that are backfilled."""
BY_DAY = ("impressions", "daily_counts", "daily_users", "queries", "item_keys", "items")
BY_RUN = ("propensities", "evidence", "pages", "cards", "judgments")


def copied(source: Path, target: Path) -> Path:
    """A folder with the same log and settings and no store."""
    for name in INPUTS:
        there = source / name
        shutil.copytree(there, target / name) if there.is_dir() else shutil.copy(there, target / name)
    return target


def differences(found: Store, wanted: Store, *, tables=BY_DAY + BY_RUN, runs: list[str] | None = None) -> list[str]:
    """Tables whose rows differ, with how many; `runs` cuts those by run to these. Empty if all are equal."""
    told = []
    for table in tables:
        ours, theirs = rows(found, table), rows(wanted, table)
        if runs is not None and table in BY_RUN:
            ours, theirs = (frame.filter(frame["run"].is_in(runs)) for frame in (ours, theirs))
        if not ours.equals(theirs):
            told.append(f"{table}: {ours.height} rows, {theirs.height} in the undisturbed store")
    return told


@pytest.fixture
def tell(capsys):
    """Say something in the test's output, whether it passes or not."""

    def say(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{text}\n")

    return say


@pytest.fixture(scope="session")
def past_summary(tiny, tmp_path_factory) -> dict:  # noqa: F811 - the fixture
    """What `hindcast night` says of the past nights, run one after another; `store` is where."""
    folder = copied(tiny[0], tmp_path_factory.mktemp("past"))
    span = ("--from", PAST[0], "--to", PAST[-1])
    done = hindcast("night", "--config", folder / "hindcast.toml", *span, "--json", code=(0, 3))
    return done | {"store": Store(str(folder / "store"))}


@pytest.fixture(scope="session")
def past_nights(past_summary) -> Store:
    """The store of the past nights run in order."""
    return past_summary["store"]


@contextmanager
def listener():
    """(address, list of the JSON bodies that were posted to it)."""
    received: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            """Keep the test's output clean."""

        def do_POST(self):
            received.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/", received
    finally:
        server.shutdown()
        server.server_close()


class AtVersions:
    """The tables of a store as they are now, whatever is written later."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._versions = {table: store.version(table) for table in BY_DAY + BY_RUN}

    def read(self, table: str):
        """Rows of a table at its version."""
        return self._store.read(table, version=self._versions[table])


class Operated:
    """A running Airflow over a copy of the tiny log, with what it talks to."""

    def __init__(self, folder: Path, here: Airflow, notices: list[dict], provider, java: Path) -> None:
        self.folder, self.airflow, self.notices, self.provider, self.java = folder, here, notices, provider, java
        self.store = Store(str(folder / "store"))
        self.past: AtVersions | None = None

    def jvms(self) -> int:
        """JVMs started so far, those that only put a command together left out."""
        return self.java.read_text().count("\n") if self.java.exists() else 0


@pytest.fixture(scope="session")
def operated(tiny, tmp_path_factory):  # noqa: F811 - the fixture
    """Airflow on the same log, its nightly DAG switched on."""
    folder = copied(tiny[0], tmp_path_factory.mktemp("operated"))
    with ExitStack() as stack:
        address, notices = stack.enter_context(listener())
        url, provider = stack.enter_context(batch_endpoint())
        provider.auto_finish = False
        judged = {"HINDCAST_JUDGING__BATCH": "true", "HINDCAST_JUDGING__BASE_URL": url, "HINDCAST_API_KEY": "none"}
        told = {"HINDCAST_DAGS_WEBHOOK": address, "HINDCAST_DAGS_POLL_S": "1"}
        java, counted = counting_java(folder)
        here = stack.enter_context(airflow(folder / "hindcast.toml", **judged, **told, **java))
        for dag in ("nightly", "pre_launch"):
            here.ask("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False})
        yield Operated(folder, here, notices, provider, counted)


def counting_java(folder: Path) -> tuple[dict[str, str], Path]:
    """Environment in which every start of a JVM adds a line to a file, and the file."""
    real = Path(shutil.which("java") or "").resolve().parents[1]
    home, counted = folder / "java", folder / "jvms.log"
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text(
        f'#!/bin/sh\ncase " $* " in *launcher.Main*) ;; *) echo "$*" | cut -c1-200 >>"{counted}" ;; esac\n'
        f'exec "{real}/bin/java" "$@"\n'
    )
    script.chmod(0o755)
    return {"JAVA_HOME": str(home)}, counted
