"""The DAGs as Airflow sees them: imports, inventory, order, what is rendered, what is submitted, and time to parse.

Runs in Airflow's environment, which holds neither pyspark nor the jobs' packages.
"""

import ast
import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import airflow_here
import pendulum
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    ParamValidationError,
    TaskDeferred,
)
from airflow.serialization.serialized_objects import DagSerialization

from dags import common, notices, operators
from schemas.flow import flow, qualified

ROOT = Path(__file__).resolve().parents[2]
DAGS = ROOT / "dags"
INVENTORY = {
    "nightly": {qualified(t) for t in flow("night")} | {"corpora", "due"},
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
    verdicts = {"launch.register", "impressions.check", "cards.audit", "publish.publish"} & set(retries)
    assert {t for t, n in retries.items() if n == 0} == verdicts


def test_parameters_are_typed(bag: DagBag) -> None:
    for dag in bag.dags.values():
        for name in dag.params:
            assert dag.params.get_param(name).schema.get("type"), f"{dag.dag_id}.{name} has no type"


@pytest.mark.parametrize("bad", ["../up", "A", "", "a;rm -rf", "a" * 50])
def test_a_launch_id_that_could_be_a_path_is_refused(bag: DagBag, bad: str) -> None:
    with pytest.raises(Exception, match=r"match|pattern"):
        bag.dags["pre_launch"].params.get_param("launch_id").resolve(bad)


def _run(*, run_type: str = "manual", **values: object) -> SimpleNamespace:
    """A run as a task sees it."""
    kind = DagRunType(run_type)
    return SimpleNamespace(**{"run_type": kind, "logical_date": None, "data_interval_start": None, **values})


DAY = datetime(2026, 11, 20, 4, tzinfo=UTC)


def _events(*extras: dict) -> dict:
    return {"asset": [SimpleNamespace(extra=extra) for extra in extras]}


ASSET = _run(run_type="asset_triggered")
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


@pytest.mark.parametrize(
    ("events", "day"),
    [
        (_events({"day": "2026-11-20"}), "2026-11-20"),
        (_events({"day": "2026-11-20"}, {"day": "2026-11-19"}), "2026-11-20"),
    ],
)
def test_night_of_an_arrived_log(bag: DagBag, events: dict, day: str) -> None:
    assert bag.dags["nightly"].user_defined_macros["night_of"](ASSET, {"day": None}, events) == day


@pytest.mark.parametrize("extra", [{}, {"day": "yesterday"}, {"day": "../2026"}, {"day": None}, None])
def test_an_arrival_that_names_no_day_is_refused(bag: DagBag, extra: object) -> None:
    with pytest.raises(ValueError, match=r'needs \{"day": "YYYY-MM-DD"\}'):
        bag.dags["nightly"].user_defined_macros["night_of"](ASSET, {"day": None}, _events(extra))


def test_the_schedule_is_the_log_or_four_in_the_morning_and_can_be_backfilled(bag: DagBag) -> None:
    table = DagSerialization.from_dict(DagSerialization.to_dict(bag.dags["nightly"])).timetable
    assert table.periodic and table.can_be_scheduled
    assert [a.name for _, a in table.asset_condition.iter_assets()] == ["hindcast_log"]
    interval = table.infer_manual_data_interval(run_after=pendulum.datetime(2026, 11, 21, 5))
    assert (interval.start, interval.end) == (pendulum.datetime(2026, 11, 20, 4), pendulum.datetime(2026, 11, 21, 4))


@pytest.mark.parametrize(
    ("run_type", "again"),
    [(kind, "" if kind in ("scheduled", "asset_triggered") else "--again") for kind in DagRunType],
)
def test_only_what_nobody_asked_for_is_skipped_when_it_is_done(run_type: str, again: str) -> None:
    dag = DagBag(dag_folder=str(DAGS)).dags["nightly"]
    run = _run(run_type=run_type, logical_date=DAY, data_interval_start=DAY)
    due = _rendered(dag, "due", dag_run=run, params={}, triggering_asset_events=_events({"day": "2026-11-20"}))
    assert due.arguments[-2:] == ["--due=2026-11-20", again]
    assert due.skips_unless == "due"
    roots = {t.task_id for t in dag.roots}
    assert roots == {"due"}, "nothing begins before it"


@pytest.mark.parametrize("name", sorted(INVENTORY))
def test_every_task_has_a_limit_of_time_and_waits_for_nothing_longer(bag: DagBag, name: str) -> None:
    limits = {t.task_id: t.execution_timeout for t in bag.dags[name].tasks}
    assert [t for t, limit in limits.items() if limit is None] == []
    assert limits["judging.run"] > limits["evidence.build"] > limits["publish.publish"]


@pytest.mark.parametrize("name", sorted(INVENTORY))
def test_pools_are_those_that_the_set_up_makes(bag: DagBag, name: str) -> None:
    made = {pool for pool, _, _ in airflow_here.POOLS}
    used = {t.pool for t in bag.dags[name].tasks}
    assert used == made | {"default_pool"}
    pools = {t.task_id: t.pool for t in bag.dags[name].tasks}
    assert pools["judging.run"] == "endpoint" and pools["evidence.build"] == "spark"


def test_a_run_without_any_day_says_what_to_do(bag: DagBag) -> None:
    with pytest.raises(ValueError, match="trigger nightly with the parameter day"):
        bag.dags["nightly"].user_defined_macros["night_of"](_run(), {"day": None})


def _rendered(dag, task_id: str, **context: object):
    task = dag.get_task(task_id)
    task.render_template_fields({"task": task, **(dag.user_defined_macros or {}), **context})
    return task


def _register(dag, params: dict) -> list[str]:
    fresh = DagBag(dag_folder=str(DAGS)).dags[dag.dag_id]
    return _rendered(fresh, "launch.register", params=params).arguments


def test_a_light_task_renders_to_an_argument_list() -> None:
    dag = DagBag(dag_folder=str(DAGS)).dags["pre_launch"]
    params = {name: dag.params[name] for name in dag.params if name != "launch_id"}
    params |= {"launch_id": "new-ranker", "start": "2026-12-01", "pages_a": "a; rm -rf $HOME", "pages_b": "b.jsonl"}
    params |= {"corpora": ["talks", "tracks"], "budget_usd": 2.5, "judge": "openai"}
    arguments = _rendered(dag, "launch.register", params=params).arguments
    assert arguments[:2] == ["launch", "register"]
    assert "--id=new-ranker" in arguments
    assert "--pages-a=a; rm -rf $HOME" in arguments, "one argument, whatever it holds: there is no shell"
    assert {"--gap-days=-1", "--corpora=talks,tracks", "--variants="} <= set(arguments)
    assert {"--budget-usd=2.5", "--judge=openai"} <= set(arguments)
    assert "--budget-usd=" in _register(dag, params | {"budget_usd": None}), "as configured"
    assert "--budget-usd=0" in _register(dag, params | {"budget_usd": 0}), "nothing may be spent"
    options = {a.split("=")[0] for a in arguments[2:]}
    assert options >= {f"--{name.replace('_', '-')}" for name in dag.params if name != "launch_id"}, "none is lost"


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("corpora", ["../x"]),
        ("corpora", "tracks"),
        ("variants", ["best"]),
        ("judge", "human"),
        ("budget_usd", "much"),
        ("budget_usd", -2),
        ("budget_usd", "none"),
        ("gap_days", -2),
        ("evidence_days", 1.5),
        ("start", "soon"),
        ("pages_window", "2026-11-01"),
    ],
)
def test_parameters_of_the_wrong_type_are_refused(bag: DagBag, name: str, bad: object) -> None:
    with pytest.raises(ParamValidationError):
        bag.dags["pre_launch"].params.get_param(name).resolve(bad)


