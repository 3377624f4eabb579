"""Ingestion: Parquet against DuckDB, UBI events a second, what contracts and Great Expectations cost, memory.

    python -m benchmarks.ingest [--impressions 20000000] [--events 1000000] [--rounds 2]

Simulated logs, two cores. Each side runs in a process of its own, in turns; the JVM's start is printed apart.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.lines import Line, at_least, at_most, emit
from benchmarks.measure import module, run_side

LAST_DAY = "2026-11-22"
RATIO, EVENTS_A_SECOND, CONTRACT_SHARE, CHECK_SECONDS, MEMORY_GIB = 5.0, 60_000, 0.30, 60.0, 6.0
DAY_ROWS = 3_300_000


def main() -> None:
    """Measure and print one line a figure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--impressions", type=int, default=20_000_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(_one(Path(options.one))))
        return
    with tempfile.TemporaryDirectory(prefix="bench-ingest-") as room:
        lines = [*_parquet(Path(room), options), *_ubi(Path(room), options), *_night(Path(room)), _contracts()]
    sys.exit(emit(lines, name="ingest"))


# --- in a process of its own ---


def _one(folder: Path) -> dict[str, Any]:
    """Ingest everything below a simulated folder into a fresh store; seconds by part."""
    from jobs.core.settings import load_settings
    from jobs.core.spark import SparkProvider
    from jobs.core.tables import Store
    from jobs.impressions.ingest import ingest
    from jobs.impressions.inputs import list_files
    from jobs.impressions.job import utc_now
    from jobs.impressions.salts import salt_of
    from jobs.impressions.work import Ingestion, Request

    settings = load_settings(folder / "hindcast.toml")
    shutil.rmtree(settings.store_uri, ignore_errors=True)
    store, spark = Store(settings.store_uri), SparkProvider(settings.spark, store_uri=settings.store_uri)
    spark.session  # noqa: B018 - the JVM starts here, so that it can be told apart
    work = Ingestion(
        settings=settings, store=store, spark=spark, salt=salt_of(store, simulated=True), run_id="bench", run_day=None,
        latest=utc_now(), say=lambda text: None,
    )  # fmt: skip
    requests = [Request(source=s, files=tuple(list_files(settings.path(s.path)))) for s in settings.sources]
    begun = time.perf_counter()
    summary = ingest(requests, work=work)
    seconds = time.perf_counter() - begun
    spark.stop()
    told = ("rows_in", "accepted", "duplicates", "impressions", "clicks")
    return {"seconds": seconds, "jvm": spark.start_seconds, **{n: summary[n] for n in told}}


# --- figures ---


def _parquet(room: Path, options: argparse.Namespace) -> list[Line]:
    _simulate(room / "parquet", "--parquet-only", "--impressions", options.impressions, "--days", 30)
    glob = str(room / "parquet" / "parquet" / "*" / "*" / "*.parquet")
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(run_side(module("benchmarks.ingest", "--one", room / "parquet")))
        theirs.append(run_side(module("benchmarks.ingest_duckdb", glob, room / "duckdb")))
    best, peer = min(o.told["seconds"] for o in ours), min(t.told for t in theirs)
    first = ours[0].told
    note = f"{first['impressions']:,} impressions: {best:.1f} s (JVM {first['jvm']:.1f} s apart), DuckDB {peer:.1f} s"
    note += f"; processors {min(o.processor for o in ours):.0f} s and {min(t.processor for t in theirs):.0f} s"
    return [
        at_most("Parquet, times DuckDB's seconds", best / peer, RATIO, note=note),
        at_most("Parquet, peak memory GiB", max(o.gib for o in ours), MEMORY_GIB, note="of the process tree, RSS"),
    ]


def _ubi(room: Path, options: argparse.Namespace) -> list[Line]:
    _simulate(room / "ubi", "--impressions", options.events * 3, "--days", 10)
    usage = run_side(module("benchmarks.ingest", "--one", room / "ubi"))
    told = usage.told
    rate = told["rows_in"] / told["seconds"]
    note = f"{told['rows_in']:,} documents in {told['seconds']:.1f} s, all stages, quarantine and tables included"
    note += f"; {usage.processor / told['rows_in'] * 1e5:.1f} processor seconds a 100,000"
    return [
        at_least("UBI events a second", rate, EVENTS_A_SECOND, note=note),
        at_most("UBI, peak memory GiB", usage.gib, MEMORY_GIB),
    ]


