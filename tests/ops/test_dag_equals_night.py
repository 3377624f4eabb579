"""The DAG and `hindcast night` are two ways to run one flow: the same log gives the same tables, row for row."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.core.tables import Store
from tests.e2e.conftest import NIGHT, ROOT, night, tiny  # noqa: F401 - fixtures
from tests.e2e.test_tiny_night import rows

INPUTS = ("hindcast.toml", "logs", "items", "documents", "retrieval", "labels")
ENDED = re.compile(r"\[DAG TEST\] end task task_id=(\S+)")
LIMIT_S = 1500  # a night of this size takes one minute on an idle machine
pytestmark = pytest.mark.timeout(2 * LIMIT_S)
TABLES = ("impressions", "daily_counts", "daily_users", "queries", "propensities", "evidence", "pages", "cards",
          "judgments")  # fmt: skip


@pytest.fixture(scope="module")
def dag_run(tiny, tmp_path_factory) -> tuple[Store, str]:  # noqa: F811 - the fixture
    """The store of a nightly DAG run over a copy of the same log, and Airflow's output."""
    folder = tmp_path_factory.mktemp("dag")
    for name in INPUTS:
        source = tiny[0] / name
        shutil.copytree(source, folder / name) if source.is_dir() else shutil.copy(source, folder / name)
    command = [sys.executable, str(ROOT / "setup" / "airflow_here.py"), str(folder / "hindcast.toml"), "dags", "test",
               "nightly", NIGHT, "-c", json.dumps({"day": NIGHT})]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    Path(folder / "airflow.log").write_text(done.stdout + done.stderr)
    return Store(str(folder / "store")), done.stdout + done.stderr


def test_every_task_ran_once(dag_run) -> None:
    ended = ENDED.findall(dag_run[1])
    unmapped = [task for task in ended if task not in ("judging.run", "skills.discover")]
    assert len(unmapped) == len(set(unmapped)), "nothing was retried"
    assert "publish.publish" in ended
    assert dag_run[0].read_json("published.json")["latest_night"] == f"night-{NIGHT}"


@pytest.mark.parametrize("table", TABLES)
def test_tables_equal_those_of_the_command(dag_run, night, table: str) -> None:  # noqa: F811 - the fixture
    by_dag, by_command = rows(dag_run[0], table), rows(night[1], table)
    assert by_dag.height > 0
    assert by_dag.equals(by_command)
