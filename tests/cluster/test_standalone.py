"""A tiny night by master URL: the same tables as `local[*]`, row for row, whether or not a worker dies meanwhile."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import polars as pl
import psutil
import pytest

from schemas.catalog import TABLES
from tests.cluster.conftest import ROOT, Prepared, kill_tree, prepare, until
from tests.e2e.test_tiny_night import RUN, rows

pytestmark = pytest.mark.timeout(1500)


def different(left, right) -> list[str]:
    """Tables whose rows are not the same in two stores."""
    return [name for name in TABLES if not _rows(left, name).equals(_rows(right, name))]


def _rows(store, name):
    """Rows of a table; paths of refused rows without the folder in which a test has put its copy of the log."""
    found = rows(store, name)
    if "path" not in found.columns:
        return found
    inside = found.with_columns(pl.col("path").str.extract("/(logs/.+)$"))
    assert inside["path"].null_count() == 0
    return inside.sort(inside.columns)


def filled(store) -> set[str]:
    """Tables that hold rows."""
    return {name for name in TABLES if rows(store, name).height}


@pytest.fixture(scope="module")
def on_cluster(tiny, cluster, package, tmp_path_factory) -> Prepared:
    return prepare(tiny[0], tmp_path_factory.mktemp("by-master"), cluster, package)


def test_executors_import_from_the_archives_and_have_nothing_else(on_cluster, cluster, bare_path):
    python = Path(bare_path.split(os.pathsep)[0]) / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for name in ("jobs", "polars"):
        bare = subprocess.run([python, "-c", f"import {name}"], cwd=cluster.folder, env={"PATH": bare_path},
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert "ModuleNotFoundError" in bare.stderr, "the workers' Python must not have it"
    command = [sys.executable, str(ROOT / "tests" / "cluster" / "where.py"), str(on_cluster.config)]
    done = subprocess.run(command, cwd=on_cluster.folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    work = [str(cluster.folder / name / "work") for name in cluster.workers]
    assert {next(w for w in work if one["cwd"].startswith(w)) for one in found} == set(work), "both workers took part"
    for one in found:
        for name, place in (("jobs", "hindcast-"), ("schemas", "hindcast-"), ("polars", "packages/")):
            assert os.path.normpath(os.path.join(one["cwd"], one[name])).startswith(f"{one['cwd']}/{place}")
        assert not [p for p in one["path"] if Path(p) == ROOT or (".venv/lib" in p and "pyspark" not in p)]
        assert one["zone"] == "UTC"


def test_the_tables_are_those_of_local(on_cluster, night, cluster):
    log = on_cluster.run_night()
    assert filled(on_cluster.store()) == filled(night[1]) >= {"impressions", "evidence", "cards", "judgments"}
    assert different(on_cluster.store(), night[1]) == []
    assert [a["state"] for a in cluster.state()["completedapps"]].count("FINISHED") >= 2, log[-2000:]
    settings = [s.read_json(f"runs/{RUN}/manifest.json")["config_sha256"] for s in (on_cluster.store(), night[1])]
    assert settings[0] == settings[1], "where Spark runs changes no figure, so it is no part of a run's settings"


def test_the_comparison_sees_one_changed_row(night, on_cluster, tmp_path):
    """What the tests above and below stand on: a difference that is planted is found, and only there."""
    import shutil

    from jobs.core.tables import Store

    shutil.copytree(night[1].uri, tmp_path / "store")
    planted = Store(str(tmp_path / "store"))
    part = planted.read("propensities", where={"run": RUN, "corpus": "tracks"})
    changed = part.with_columns(pairs=part["pairs"] + (part["rank"] == 3).cast(part["pairs"].dtype))
    planted.replace("propensities", changed, where={"run": RUN, "corpus": "tracks"})
    assert different(planted, night[1]) == ["propensities"]


def test_a_worker_lost_in_mid_job_changes_no_row(tiny, night, cluster, package, tmp_path_factory):
    """Last of this file: the cluster has one worker afterwards."""
    prepared = prepare(tiny[0], tmp_path_factory.mktemp("worker-lost"), cluster, package)
    running = prepared.start_night()
    victim = cluster.workers["one"]
    until(lambda: running.poll() is not None or _works(victim), "a task runs on the first worker", seconds=400)
    assert running.poll() is None, prepared.log()[-3000:]
    kill_tree(victim)
    code = running.wait(timeout=900)
    assert code in (0, 3), prepared.log()[-4000:]
    assert "Lost executor" in prepared.log(), "the driver noticed"
    assert cluster.alive() <= 1
    assert different(prepared.store(), night[1]) == []


def _works(worker) -> bool:
    """True while an executor of the worker has a Python process for a task (a child of pyspark.daemon)."""
    return any(_is_busy_daemon(process) for process in worker.children(recursive=True))


def _is_busy_daemon(process) -> bool:
    with suppress(psutil.Error):  # one that ends while it is looked at is not busy
        return "pyspark.daemon" in " ".join(process.cmdline()) and bool(process.children())
    return False
