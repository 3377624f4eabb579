"""What a session is started with: short local runs, clusters, object stores; and what executors are sent."""

import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from jobs.core import spark
from jobs.core.errors import MachineError
from jobs.core.python_daemon import quietly, without_archives
from jobs.core.settings import Spark, load_settings
from jobs.core.spark import SparkProvider, run_tasks, ship, shipped
from jobs.package import TASK_PACKAGES, closure, write_code


@pytest.fixture(autouse=True)
def _machine(monkeypatch):
    """A machine with jars, whose environment says nothing of Spark."""
    for name in ("HINDCAST_MASTER", "PYSPARK_GATEWAY_PORT", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(spark, "delta_jars", lambda: ["/jars/delta.jar"])
    monkeypatch.setattr(spark, "s3a_jars", lambda: ["/jars/hadoop-aws.jar"])


def conf(*, store="/data/store", **settings):
    return SparkProvider(Spark(**settings), store_uri=store)._conf()


def test_a_local_session_stays_on_loopback_with_flags_for_short_runs():
    found = conf()
    assert found["spark.driver.bindAddress"] == found["spark.driver.host"] == "127.0.0.1"
    assert "TieredStopAtLevel" in found["spark.driver.extraJavaOptions"] and "spark.local.dir" in found


def test_only_local_workers_start_without_sparks_archives(monkeypatch):
    assert find_spec(conf()["spark.python.daemon.module"]) is not None
    assert not [key for key in conf(master="spark://h:7077") if key.startswith("spark.python.")]
    monkeypatch.setenv("HINDCAST_SCRATCH", "/short")
    assert conf()["spark.python.unix.domain.socket.dir"] == "/short"
    monkeypatch.setenv("HINDCAST_SCRATCH", "/long" * 20)
    assert "spark.python.unix.domain.socket.dir" not in conf(), "no socket can have so long a path"
    path = ["/a/pyspark.zip", "/code", "/b/spark-core.jar", "/site-packages", "/c/py4j-src.zip"]
    assert without_archives(path) == ["/code", "/site-packages"]


def test_a_worker_whose_session_has_ended_says_nothing():
    def broken(sock, authenticated):
        raise BrokenPipeError

    assert quietly(broken)(None, True) == 1
    assert quietly(lambda sock, authenticated: 0)(None, True) == 0
    with pytest.raises(ZeroDivisionError):
        quietly(lambda sock, authenticated: 1 // 0)(None, True)


@pytest.mark.parametrize("sizes", [[1, 5, 3], [None, 2, None], []])
def test_the_largest_tasks_start_first_and_results_keep_the_order_of_the_specs(sizes):
    specs = [{"n": n} | ({} if size is None else {"size": size}) for n, size in enumerate(sizes)]
    context = MagicMock()
    context.parallelize.side_effect = lambda given, parts: SimpleNamespace(
        map=lambda function: SimpleNamespace(collect=lambda: [function(one) for one in given])
    )
    found = run_tasks(SimpleNamespace(session=SimpleNamespace(sparkContext=context)), lambda spec: spec["n"], specs)
    assert found == list(range(len(sizes)))
    if sizes:
        started = [one.get("size", 0) for one in context.parallelize.call_args.args[0]]
        assert started == sorted(started, reverse=True)


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:6443"])
def test_a_cluster_finds_the_driver_and_keeps_its_own_folders(master):
    found = conf(master=master)
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.local.dir"} & set(found)
    assert "TieredStopAtLevel" not in found["spark.driver.extraJavaOptions"]
    assert found["spark.executorEnv.TZ"] == "UTC", "tasks know no other zone either"


def test_what_spark_submit_has_decided_is_left_alone(monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not {"spark.jars", "spark.driver.memory", "spark.driver.extraJavaOptions"} & set(conf())


@pytest.mark.parametrize(("store", "there"), [("/data/store", False), ("s3://b/s", True), ("s3a://b/s", True)])
def test_the_jars_for_s3a_come_only_where_the_store_is_there(store, there):
    found = conf(store=store)
    assert ("hadoop-aws" in found["spark.jars"]) == there == ("spark.hadoop.fs.s3a.impl" in found)


def test_no_credential_is_handed_to_sparks_configuration(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HINDCAST_API_KEY"):
        monkeypatch.setenv(name, "planted")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    found = conf(store="s3a://b/s", master="spark://h:7077")
    assert "planted" not in str(found) and found["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9"


def test_the_users_own_settings_go_before_all(monkeypatch):
    assert conf(conf={"spark.local.dir": "/fast"})["spark.local.dir"] == "/fast"


def archives(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text("")
    return folder


ROOT = Path(__file__).resolve().parents[3]
ZIP, TAR = "hindcast-0.1.0.zip", "packages-cp311-linux-x86_64.tar.gz"


@pytest.mark.parametrize("names", [(), (ZIP,), (TAR,), (ZIP, TAR, "hindcast-0.2.0.zip")])
def test_a_folder_without_just_the_two_archives_is_refused(tmp_path, names):
    with pytest.raises(MachineError, match="run `hindcast package --out`"):
        shipped(archives(tmp_path / "dist", *names))


@pytest.mark.parametrize(
    ("code", "versions", "told"),
    [
        pytest.param("f" * 64, {}, "made from other code: run `hindcast package --out", id="an upgrade"),
        pytest.param(None, {"polars": "0.1"}, "other versions of polars: run", id="other packages"),
        pytest.param(None, {"no-such": "1"}, "other versions of no-such: run", id="a package that is not here"),
    ],
)
def test_archives_of_another_version_are_refused(tmp_path, monkeypatch, code, versions, told):
    """Executors that compute something else than the driver says give wrong tables in silence."""
    folder = archives(tmp_path / "dist", TAR)
    write_code(folder, root=ROOT, versions=versions)
    if code:
        monkeypatch.setattr("jobs.core.context.code_sha256", lambda: code)
    sent = []
    with pytest.raises(MachineError, match=told):
        ship(SimpleNamespace(addPyFile=sent.append), folder, python=None)
    assert sent == []


def test_an_archive_that_was_cut_off_is_refused(tmp_path):
    with pytest.raises(MachineError, match="made from other code"):
        ship(SimpleNamespace(), archives(tmp_path / "dist", ZIP, TAR), python=None)


@pytest.mark.parametrize("python", [None, "/opt/python/bin/python3.11"])
def test_executors_are_sent_both_and_told_where_to_look(tmp_path, python):
    sent, folder = [], archives(tmp_path / "dist", TAR)
    write_code(folder, root=ROOT, versions={"polars": metadata.version("polars")})
    context = SimpleNamespace(addPyFile=sent.append, addArchive=sent.append, environment={}, pythonExec="")
    ship(context, folder, python=python)
    assert sent == [str(folder / ZIP), f"{folder / TAR}#packages"]
    assert context.environment == {"PYTHONPATH": "packages"}
    assert context.pythonExec == (python or f"python{sys.version_info[0]}.{sys.version_info[1]}")


def test_the_folder_of_the_archives_is_relative_to_the_settings(tmp_path):
    (tmp_path / "hindcast.toml").write_text('[spark]\npackage = "dist"\n')
    assert load_settings(tmp_path / "hindcast.toml", environment={}).spark.package == str(tmp_path / "dist")
    assert load_settings(None, environment={}).spark.package == ""


def test_what_tasks_import_is_in_the_package(tmp_path):
    """Closure of the declared packages against what the modules of the tasks import, in a Python of its own."""

    modules = ("impressions.tasks", "impressions.restate", "propensity.fitting", "evidence.tasks", "cards.share",
               "pages.candidates", "pages.shown")  # fmt: skip
    code = (
        "import sys, sysconfig\n"
        f"import {', '.join('jobs.' + m for m in modules)}\n"
        "from importlib.metadata import packages_distributions\n"
        "site, owner = sysconfig.get_paths()['purelib'], packages_distributions()\n"
        "mine = [n for n, m in sys.modules.items() if (getattr(m, '__file__', None) or '').startswith(site)]\n"
        "tops = {n.split('.')[0] for n in mine}\n"
        "print(*sorted({d.lower().replace('_', '-') for t in tops for d in owner.get(t, [])}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split()) - {"hindcast", "setuptools"}
    assert imported and imported - set(closure(TASK_PACKAGES)) <= {"cloudpickle"}, "cloudpickle is pyspark's"