@pytest.mark.parametrize(("run_type", "option"), [("backfill", "--backfill"), ("scheduled", ""), ("manual", "")])
def test_a_backfilled_night_is_planned_as_one(run_type: str, option: str) -> None:
    dag = DagBag(dag_folder=str(DAGS)).dags["nightly"]
    run = _run(run_type=run_type, logical_date=DAY, data_interval_start=DAY)
    plan = _rendered(dag, "judging.plan", dag_run=run, params={}, triggering_asset_events={})
    assert plan.arguments[-2:] == ["--day=2026-11-20", option]


def test_the_submitted_command() -> None:
    dag = DagBag(dag_folder=str(DAGS)).dags["nightly"]
    task = _rendered(dag, "evidence.build", dag_run=_run(logical_date=DAY), params={}, triggering_asset_events={})
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


SHARD = {"batch": True, "index": 3, "set": "logs", "corpus": "tracks", "variant": "qri", "part": 0}
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
            "airflow.sdk", "airflow.sdk.exceptions", "airflow.providers.apache.spark.operators.spark_submit",
            "airflow.providers.smtp.notifications.smtp",
        }
        assert len(path.read_text().splitlines()) <= 110, f"{path.name} is more than wiring"


PARSED = """
import sys, time, airflow.sdk, airflow.providers.apache.spark.operators.spark_submit
before, begun = set(sys.modules), time.process_time()
import dags.{name}
print(time.process_time() - begun, len(set(sys.modules) - before), *sorted({{m.split(".")[0] for m in sys.modules}}))
"""


