"""The evidence window as tasks read it: which files, which key ranges, and a guarded lazy frame of one range."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import polars as pl

from jobs.core.context import Context
from jobs.core.keys import FINEST, RANGES, range_bounds
from jobs.core.tables import DataFile, scan_files
from jobs.core.windows import Run, evidence_filter
from jobs.propensity.curve import MAX_RANK
from schemas.catalog import table

ROWS_A_TASK = 1_000_000  # rows of daily_counts that a task sums at about .15 GiB


def window_files(ctx: Context, name: str, corpus: str) -> list[DataFile]:
    """Live files of a daily table, at the run's recorded version, of the evidence window's days and one corpus."""
    days = [day.isoformat() for day in ctx.run.evidence.each_day()]
    where = {"event_day": days, "corpus": corpus}
    return ctx.store.files(name, version=ctx.table_version(name), where=where)


def days_of(files: Sequence[DataFile]) -> list[str]:
    """Event days that the files hold, sorted."""
    return sorted({file.partition["event_day"] for file in files})


def deepest_rank(files: Sequence[DataFile]) -> int:
    """Deepest rank that the files hold, by their statistics; the contract's deepest where a file has none."""
    return max((int(file.high.get("rank") or MAX_RANK) for file in files), default=1)


def shares(rows: int) -> list[tuple[int, int]]:
    """Inclusive (low, high) query keys of each task: the ranges of the row groups, grouped by how many rows there are.

    More tasks than RANGES are only needed where days are large, and so cut at the finer ranges.
    """
    tasks = min(FINEST, max(1, math.ceil(rows / ROWS_A_TASK)))
    ranges = RANGES if tasks <= RANGES else FINEST
    bounds = range_bounds(ranges=ranges)
    edges = [round(i * ranges / tasks) for i in range(tasks + 1)]
    return [(bounds[first][0], bounds[end - 1][1]) for first, end in pairwise(edges)]


def evidence_rows(spec: dict[str, Any], name: str, *, columns: list[str]) -> pl.LazyFrame:
    """Rows of one daily table that the run's evidence may see, within the spec's key range.

    `spec` holds `run` (a Run), `range` (inclusive low, high) and under `name` the table's files. The guard of
    jobs.core.windows applies to every row, so that nothing outside the window or later than the cut passes.
    """
    run: Run = spec["run"]
    low, high = spec["range"]
    wanted = list(dict.fromkeys([*columns, "event_day", "arrival_day", "query_key"]))
    rows = scan_files(table(name), spec[name], columns=wanted)
    return rows.filter(pl.col("query_key").is_between(low, high), evidence_filter(run)).select(columns)


def collected(spec: dict[str, Any], name: str, *, columns: list[str]) -> pl.DataFrame:
    """`evidence_rows` in memory."""
    return evidence_rows(spec, name, columns=columns).collect()
