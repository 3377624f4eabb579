"""
### Pre-launch: forecast an A/B test, and later its outcome

**Before the launch**: trigger with `launch_id`, `start` and each system's pages (`pages_a`, `pages_b`: files of
pages.jsonl) or rankers (`ranker_a`, `ranker_b`: taken from the log). Evidence ends `gap_days` before `start`, whatever
has arrived since; the forecast is frozen. **After it**: trigger again with the same `launch_id` and `outcomes` (a file
of outcomes.jsonl): the report then shows how often each judge agreed with the A/B test's sign.

A launch is a run of its own (`launch-ID`): it never touches a night's tables, nor another launch's.

**When a task fails.** Clear it. *launch.register* refuses evidence that would touch the launch, a second start for the
same id, and outcomes without a forecast: trigger again with other parameters. *publish* fails after publishing when a
report gate fell short.
"""

from airflow.sdk import DAG, Param, task

from dags.common import DEFAULTS
from dags.wiring import wire

TEXT = {"type": "string", "maxLength": 1000}
PARAMS = {
    "launch_id": Param("", type="string", pattern="^[a-z0-9][a-z0-9-]{0,40}$", description="Its name"),
    "start": Param(None, type=["null", "string"], format="date", description="First day of the launch (UTC)"),
    "pages_a": Param("", description="Pages of system a: path of pages.jsonl", **TEXT),
    "pages_b": Param("", description="Pages of system b", **TEXT),
    "ranker_a": Param("", description="Or: ranker whose logged pages stand for system a", **TEXT),
    "ranker_b": Param("", description="Or: ranker of system b", **TEXT),
    "evidence_days": Param(0, type="integer", minimum=0, description="Length of the evidence window; 0: as configured"),
    "gap_days": Param(-1, type="integer", minimum=-1, description="Days from evidence to launch; -1: as configured"),
    "outcomes": Param("", description="After the test: path of outcomes.jsonl", **TEXT),
}

with DAG(
    dag_id="pre_launch",
    schedule=None,
    max_active_runs=4,
    default_args=DEFAULTS,
    params=PARAMS,
    doc_md=__doc__,
    tags=["hindcast"],
) as dag:

    @task.branch
    def forecast_or_outcome(params: dict | None = None) -> str:
        """Which half of the flow this run is."""
        return "reports.outcome" if params["outcomes"] else "propensity.fit"

    tasks = wire("forecast", "outcome", which=["--launch={{ params.launch_id }}"])
    register = tasks["launch.register"]
    register.arguments = [
        *(a for a in register.arguments if not a.startswith("--launch=")),
        "--id={{ params.launch_id }}",
        "--start={{ params.start or '' }}",
        *(f"--{name.replace('_', '-')}={{{{ params.{name} }}}}" for name in list(PARAMS)[2:]),
    ]
    register >> forecast_or_outcome() >> [tasks["propensity.fit"], tasks["reports.outcome"]]