@pytest.mark.parametrize("name", ["nightly", "pre_launch"])
def test_each_dag_parses_in_under_a_second_and_imports_little(name: str) -> None:
    """Beyond what every DAG of this Airflow imports; seconds of CPU, since a busy machine proves nothing."""
    found = [_python(PARSED.format(name=name)).split() for _ in range(2)]
    assert min(float(seconds) for seconds, *_ in found) < 1.0
    _, modules, *roots = found[0]
    assert int(modules) < 100, "the DAG files, schemas/ and parts of airflow.sdk; a data library has hundreds"
    assert not {"pyspark", "pandas", "polars", "torch", "jobs"} & set(roots)


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_a_task_returns_the_last_json_line_and_judges_exit_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "hindcast"
    script.write_text('#!/bin/sh\n[ $# = 3 ] || exit 9\necho \'{"a": 1}\'\necho "$2"\nexit "$1"\n')
    script.chmod(0o755)
    monkeypatch.setattr(operators, "BIN", tmp_path)
    done = operators.JobsOperator(task_id="t", arguments=["0", "", "$(id)"], result="a").execute({})
    assert done == 1
    for code, error in (("1", AirflowException), ("2", AirflowFailException), ("3", AirflowFailException)):
        with pytest.raises(error, match=rf"exit code {code}: \$\(id\)") as caught:
            operators.JobsOperator(task_id=f"t{code}", arguments=[code, "$(id)"]).execute({})
        assert isinstance(caught.value, AirflowFailException) == (code != "1"), "only 1 may be retried"


def _hindcast(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    script = folder / "hindcast"
    script.write_text(f"#!/bin/sh\n{body}")
    script.chmod(0o755)
    monkeypatch.setattr(operators, "BIN", folder)


def test_a_task_that_is_not_due_is_skipped_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _hindcast(tmp_path, monkeypatch, """echo '{"due": '$1', "why": "it is done"}'""")
    with pytest.raises(AirflowSkipException, match="it is done"):
        operators.JobsOperator(task_id="due", arguments=["false"], skips_unless="due").execute({})
    assert operators.JobsOperator(task_id="due2", arguments=["true"], skips_unless="due").execute({})["due"] is True


def test_a_batch_is_handed_over_waited_for_and_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _hindcast(tmp_path, monkeypatch, f"""echo "$@" >>{tmp_path}/calls; echo '{{"shard": 3}}'""")
    task = operators.ShardOperator(task_id="run", arguments=["judging", "run", "--shard=3"], batch=True)
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({})
    trigger = deferred.value.trigger
    assert trigger.command[1:3] == ["judging", "batch-status"] and trigger.command[-1] == "--json"
    assert deferred.value.timeout >= timedelta(hours=24), "providers take up to a day"
    assert getattr(task, deferred.value.method_name)({}, {"done": True}) == {"shard": 3}
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == ["judging run --shard=3 --submit-only --json", "judging run --shard=3 --json"]
    with pytest.raises(AirflowException, match="no such store"):
        task.collect({}, {"done": False, "error": "no such store"})


def test_without_batches_a_shard_is_judged_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _hindcast(tmp_path, monkeypatch, f"""echo "$@" >>{tmp_path}/calls; echo '{{"shard": 3}}'""")
    task = operators.ShardOperator(task_id="run", arguments=["judging", "run", "--shard=3"], batch=False)
    assert task.execute({}) == {"shard": 3}
    assert (tmp_path / "calls").read_text() == "judging run --shard=3 --json\n"


@pytest.mark.parametrize(("code", "retried"), [(1, True), (2, False), (3, False), (-9, True), (143, True)])
def test_a_submitted_step_is_retried_only_where_that_can_help(
    monkeypatch: pytest.MonkeyPatch, code: int, retried: bool
) -> None:
    def fails(self: object, context: object) -> None:
        self._hook = SimpleNamespace(_submit_sp=SimpleNamespace(returncode=code))
        raise AirflowException(f"Error code is: {code}")

    monkeypatch.setattr(SparkSubmitOperator, "execute", fails)
    with pytest.raises(AirflowException) as caught:
        common.SparkStep(task_id="t", application="x").execute({})
    assert isinstance(caught.value, AirflowFailException) is not retried


def test_nobody_is_told_unless_the_environment_says_so(bag: DagBag, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [dag.on_failure_callback for dag in bag.dags.values()] == [[], []]
    monkeypatch.setenv("HINDCAST_DAGS_WEBHOOK", "http://127.0.0.1:9/x")
    monkeypatch.setenv("HINDCAST_DAGS_EMAIL", "a@example.org, b@example.org")
    web, mail = notices.notices()
    assert web.address == "http://127.0.0.1:9/x"
    assert mail.to == ["a@example.org", "b@example.org"]


def test_a_notice_names_the_run_the_reason_and_the_task() -> None:
    context = {"dag": SimpleNamespace(dag_id="nightly"), "run_id": "r1", "reason": "task_failure",
               "ti": SimpleNamespace(task_id="cards.audit")}  # fmt: skip
    assert notices.text_of(context).startswith("Hindcast: nightly r1 failed (task_failure), last task cards.audit.")
    del context["ti"]
    assert "last task" not in notices.text_of(context)


def test_killing_a_task_ends_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _hindcast(tmp_path, monkeypatch, "sleep 60\n")
    task = operators.JobsOperator(task_id="long", arguments=[])
    threading.Timer(0.5, task.on_kill).start()
    begun = time.monotonic()
    with pytest.raises(Exception, match="exit code -15"):
        task.execute({})
    assert time.monotonic() - begun < 30
