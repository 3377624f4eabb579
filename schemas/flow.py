"""The flow, declared once: `hindcast night`, `hindcast launch` and the DAGs all read it.

A step is one word; a task is one command of it. Tasks run in this order; each reads what the tasks before it wrote.
"""

from dataclasses import dataclass
from typing import Literal

Use = Literal["night", "forecast", "outcome"]
ALL_USES: tuple[Use, ...] = ("night", "forecast", "outcome")


@dataclass(frozen=True, kw_only=True)
class FlowTask:
    """One command of the flow.

    `engine` spark: needs a JVM; light: none. `mapped` names what one command instance works on: a judging shard or a
    corpus; None runs once. `group` is the step's word, under which the scheduler shows the task.
    """

    name: str
    group: str
    command: tuple[str, ...]
    engine: Literal["spark", "light"]
    meaning: str
    uses: tuple[Use, ...] = ("night", "forecast")
    mapped: Literal["shard", "corpus"] | None = None
    after: tuple[str, ...] = ()


FLOW: tuple[FlowTask, ...] = (
    FlowTask(
        name="register",
        group="launch",
        command=("launch", "register"),
        engine="light",
        uses=("forecast", "outcome"),
        meaning="keep the launch's parameters, pages or outcome, and pin the tables that it reads",
    ),
    FlowTask(
        name="ingest",
        group="impressions",
        command=("impressions", "ingest"),
        engine="spark",
        uses=("night",),
        meaning="read the arrival days that are not yet in the store, count, quarantine, restate late days",
    ),
    FlowTask(
        name="check",
        group="impressions",
        command=("impressions", "check"),
        engine="light",
        uses=("night",),
        after=("impressions.ingest",),
        meaning="decide on the night's Great Expectations results",
    ),
    FlowTask(
        name="discover",
        group="skills",
        command=("skills", "run"),
        engine="light",
        uses=("night",),
        mapped="corpus",
        meaning="rewriting skills of a corpus, from its documents alone",
    ),
    FlowTask(
        name="fit",
        group="propensity",
        command=("propensity", "fit"),
        engine="spark",
        after=("impressions.check", "launch.register"),
        meaning="examination by rank",
    ),
    FlowTask(
        name="build",
        group="evidence",
        command=("evidence", "build"),
        engine="spark",
        after=("propensity.fit",),
        meaning="debiased Query-Relevance-Impressions rows",
    ),
    FlowTask(
        name="build",
        group="pages",
        command=("pages", "build"),
        engine="spark",
        after=("propensity.fit",),
        meaning="pages to judge, with their truth",
    ),
    FlowTask(
        name="build",
        group="cards",
        command=("cards", "build"),
        engine="spark",
        after=("evidence.build", "pages.build"),
        meaning="evidence rows of each page's items",
    ),
    FlowTask(
        name="audit",
        group="cards",
        command=("cards", "audit"),
        engine="light",
        after=("cards.build",),
        meaning="independent search for leaks",
    ),
    FlowTask(
        name="plan",
        group="judging",
        command=("judging", "plan"),
        engine="light",
        after=("cards.audit",),
        meaning="shards, calls and cost before anything is sent",
    ),
    FlowTask(
        name="run",
        group="judging",
        command=("judging", "run"),
        engine="light",
        mapped="shard",
        after=("judging.plan",),
        meaning="labels or reasons, staged by shard",
    ),
    FlowTask(
        name="commit",
        group="judging",
        command=("judging", "commit"),
        engine="light",
        after=("judging.run",),
        meaning="all shards into the judgments table, in one commit",
    ),
    FlowTask(
        name="outcome",
        group="reports",
        command=("reports", "outcome"),
        engine="light",
        uses=("outcome",),
        after=("launch.register",),
        meaning="join the online outcome of a launch with its frozen forecast",
    ),
    FlowTask(
        name="build",
        group="reports",
        command=("reports", "build"),
        engine="light",
        uses=ALL_USES,
        after=("judging.commit", "skills.discover", "reports.outcome"),
        meaning="figures, HTML and exports",
    ),
    FlowTask(
        name="publish",
        group="publish",
        command=("publish",),
        engine="light",
        uses=ALL_USES,
        after=("reports.build",),
        meaning="one atomic entry in published.json; last of all the gates decide",
    ),
)


def flow(*uses: Use) -> list[FlowTask]:
    """The tasks of one use (or of several) in order, with `after` cut to tasks that belong to it."""
    chosen = [t for t in FLOW if set(uses) & set(t.uses)]
    there = {qualified(t) for t in chosen}
    return [_kept(t, there) for t in chosen]


def qualified(task: FlowTask) -> str:
    """'step.task', the id under which schedulers and logs know it."""
    return f"{task.group}.{task.name}"


def _kept(task: FlowTask, there: set[str]) -> FlowTask:
    values = {**task.__dict__, "after": tuple(a for a in task.after if a in there)}
    return FlowTask(**values)
