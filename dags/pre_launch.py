"""
### Pre-launch: forecast an A/B test, and later its outcome

**Before the launch**: trigger with `launch_id`, `start` and each system's pages (`pages_a`, `pages_b`: paths or s3://
addresses of pages.jsonl) or rankers (`ranker_a`, `ranker_b`: taken from the log, of the days `pages_window`). Evidence
ends `gap_days` before `start`, whatever has arrived since; the forecast is frozen. `corpora`, `evidence_days`,
`variants`, `judge`, `model` and `budget_usd` replace the settings for this launch alone. **After it**: trigger again
with the same `launch_id` and `outcomes` (outcomes.jsonl): the report then shows how often each judge agreed with the
A/B test's sign, and the launch joins the track record.

A launch is a run of its own (`launch-ID`): it never touches a night's tables, nor another launch's.

**When a task fails.** Clear it. *launch.register* refuses evidence that would touch the launch, a second start for the
same id, and outcomes without a forecast: trigger again with other parameters. *judging.run* resumes where it stopped
and pays for nothing twice. *publish* fails after publishing when a report gate fell short.
"""

from airflow.sdk import DAG, Param, task

from dags.common import DEFAULTS, LIMITS, ON_FAILURE
from dags.wiring import wire
from schemas.judgments import VARIANTS

TEXT = {"type": "string", "maxLength": 1000}
NAMES = {"type": "array", "items": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,60}$"}, "maxItems": 50}
PARAMS = {
    "launch_id": Param("", type="string", pattern="^[a-z0-9][a-z0-9-]{0,40}$", description="Its name"),
    "start": Param(None, type=["null", "string"], format="date", description="First day of the launch (UTC)"),
    "pages_a": Param("", description="Pages of system a: path or s3:// address of pages.jsonl", **TEXT),
    "pages_b": Param("", description="Pages of system b", **TEXT),
    "ranker_a": Param("", description="Or: ranker whose logged pages stand for system a", **TEXT),
    "ranker_b": Param("", description="Or: ranker of system b", **TEXT),
    "pages_window": Param("", type="string", pattern=r"^(\d{4}-\d{2}-\d{2}:\d{4}-\d{2}-\d{2})?$",
                          description="With rankers: days whose pages are sampled, FIRST:END; empty: the gap"),
    "corpora": Param([], description="Only these corpora; none: all", **NAMES),
    "evidence_days": Param(0, type="integer", minimum=0, description="Length of the evidence window; 0: as configured"),
    "gap_days": Param(-1, type="integer", minimum=-1, description="Days from evidence to launch; -1: as configured"),
    "variants": Param([], type="array", items={"type": "string", "enum": list(VARIANTS)},
                      description="What each page is judged with; none: as configured"),
    "judge": Param("", type="string", enum=["", "offline-baseline", "openai", "local"],
                   description="Which judge grades; empty: as configured"),
    "model": Param("", description="Its model, or several with commas; empty: as configured", **TEXT),
    "budget_usd": Param(None, type=["null", "number", "string"], minimum=0, pattern="^off$",
                        description="Judging stops before this; off: no limit; empty: as configured"),
    "outcomes": Param("", description="After the test: path or s3:// address of outcomes.jsonl", **TEXT),
}  # fmt: skip


def option(name: str) -> str:
    """A parameter as an option of `hindcast launch register`, rendered when the task runs."""
    listed = PARAMS[name].schema.get("type") == "array"
    text = f"params.{name} | join(',')" if listed else f"'' if params.{name} is none else params.{name}"
    return f"--{name.replace('_', '-')}={{{{ {text} }}}}"


with DAG(
    dag_id="pre_launch",
    schedule=None,
    max_active_runs=4,
    default_args=DEFAULTS,
    on_failure_callback=ON_FAILURE,
    params=PARAMS,
    doc_md=__doc__,
    tags=["hindcast"],
) as dag:

    @task.branch(execution_timeout=LIMITS["light"])
    def forecast_or_outcome(params: dict | None = None) -> str:
        """Which half of the flow this run is."""
        return "reports.outcome" if params["outcomes"] else "propensity.fit"

    tasks = wire("forecast", "outcome", which=["--launch={{ params.launch_id }}"])
    register = tasks["launch.register"]
    register.arguments = [
        *(a for a in register.arguments if not a.startswith("--launch=")),
        "--id={{ params.launch_id }}",
        "--start={{ params.start or '' }}",
        *map(option, list(PARAMS)[2:]),
    ]
    register >> forecast_or_outcome() >> [tasks["propensity.fit"], tasks["reports.outcome"]]
