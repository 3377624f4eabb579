"""The DAGs as Airflow sees them: imports, inventory, order, what is rendered, what is submitted, and time to parse.

Runs in Airflow's environment, which holds neither pyspark nor the jobs' packages.
"""

import ast
import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from dags import common
from schemas.flow import flow, qualified

ROOT = Path(__file__).resolve().parents[2]
DAGS = ROOT / "dags"
INVENTORY = {
    "nightly": {qualified(t) for t in flow("night")} | {"corpora"},
    "pre_launch": {qualified(t) for t in flow("forecast", "outcome")} | {"forecast_or_outcome"},
}


@pytest.fixture(scope="module")
def bag() -> DagBag:
    return DagBag(dag_folder=str(DAGS))


def test_every_file_imports(bag: DagBag) -> None:
    assert bag.import_errors == {}
    assert set(bag.dags) == set(INVENTORY)


@pytest.mark.parametrize("name", sorted(INVENTORY))
def test_tasks_are_those_of_the_flow(bag: DagBag, name: str) -> None:
    assert set(bag.dags[name].task_ids) == INVENTORY[name]


@pytest.mark.parametrize(("name", "uses"), [("nightly", ("night",)), ("pre_launch", ("forecast", "outcome"))])
def test_order_is_that_of_the_flow(bag: DagBag, name: str, uses: tuple) -> None:
    for task in flow(*uses):
        upstream = bag.dags[name].get_task(qualified(task)).upstream_task_ids
        assert set(task.after) <= upstream, f"{qualified(task)} runs after {task.after}"


@pytest.mark.parametrize("name", sorted(INVENTORY))
def test_docstring_is_the_page_in_the_ui(bag: DagBag, name: str) -> None:
    page = bag.dags[name].doc_md
    assert "When a task fails" in page
    assert len(page) > 500


@pytest.mark.parametrize("name", sorted(INVENTORY))
def test_publishing_is_the_one_last_step(bag: DagBag, name: str) -> None:
    assert [t.task_id for t in bag.dags[name].leaves] == ["publish.publish"]


@pytest.mark.parametrize("name", sorted(INVENTORY))
def test_verdicts_are_not_retried_and_the_rest_is(bag: DagBag, name: str) -> None:
    retries = {t.task_id: t.retries for t in bag.dags[name].tasks}
    verdicts = {"impressions.check", "cards.audit", "publish.publish"} & set(retries)
    assert {t for t, n in retries.items() if n == 0} == verdicts


def test_parameters_are_typed(bag: DagBag) -> None:
    for dag in bag.dags.values():
        for name in dag.params:
            assert dag.params.get_param(name).schema.get("type"), f"{dag.dag_id}.{name} has no type"


@pytest.mark.parametrize("bad", ["../up", "A", "", "a;rm -rf", "a" * 50])
def test_a_launch_id_that_could_be_a_path_is_refused(bag: DagBag, bad: str) -> None:
    with pytest.raises(Exception, match=r"match|pattern"):
        bag.dags["pre_launch"].params.get_param("launch_id").resolve(bad)


def _run(**values: object) -> SimpleNamespace:
    return SimpleNamespace(**{"run_type": "manual", "logical_date": None, "data_interval_start": None, **values})


DAY = datetime(2026, 11, 20, 4, tzinfo=UTC)
NIGHTS = [
    (_run(run_type="scheduled", data_interval_start=DAY), {}, "2026-11-20", "scheduled: its interval's day"),
    (_run(run_type="backfill", data_interval_start=DAY), {}, "2026-11-20", "backfilled: the same"),
    (_run(logical_date=DAY), {}, "2026-11-20", "a manual run means the date that it was given"),
    (_run(), {"day": "2026-11-19"}, "2026-11-19", "no logical date: the parameter"),
    (_run(run_type="scheduled", data_interval_start=DAY), {"day": "2026-11-19"}, "2026-11-19", "the parameter wins"),
]


@pytest.mark.parametrize(("run", "params", "day", "reason"), NIGHTS)
def test_night_of_a_run(bag: DagBag, run: SimpleNamespace, params: dict, day: str, reason: str) -> None:
    assert bag.dags["nightly"].user_defined_macros["night_of"](run, params) == day, reason


def test_a_run_without_any_day_says_what_to_do(bag: DagBag) -> None:
    with pytest.raises(ValueError, match="trigger nightly with the parameter day"):
        bag.dags["nightly"].user_defined_macros["night_of"](_run(), {"day": None})


def _rendered(dag, task_id: str, **context: object):
    task = dag.get_task(task_id)
    task.render_template_fields({"task": task, **(dag.user_defined_macros or {}), **context})
    return task


def test_a_light_task_renders_to_an_argument_list() -> None:
    dag = DagBag(dag_folder=str(DAGS)).dags["pre_launch"]
    params = {name: dag.params[name] for name in dag.params if name != "launch_id"}
    params |= {"launch_id": "new-ranker", "start": "2026-12-01", "pages_a": "a; rm -rf $HOME", "pages_b": "b.jsonl"}
    arguments = _rendered(dag, "launch.register", params=params).arguments
    assert arguments[:2] == ["launch", "register"]
    assert "--id=new-ranker" in arguments
    assert "--pages-a=a; rm -rf $HOME" in arguments, "one argument, whatever it holds: there is no shell"
    assert "--gap-days=-1" in arguments


