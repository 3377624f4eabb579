"""The product's side of the night's benchmarks, each run in a process of its own, JVM start included.

    python -m benchmarks.night_side steady STORE   the new day's canonical impressions to evidence of the window
    python -m benchmarks.night_side first STORE    all days' canonical impressions to the same
    python -m benchmarks.night_side night CONFIG   the night as it is run, without judging

The last line of stdout is a JSON object: seconds by step.
"""

import itertools
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.night_input import CORPORA, DAYS, LAST
from jobs.core.context import Context
from jobs.core.progress import Progress
from jobs.core.settings import load_settings
from jobs.core.spark import SparkProvider, run_tasks
from jobs.core.tables import DataFile, Store, scan_files, stage
from jobs.core.windows import Run, WindowLengths
from jobs.impressions.days import daily_counts, daily_users, range_cuts
from schemas.contract import Table
from schemas.logs import DAILY_COUNTS, DAILY_USERS, IMPRESSIONS

RANKS = 10
LENGTHS = WindowLengths(evaluation_days=1, gap_days=0, evidence_days=DAYS)
RUN = Run.launch("bench", start=LAST + timedelta(days=1), lengths=LENGTHS)
"""A run whose evidence window is the 30 days up to the last one, all of which arrived before its cut."""

SHARES = 2  # tasks a file: three files of a day would keep two cores busy for the time of two
ROWS_AT_ONCE = 150_000  # impressions that a task counts at a time: .1 GiB
_NEEDED = [name for name in IMPRESSIONS.names if name not in ("query", "query_raw", "session_key", "shown_at")]


class Steps:
    """Seconds by step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what the body does."""
        begun = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - begun, 2)


def evidence_night(store_uri: str, days: list[date]) -> dict[str, Any]:
    """Count the days' canonical impressions, commit them, and sum the window into evidence."""
    from jobs.evidence import job

    steps, settings = Steps(), load_settings(
        None, environment={}, root=store_uri, store=store_uri, spark={"master": "local[2]"},
        corpora={corpus: {"locales": ["en", "de", "es"]} for corpus in CORPORA},
    )  # fmt: skip
    spark = SparkProvider(settings.spark, store_uri=settings.store_uri)
    ctx = Context(settings=settings, store=Store(settings.store_uri), run=RUN, spark=spark, progress=Progress(None))
    with steps.step("JVM"):
        _ = spark.session
    with steps.step("counts"):
        count_days(ctx, days)
    with steps.step("evidence"):
        found = job.run(ctx)
    with steps.step("stop"):
        spark.stop()
    return {"steps": steps.seconds, "rows": sum(one["rows"] for one in found["corpora"].values())}


def count_days(ctx: Context, days: list[date]) -> None:
    """daily_counts and daily_users of the days from their canonical impressions, one commit a table and corpus."""
    wanted = [day.isoformat() for day in days]
    files = ctx.store.files("impressions", where={"event_day": wanted, "corpus": CORPORA})
    uris = {table.name: ctx.store.table_uri(table.name) for table in (DAILY_COUNTS, DAILY_USERS)}
    specs = [
        {"file": file, "keys": keys, "uris": uris, "size": file.rows // SHARES}
        for file in files
        for keys in _cut(file.low["query_key"], file.high["query_key"], parts=SHARES)
    ]
    results = run_tasks(ctx.spark, count_file, specs, label="counts")
    for name in uris:
        staged = [result[name] for result in results]
        replaced = list({tuple(one["partition"].items()): one["partition"] for one in staged}.values())
        ctx.store.commit_files(name, staged, replaced=replaced)
    ctx.record("impressions", {}, tables=("daily_counts", "daily_users", "queries", "item_keys"))
    for corpus in CORPORA:
        ctx.store.write_json(f"{ctx.folder}/propensity/{corpus}.json", declared_curve())


def _cut(low: int, high: int, *, parts: int) -> list[tuple[int, int]]:
    """Equal inclusive ranges of query keys; keys are hashes, so each holds about as many rows."""
    edges = [low + (high + 1 - low) * n // parts for n in range(parts + 1)]
    return [(first, end - 1) for first, end in itertools.pairwise(edges)]


def count_file(spec: dict[str, Any]) -> dict[str, dict]:
    """Spark task: counts and users of some queries of one day's impressions as staged files, a slice at a time."""
    whole: DataFile = spec["file"]
    made: dict[Table, list[pl.DataFrame]] = {DAILY_COUNTS: [], DAILY_USERS: []}
    for keys in _cut(*spec["keys"], parts=max(1, spec["size"] // ROWS_AT_ONCE)):
        rows = scan_files(IMPRESSIONS, [whole], columns=_NEEDED).filter(pl.col("query_key").is_between(*keys)).collect()
        made[DAILY_COUNTS].append(daily_counts(rows))
        made[DAILY_USERS].append(daily_users(rows))
    staged = {}
    for table, frames in made.items():
        where, frame = {name: whole.partition[name] for name in table.partition}, pl.concat(frames)
        cuts = range_cuts(frame["query_key"])
        staged[table.name] = stage(spec["uris"][table.name], table, frame, partition=where, cuts=cuts).as_dict()
    return staged


def declared_curve() -> dict[str, Any]:
    """The curve 1/rank, declared: the peers weigh by it too, so that all sides make one table."""
    from jobs.propensity.curve import Curve, Rank, to_file

    ranks = tuple(Rank(rank=k, propensity=1 / k, source="declared") for k in range(1, RANKS + 1))
    curve = Curve(
        curve_id="power1", estimator="declared", segment=None, identified=False, reason="declared for a benchmark",
        window=(RUN.evidence.start, RUN.evidence.end), ranks=ranks,
    )  # fmt: skip
    return {**to_file(curve), "segments": []}


def as_run(config: str) -> dict[str, Any]:
    """Ingestion, data checks, propensity and evidence as `hindcast night` runs them, in one process and one JVM."""
    from jobs.night import _run_task
    from schemas.flow import flow, qualified

    steps, settings = Steps(), load_settings(config)
    spark = SparkProvider(settings.spark, store_uri=settings.store_uri)
    run = Run.night(LAST, lengths=settings.windows.lengths)
    ctx = Context(settings=settings, store=Store(settings.store_uri), run=run, spark=spark, progress=Progress(None))
    with steps.step("JVM"):
        _ = spark.session
    for task in flow("night"):
        if task.group in ("impressions", "propensity", "evidence"):
            with steps.step(qualified(task)):
                _run_task(ctx, task, {})
    with steps.step("stop"):
        spark.stop()
    return {"steps": steps.seconds, "rows": ctx.read("evidence", run=run.key, columns=["query_key"]).height}


def evidence_of(store_uri: str) -> pl.LazyFrame:
    """The evidence rows that a run left: locale, query, item_id and what the peers have too."""
    store = Store(store_uri)
    files = store.files("evidence", where={"run": RUN.key})
    names = ["locale", "query", "item_id", "impressions", "clicks", "examined", "users"]
    return pl.scan_parquet([file.uri for file in files]).select(names)


def main(side: str, where: str) -> None:
    """Run one side and print what it took."""
    if side == "night":
        print(json.dumps(as_run(where)))
        return
    days = RUN.evidence.each_day() if side == "first" else [LAST]
    print(json.dumps(evidence_night(str(Path(where).absolute()), days)))


if __name__ == "__main__":
    main(*sys.argv[1:3])