def _night(room: Path) -> list[Line]:
    """Great Expectations on a day of 3.3 million rows, as the night runs it."""
    _simulate(room / "day", "--parquet-only", "--impressions", DAY_ROWS, "--days", 1)
    config = ["--config", room / "day" / "hindcast.toml", "--day", LAST_DAY, "--json"]
    told = run_side(module("jobs", "impressions", "ingest", *config)).told
    checks = told["expectations"]
    note = f"{checks['checks']} checks of {told['impressions']:,} impressions, Data Docs included"
    return [at_most("Great Expectations, seconds a night", checks["seconds"], CHECK_SECONDS, note=note)]


def _contracts() -> Line:
    """Processor seconds of the contract checks beside those of the rest of a day task, on one day's rows."""
    from jobs.impressions.days import Limits, daily_counts, daily_users, exclude_bots
    from schemas.logs import DAILY_COUNTS, DAILY_USERS, IMPRESSIONS

    rows = day_rows(500_000)
    begun = time.process_time()
    rows = exclude_bots(rows, limits=Limits(impressions_per_session_hour=10**6, queries_per_user_day=10**6))
    rows = rows.select(IMPRESSIONS.names).sort("query_key", "search_id", "rank", "item_id")
    frames = ((IMPRESSIONS, rows), (DAILY_COUNTS, daily_counts(rows)), (DAILY_USERS, daily_users(rows)))
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        for _, frame in frames:
            frame.write_parquet(file.name)
    work = time.process_time() - begun
    begun = time.process_time()
    problems = [p for table, frame in frames for p in table.problems(frame)]
    checks = time.process_time() - begun
    if problems:
        raise SystemExit(f"the benchmark's own rows break the contract: {problems[0]}")
    note = f"{checks:.2f} s of the processor beside {work:.2f} s"
    return at_most("contracts, share of a day task", checks / work, CONTRACT_SHARE, note=note)


def day_rows(count: int) -> Any:
    """Canonical rows of one day, ten a search, with popular and rare queries."""
    import numpy as np
    import polars as pl

    from schemas.logs import IMPRESSIONS

    rng, n = np.random.default_rng(0), count // 10
    query = np.repeat(rng.zipf(1.3, n) % 20_000, 10)
    frame = pl.DataFrame({"search_id": np.repeat(np.arange(n), 10), "q": query, "rank": np.tile(np.arange(1, 11), n)})
    at = pl.datetime(2026, 11, 20, time_zone="UTC")
    kinds = IMPRESSIONS.polars()
    columns = {
        "event_day": pl.lit(date(2026, 11, 20)),
        "corpus": pl.lit("tracks"),
        "source": pl.lit("bench"),
        "item_id": pl.format("i{}", (pl.col("q") * 7 + pl.col("rank")) % 100_000),
        "locale": pl.lit("en"),
        "query_raw": pl.format("Query {}", "q"),
        "query": pl.format("query {}", "q"),
        "query_key": pl.col("q") * 1_000_003,
        "ranker": pl.lit("good"),
        "randomised": pl.lit(value=False),
        "shown_at": at,
        "arrived_at": at,
        "user_key": pl.col("search_id") % 50_000,
        "session_key": pl.col("search_id") % 70_000,
        "salt_id": pl.lit("s"),
        "clicked": pl.col("search_id") % 10 == pl.col("rank"),
        "interaction": pl.lit(0),
    }
    late = ("late_interaction_days", "late_interaction")
    nothing = {name: pl.lit(None) for name in ("segment", "click_arrived_at", *late, "excluded")}
    full = frame.with_columns(**columns, **nothing)
    return full.select([pl.col(name).cast(kind) for name, kind in kinds.items()])


# --- processes ---


def _simulate(folder: Path, *args: object) -> None:
    command = [sys.executable, "-m", "jobs", "simulate", "--out", folder, "--seed", "1", *args]
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
