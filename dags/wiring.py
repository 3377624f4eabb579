"""The flow of schemas/flow.py as Airflow tasks: one group a step, one task a command, mapped where the flow says so."""

from airflow.sdk import BaseOperator, TaskGroup

from dags.common import ENDPOINT_POOL, LIMITS, spark_step
from dags.operators import CONFIG, JobsOperator, ShardOperator
from schemas.flow import FlowTask, Use, flow, qualified

NO_RETRY = {"launch.register", "impressions.check", "cards.audit", "publish.publish"}
"""Verdicts: the same again when asked again."""
SKIPS_BEFORE = {"judging.commit", "reports.build"}  # a skipped mapping (nothing to judge) or branch is no failure


def wire(*uses: Use, which: list[str], corpora=None, plan: list[str] | None = None) -> dict[str, BaseOperator]:
    """All tasks of these uses, grouped by their step's word and chained as the flow declares; by 'step.task'.

    `which` are the options that name the run; `corpora` is the task that lists the corpora to map over; `plan` are more
    options of judging.plan.
    """
    made: dict[str, BaseOperator] = {}
    groups: dict[str, TaskGroup] = {}
    for task in flow(*uses):
        arguments = [*task.command, f"--config={CONFIG}", *which]
        if task.group not in groups:
            groups[task.group] = TaskGroup(task.group)
        with groups[task.group]:
            made[qualified(task)] = _operator(task, arguments, made, corpora, plan or [])
        for before in task.after:
            made[before] >> made[qualified(task)]
    made["judging.plan"] >> made["judging.commit"]  # so that zero shards commit, and a skipped plan skips the commit
    return made


def _operator(task: FlowTask, arguments: list[str], made: dict, corpora, plan: list[str]) -> BaseOperator:
    limit = LIMITS[task.mapped or task.engine]
    options: dict = {"task_id": task.name, "doc_md": task.meaning, "execution_timeout": limit}
    if qualified(task) in SKIPS_BEFORE:
        options["trigger_rule"] = "none_failed_min_one_success"
    if qualified(task) in NO_RETRY:
        options["retries"] = 0
    if task.engine == "spark":
        return spark_step(arguments=arguments, **options)
    if task.mapped:
        kind = ShardOperator if task.mapped == "shard" else JobsOperator
        partial = kind.partial(pool=ENDPOINT_POOL, map_index_template="{{ task.shows }}", **options)
        return partial.expand_kwargs(_instances(task, arguments, made, corpora))
    if task.name == "plan":
        return JobsOperator(arguments=[*arguments, *plan], result="shards", **options)
    return JobsOperator(arguments=arguments, **options)


def _instances(task: FlowTask, arguments: list[str], made: dict, corpora):
    if task.mapped == "corpus":
        return corpora.map(lambda corpus: {"arguments": [*arguments, f"--corpus={corpus}"], "shows": corpus})
    shards = made["judging.plan"].output
    return shards.map(lambda shard: _instance(shard, arguments))


def _instance(shard: dict, arguments: list[str]) -> dict:
    given = [*arguments, f"--shard={shard['index']}"]
    return {"arguments": given, "shows": _shown(shard), "batch": bool(shard.get("batch"))}


def _shown(shard: dict) -> str:
    return " ".join(str(shard[key]) for key in ("set", "corpus", "variant", "part") if shard.get(key) is not None)
