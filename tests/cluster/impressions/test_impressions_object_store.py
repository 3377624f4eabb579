"""Logs and store in an object store (a server on loopback): the same tables as on a folder, late days included."""

import os
import socket
import subprocess
import time

import pytest
from pyarrow import fs

from tests.e2e.conftest import ROOT
from tests.unit.impressions.conftest import bench  # noqa: F401 - a fixture
from tests.unit.impressions.test_impressions_ingestion import DAYS, a_log

SERVER = ROOT / ".venv-object-store" / "bin" / "moto_server"
BUCKET = "logs-and-store"


@pytest.fixture
def bucket(monkeypatch):
    """An empty bucket on a server of this test; credentials in the environment, as users have them."""
    if not SERVER.exists():
        pytest.skip(f"{SERVER} is not there: run make setup-object-store")
    port = _free_port()
    command = [SERVER, "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    settings = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_DEFAULT_REGION": "us-east-1", **keys}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    try:
        _wait_for(port)
        system = fs.S3FileSystem(
            region="us-east-1", endpoint_override=f"127.0.0.1:{port}", scheme="http", allow_bucket_creation=True
        )
        system.create_dir(BUCKET)
        yield system
    finally:
        server.terminate()
        server.wait(timeout=10)


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def _wait_for(port: int) -> None:
    for _ in range(100):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("the object store does not answer")


def test_an_object_store_ends_at_the_same_tables_as_a_folder(bench, bucket, tmp_path):  # noqa: F811 - the fixture
    a_log(bench)
    for path in sorted((bench.folder / "logs").rglob("*.gz")):
        with bucket.open_output_stream(f"{BUCKET}/{path.relative_to(bench.folder)}", compression=None) as stream:
            stream.write(path.read_bytes())
    bench.ingest()
    remote = type(bench)(tmp_path)
    remote.store = type(bench.store)(f"s3://{BUCKET}/store")
    source = remote.source(path=f"s3://{BUCKET}/logs/{{day}}/*.gz")
    for day in DAYS:
        remote.ingest(source, days=(day,))
    local, there = bench.tables(), remote.tables()
    for name in ("impressions", "daily_counts", "daily_users", "queries", "item_keys"):
        assert local[name].equals(there[name]), name
    refused = [t["rejected_impressions"].select("line", "reason").sort("line", "reason") for t in (local, there)]
    assert refused[0].equals(refused[1])
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in str(remote.store.read_json("ingested/web/2026-11-20.json"))
