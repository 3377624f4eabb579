"""
### Nightly: grade yesterday's search result pages

Night D turns the log of event day D into evidence, has pages judged with and without it, and publishes a report.
It sees nothing that arrived after D, however late it runs, so a backfilled night equals the night itself.

**When it runs.** At 04:00 UTC for the day before, and as soon as the asset `hindcast_log` says that a day's log is
complete: an event of that asset with `{"day": "2026-11-20"}` in its extra (a DAG's outlet, or
`POST /api/v2/assets/events`). The first of the two does the night; for the other *due* skips it, since it is published.
A night that is triggered by hand or backfilled always runs.

**Parameters.** `day` (YYYY-MM-DD, UTC): the event day, for triggering by hand; scheduled and backfilled runs take the
start of their data interval, runs of the asset the day of their event (of several the last; 04:00 does the others).

**When a task fails.** Clear it: every task replaces exactly its own partition, so running again is safe.
*impressions.check* says which expectation failed: mend the source or its declaration, then clear from
*impressions.ingest*. *cards.audit* found evidence that a card must not hold: nothing is published; report it.
*judging.run* resumes where it stopped and pays for nothing twice; in batch mode it waits without a worker. *publish*
fails after publishing when a report gate fell short, or when the day has no rows at all (then the night is not made the
latest): the report is there and marked; consumers of `published.json` see both.

**Backfill.** `airflow backfill create --dag-id nightly --from-date 2026-11-01 --to-date 2026-11-07 --max-active-runs 2`
in any order; judging is off there unless the settings say `judge_on_backfill`.
"""

import tomllib
from datetime import date
from pathlib import Path

from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, CronDataIntervalTimetable, Param, task

from dags.common import DEFAULTS, LIMITS, ON_FAILURE
from dags.operators import CONFIG, JobsOperator
from dags.wiring import wire

LOG = Asset("hindcast_log")
AT = CronDataIntervalTimetable("0 4 * * *", timezone="UTC")  # four hours for the log of D to be complete
DAY = "{{ night_of(dag_run, params, triggering_asset_events) }}"


def kind_of(dag_run) -> str:
    """scheduled, backfill, manual or asset_triggered; in a task the run's type is an enumeration whose text differs."""
    return str(getattr(dag_run.run_type, "value", dag_run.run_type))


def night_of(dag_run, params, events=None) -> str:
    """Event day of a run: the parameter, the asset event's day, the interval's start, or a manual run's own date."""
    if params.get("day"):
        return str(params["day"])
    if kind_of(dag_run) == "asset_triggered":
        return max(_day_of(event.extra) for several in events.values() for event in several)
    moment = dag_run.data_interval_start if kind_of(dag_run) in ("scheduled", "backfill") else dag_run.logical_date
    if moment is None:
        raise ValueError("no day: trigger nightly with the parameter day, such as 2026-11-20")
    return moment.date().isoformat()


def _day_of(extra: dict) -> str:
    """The day that an event of the asset says is complete; ValueError says what its sender forgot."""
    try:
        return date.fromisoformat(extra["day"]).isoformat()
    except (KeyError, TypeError, ValueError):
        needs = '{"day": "YYYY-MM-DD"}'
        raise ValueError(f"an event of hindcast_log says {extra}: it needs {needs} in its extra") from None


def backfill_option(dag_run) -> str:
    """A backfilled night is judged only if the settings say so (judge_on_backfill)."""
    return "--backfill" if kind_of(dag_run) == "backfill" else ""


def again_option(dag_run) -> str:
    """Whoever triggers or backfills a night wants it, done or not."""
    return "" if kind_of(dag_run) in ("scheduled", "asset_triggered") else "--again"


with DAG(
    dag_id="nightly",
    schedule=AssetOrTimeSchedule(timetable=AT, assets=[LOG]),
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULTS,
    on_failure_callback=ON_FAILURE,
    params={"day": Param(None, type=["null", "string"], format="date", description="Event day (UTC)")},
    user_defined_macros={"night_of": night_of, "backfill_option": backfill_option, "again_option": again_option},
    render_template_as_native_obj=False,
    doc_md=__doc__,
    tags=["hindcast"],
) as dag:

    @task(execution_timeout=LIMITS["light"])
    def corpora() -> list[str]:
        """Corpora with documents: the skills step runs once for each."""
        declared = tomllib.loads(Path(CONFIG).read_text(encoding="utf-8")).get("corpora", {})
        return sorted(name for name, corpus in declared.items() if corpus.get("documents"))

    due = JobsOperator(
        task_id="due",
        doc_md="skip a night that is published already, unless it was asked for",
        arguments=["status", f"--config={CONFIG}", f"--due={DAY}", "{{ again_option(dag_run) }}"],
        skips_unless="due",
        execution_timeout=LIMITS["light"],
    )
    listed = corpora()
    tasks = wire("night", which=[f"--day={DAY}"], corpora=listed, plan=["{{ backfill_option(dag_run) }}"])
    due >> [listed, tasks["impressions.ingest"]]
