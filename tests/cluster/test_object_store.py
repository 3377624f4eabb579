"""The store of a tiny night on an S3-compatible server: the tables of a folder, and credentials nowhere to be read."""

import json
import multiprocessing
import os
import re
import subprocess
import sys

import pytest
from deltalake import DeltaTable

from jobs.core.progress import Progress
from jobs.core.settings import load_settings
from jobs.core.spark import SparkProvider, read_delta, s3a_jars
from jobs.core.storage import Files, storage_options
from jobs.core.tables import Store
from jobs.housekeeping import Work, keep_house
from schemas.catalog import TABLES
from tests.cluster.conftest import BUCKET, ROOT, SECRET, Prepared, prepare
from tests.cluster.test_standalone import different, filled
from tests.e2e.test_tiny_night import RUN

pytestmark = pytest.mark.timeout(1500)


@pytest.fixture(scope="module")
def keys(object_store):
    """The server's address and credentials in this process too, as an operator's shell has them."""
    before = {name: os.environ.get(name) for name in object_store}
    os.environ.update(object_store)
    yield object_store
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture(scope="module")
def remote(tiny, cluster, package, keys, tmp_path_factory) -> Prepared:
    """A night by master URL whose store is in the bucket: executors write there, delta-rs commits there."""
    folder = tmp_path_factory.mktemp("remote")
    environment = {**keys, "HINDCAST_API_KEY": SECRET}
    prepared = prepare(tiny[0], folder, cluster, package, store=f"s3a://{BUCKET}/store", environment=environment)
    prepared.run_night()
    return prepared


def test_the_tables_are_those_of_a_folder(remote, night):
    store = remote.store()
    assert filled(store) == filled(night[1]) >= {"impressions", "evidence", "cards", "judgments"}
    assert different(store, night[1]) == []
    body = store.read_json("published.json")
    assert body["latest_night"] == RUN and store.exists(f"{body['runs'][RUN]['report']}/index.html")


def test_figures_are_those_of_a_folder(remote, night):
    there, here = (s.read_json(f"reports/{RUN}/report.json") for s in (remote.store(), night[1]))
    for part in ("logs", "human", "evidence", "leakage", "gates"):
        assert there[part] == here[part], part


def test_credentials_are_in_no_log_manifest_or_file(remote, cluster):
    """Planted: the object store's secret, the judge's key. Searched: every document, every log of every process."""
    store, found = remote.store(), []
    for path in walk(store, ""):
        content = store.documents.read_bytes(path)
        found += [path for secret in (SECRET, "planted-id") if secret.encode() in content]
    assert found == []
    logs = {"night.log": remote.log(), "cluster": cluster.texts(), "settings": remote.config.read_text()}
    assert [name for name, text in logs.items() if SECRET in text or "planted-id" in text] == []
    assert len(logs["cluster"]) > 1000, "there is something to search"
    manifest = store.read_json(f"runs/{RUN}/manifest.json")
    assert not re.search(r"(?i)secret_access|api_key|password", json.dumps(manifest))


def walk(store: Store, folder: str):
    """Every document of a store, the files of tables apart."""
    for name in store.documents.list(folder):
        path = f"{folder}/{name}".lstrip("/")
        if store.documents.size(path):
            yield path
        elif not path.startswith("tables/") or "_delta_log" in path or path.count("/") < 2:
            yield from walk(store, path)


def test_spark_and_delta_rs_open_every_table_over_s3a(remote, keys):
    """The steps themselves read and write through Arrow and delta-rs; this is for users' own Spark jobs."""
    if not s3a_jars():
        pytest.skip("the jars for s3a:// are not there (0.6 GiB): run make setup-s3a")
    settings = load_settings(remote.config, spark={"master": "local[1]", "package": ""})
    spark, store = SparkProvider(settings.spark, store_uri=settings.store_uri), remote.store()
    try:
        counts = {}
        for name in sorted(t for t in TABLES if store.version(t) is not None):
            uri = store.table_uri(name)
            rust = DeltaTable(uri.replace("s3a://", "s3://"), storage_options=storage_options(uri))
            counts[name] = (read_delta(spark, uri).count(), rust.count())
    finally:
        spark.stop()
    assert len(counts) >= 14
    assert {name: pair for name, pair in counts.items() if pair[0] != pair[1]} == {}


def add(root, turns):
    """Add to a number in the bucket that is read, then written."""
    files = Files(root)
    for _ in range(turns):
        with files.lock("n", brief=True):
            n = files.read_json("n.json") if files.exists("n.json") else 0
            files.write_json("n.json", n + 1)


def test_no_entry_is_lost_where_the_store_has_no_locks(keys):
    """Steps of one run may end together, and each adds itself to the run's manifest."""
    root, context = f"s3://{BUCKET}/locking", multiprocessing.get_context("spawn")
    workers = [context.Process(target=add, args=(root, 8)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert Files(root).read_json("n.json") == 24 and not Files(root).written("locks/n")


def test_a_store_in_a_bucket_is_looked_after_and_reproduced(remote, night):
    """Last of this file: joined files, vacuumed leftovers, and every figure of the report again."""
    store, settings = remote.store(), load_settings(remote.config)
    store.documents.write_bytes("tables/evidence/run=none/part-left.parquet", b"by a killed task")
    rules = settings.housekeeping.model_copy(update={"grace_hours": 0})
    done = keep_house(Work(store=store, settings=settings, rules=rules, dry_run=False, progress=Progress(None)))
    assert done["vacuum"]["evidence"]["files"] >= 1 and done["runs"]["runs"] == []
    assert not store.exists("tables/evidence/run=none/part-left.parquet")
    assert different(store, night[1]) == []
    command = [sys.executable, "-m", "jobs", "reproduce", RUN, "--config", str(remote.config), "--json"]
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stdout[-2000:] + again.stderr[-2000:]
    assert json.loads(again.stdout.splitlines()[-1])["identical"]
