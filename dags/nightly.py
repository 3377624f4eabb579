"""
### Nightly: grade yesterday's search result pages

Night D turns the log of event day D into evidence, has pages judged with and without it, and publishes a report.
It sees nothing that arrived after D, however late it runs, so a backfilled night equals the night itself.

**Parameters.** `day` (YYYY-MM-DD, UTC): the event day, for triggering by hand; scheduled and backfilled runs take the
start of their data interval.

**When a task fails.** Clear it: every task replaces exactly its own partition, so running again is safe.
*impressions.check* says which expectation failed: mend the source or its declaration, then clear from
*impressions.ingest*. *cards.audit* found evidence that a card must not hold: nothing is published; report it.
*judging.run* resumes where it stopped and pays for nothing twice. *publish* fails after publishing when a report gate
fell short: the report is there and marked; consumers of `published.json` see both.

**Backfill.** `airflow backfill create --dag-id nightly --from-date 2026-11-01 --to-date 2026-11-07`
"""

import tomllib
from pathlib import Path

from airflow.sdk import DAG, CronDataIntervalTimetable, Param, task

from dags.common import CONFIG, DEFAULTS
from dags.wiring import wire


def night_of(dag_run, params) -> str:
    """Event day of a run: the parameter, else the interval's start, or the date that a manual run was given."""
    if params.get("day"):
        return str(params["day"])
    scheduled = str(dag_run.run_type).endswith(("scheduled", "backfill"))
    moment = dag_run.data_interval_start if scheduled else dag_run.logical_date
    if moment is None:
        raise ValueError("no day: trigger nightly with the parameter day, such as 2026-11-20")
    return moment.date().isoformat()


def backfill_option(dag_run) -> str:
    """A backfilled night is judged only if the settings say so (judge_on_backfill)."""
    return "--backfill" if str(dag_run.run_type).endswith("backfill") else ""


with DAG(
    dag_id="nightly",
    schedule=CronDataIntervalTimetable("0 4 * * *", timezone="UTC"),  # four hours for the log of D to be complete
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULTS,
    params={"day": Param(None, type=["null", "string"], format="date", description="Event day (UTC)")},
    user_defined_macros={"night_of": night_of, "backfill_option": backfill_option},
    render_template_as_native_obj=False,
    doc_md=__doc__,
    tags=["hindcast"],
) as dag:

    @task
    def corpora() -> list[str]:
        """Corpora with documents: the skills step runs once for each."""
        declared = tomllib.loads(Path(CONFIG).read_text(encoding="utf-8")).get("corpora", {})
        return sorted(name for name, corpus in declared.items() if corpus.get("documents"))

    wire(
        "night",
        which=["--day={{ night_of(dag_run, params) }}"],
        corpora=corpora(),
        plan=["{{ backfill_option(dag_run) }}"],
    )