@pytest.mark.parametrize(("run_type", "option"), [("backfill", "--backfill"), ("scheduled", ""), ("manual", "")])
def test_a_backfilled_night_is_planned_as_one(run_type: str, option: str) -> None:
    dag = DagBag(dag_folder=str(DAGS)).dags["nightly"]
    run = _run(run_type=run_type, logical_date=DAY, data_interval_start=DAY)
    assert _rendered(dag, "judging.plan", dag_run=run, params={}).arguments[-2:] == ["--day=2026-11-20", option]


def test_the_submitted_command() -> None:
    dag = DagBag(dag_folder=str(DAGS)).dags["nightly"]
    task = _rendered(dag, "evidence.build", dag_run=_run(logical_date=DAY), params={})
    arguments = task.application_args
    hook = SparkSubmitHook(conf={}, conn_id="none_such", jars=task.jars, name=task.name, application_args=arguments)
    hook._connection = {**hook._connection, "master": "local[2]", "deploy_mode": None}
    command = hook._build_spark_submit_command(task.application)
    assert command[0] == "spark-submit"
    assert command[command.index("--master") + 1] == "local[2]"
    assert command[command.index(str(ROOT / "jobs" / "__main__.py")) + 1:][:2] == ["evidence", "build"]
    assert command[-2:] == ["--day=2026-11-20", "--json"]


def test_spark_submit_is_that_of_the_jobs_environment(bag: DagBag) -> None:
    submitted = [t for dag in bag.dags.values() for t in dag.tasks if isinstance(t, SparkSubmitOperator)]
    assert len(submitted) == 9, "five JVMs in a night, four in a forecast"
    for task in submitted:
        assert task.env_vars["PATH"].split(os.pathsep)[0] == str(ROOT / ".venv" / "bin")
        assert task.env_vars["PYSPARK_PYTHON"] == str(ROOT / ".venv" / "bin" / "python")
        assert task.pool == "spark"


SHARD = {"index": 3, "set": "logs", "corpus": "tracks", "variant": "qri", "part": 0}
MAPPED = [
    ("judging.run", SHARD, "--shard=3", "logs tracks qri 0"),
    ("skills.discover", "tracks", "--corpus=tracks", "tracks"),
]


@pytest.mark.parametrize(("task_id", "given", "last", "shows"), MAPPED)
def test_mapped_tasks_have_readable_labels(bag: DagBag, task_id: str, given: object, last: str, shows: str) -> None:
    mapped = bag.dags["nightly"].get_task(task_id)
    (function,) = mapped.expand_input.value.callables
    one = function(given)
    assert one["arguments"][-1] == last
    assert one["shows"] == shows


def test_dag_files_import_names_only() -> None:
    for path in DAGS.glob("*.py"):
        tree = ast.parse(path.read_text())
        modules = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        modules |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        roots = {m.split(".")[0] for m in modules if m}
        assert not roots & {"pyspark", "jobs", "pandas", "polars", "torch"}, f"{path.name} imports {roots}"
        assert {m for m in modules if m.startswith("airflow")} <= {
            "airflow.sdk", "airflow.sdk.exceptions", "airflow.providers.apache.spark.operators.spark_submit"
        }
        assert len(path.read_text().splitlines()) <= 110, f"{path.name} is more than wiring"


@pytest.mark.parametrize("name", ["nightly", "pre_launch"])
def test_each_dag_parses_in_under_a_second(name: str) -> None:
    code = (
        "import time, airflow.sdk, airflow.providers.apache.spark.operators.spark_submit\n"
        f"begun = time.monotonic()\nimport dags.{name}\nprint(time.monotonic() - begun)"
    )
    best = min(float(_python(code)) for _ in range(2))
    assert best < 1.0


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_a_task_returns_the_last_json_line_and_judges_exit_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "hindcast"
    script.write_text('#!/bin/sh\n[ $# = 3 ] || exit 9\necho \'{"a": 1}\'\necho "$2"\nexit "$1"\n')
    script.chmod(0o755)
    monkeypatch.setattr(common, "BIN", tmp_path)
    done = common.JobsOperator(task_id="t", arguments=["0", "", "$(id)"], result="a").execute({})
    assert done == 1
    for code, error in (("1", AirflowException), ("2", AirflowFailException), ("3", AirflowFailException)):
        with pytest.raises(error, match=rf"exit code {code}: \$\(id\)") as caught:
            common.JobsOperator(task_id=f"t{code}", arguments=[code, "$(id)"]).execute({})
        assert isinstance(caught.value, AirflowFailException) == (code != "1"), "only 1 may be retried"


def test_killing_a_task_ends_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "hindcast"
    script.write_text("#!/bin/sh\nsleep 60\n")
    script.chmod(0o755)
    monkeypatch.setattr(common, "BIN", tmp_path)
    task = common.JobsOperator(task_id="long", arguments=[])
    threading.Timer(0.5, task.on_kill).start()
    begun = time.monotonic()
    with pytest.raises(Exception, match="exit code -15"):
        task.execute({})
    assert time.monotonic() - begun < 30
