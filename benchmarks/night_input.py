"""Input of the night's benchmarks: a simulated log of any size, and the store as it stands before its last day.

Made once by `hindcast simulate` and the product's own functions, and kept under out/bench/input; a folder's name holds
size, seed and a hash of the code that made it. Runs work on hard-linked copies, which cost nothing: table files are
never changed in place.
"""

import fcntl
import hashlib
import inspect
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import polars as pl

from jobs.core.keys import FINEST, RANGES, with_item_key, with_query_key
from jobs.core.tables import StagedFile, Store, stage
from jobs.impressions.days import daily_counts, daily_users, range_cuts
from jobs.impressions.privacy import make_salt
from schemas.logs import DAILY_COUNTS, DAILY_USERS, IMPRESSIONS, ITEM_KEYS, QUERIES

HOME = Path("out/bench/input")
DAYS, SEED = 30, 1
LAST = date(2026, 11, 22)
"""The new day: the last one that `hindcast simulate` writes."""

CORPORA = ("tracks", "podcasts")
SIMULATED = ("kinds", "log", "rankers", "sizes", "texts", "world", "write")
"""Modules of jobs.simulate that the rows depend on."""

_ORDER = ["query_key", "search_id", "rank", "item_id"]


@dataclass(frozen=True, kw_only=True)
class Input:
    """A prepared log: `log` holds the arrival days' files, `before` the store without the last day."""

    folder: Path
    impressions: int

    @property
    def log(self) -> Path:
        """Folder that `hindcast simulate` wrote."""
        return self.folder / "log"

    @property
    def before(self) -> Path:
        """The store as it stands when the last day's files arrive."""
        return self.folder / "before"

    @property
    def after(self) -> Path:
        """The same with the last day ingested."""
        return self.folder / "after"


def prepare(impressions: int, *, say: Callable[[str], None]) -> Input:
    """The input of a size, from the cache or made now (100 million: about 8 minutes on two idle cores).

    One process at a time makes inputs; another waits and then finds it.
    """
    found = Input(folder=HOME / f"{impressions}-{SEED}-{code_hash()}", impressions=impressions)
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (found.folder / "ready.json").exists():
            _make(found, say)
    return found


def _make(found: Input, say: Callable[[str], None]) -> None:
    begun, name = time.perf_counter(), f"input of {found.impressions:,} impressions"
    for stale in HOME.glob(f"{found.impressions}-*"):
        shutil.rmtree(stale)
    say(f"{name}: simulate …")
    _simulate(found.log, found.impressions)
    say(f"{name}: canonical rows of {DAYS - 1} days …")
    _store_before(found, say)
    say(f"{name}: the last day through the product's own ingestion …")
    copy_store(found.before, found.after)
    _ingest_last_day(found)
    shutil.rmtree(found.after / "staging", ignore_errors=True)
    seconds = round(time.perf_counter() - begun, 1)
    (found.folder / "ready.json").write_text(json.dumps({"seconds": seconds}), encoding="utf-8")


def code_hash() -> str:
    """Short hash of the code that decides which rows there are; how the product counts them, each run compares anew."""
    texts = [Path(f"jobs/simulate/{name}.py").read_text(encoding="utf-8") for name in SIMULATED]
    texts += [inspect.getsource(function) for function in (_one_day, _canonical, _keys)]
    texts.append(f"{RANGES} or {FINEST} ranges")  # row groups are cut there
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:12]


def copy_store(source: Path, target: Path, *, without: tuple[str, ...] = ()) -> Path:
    """A hard-linked copy of a store, tables named in `without` left out."""
    shutil.rmtree(target, ignore_errors=True)
    skipped = {f"tables/{name}" for name in without}

    def ignored(folder: str, names: list[str]) -> set[str]:
        inside = Path(folder).relative_to(source)
        return {name for name in names if str(inside / name) in skipped}

    shutil.copytree(source, target, copy_function=os.link, ignore=ignored)
    return target


def write_config(found: Input, store: Path, name: str) -> Path:
    """A hindcast.toml for a store: the simulated one, reading only the last arrival day.

    Night of the last day: it evaluates that day and sums the 29 before it, so that nothing else is needed.
    """
    text = (found.log / "hindcast.toml").read_text(encoding="utf-8")
    text = text.replace('store = "store/"', f'store = "{store.absolute()}"')
    text = text.replace('path = "parquet/', f'path = "{(found.folder / "last").absolute()}/')
    for key, value in (("evaluation_days", 1), ("gap_days", 0), ("evidence_days", DAYS - 1)):
        text = "\n".join(f"{key} = {value}" if line.startswith(f"{key} =") else line for line in text.split("\n"))
    path = found.log / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def _simulate(out: Path, impressions: int) -> None:
    out.mkdir(parents=True)
    command = [sys.executable, "-m", "jobs", "simulate", "--parquet-only", "--impressions", impressions]
    command += ["--days", DAYS, "--seed", SEED, "--out", out]
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for corpus in CORPORA:
        source, target = out / "parquet" / corpus / LAST.isoformat(), out.parent / "last" / corpus / LAST.isoformat()
        shutil.copytree(source, target, copy_function=os.link)


def _store_before(found: Input, say: Callable[[str], None]) -> None:
    """Canonical impressions, counts and users of every day but the last, of what had arrived by then."""
    store = Store(str(found.before.absolute()))
    days = [LAST - timedelta(days=back) for back in range(DAYS - 1, 0, -1)]
    jobs = [(str(found.log.absolute()), store.uri, corpus, day) for corpus in CORPORA for day in days]
    staged: dict[str, list[StagedFile]] = {"impressions": [], "daily_counts": [], "daily_users": []}
    texts: dict[str, list[pl.DataFrame]] = {name: [] for name in CORPORA}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for n, (files, seen) in enumerate(pool.map(_one_day, jobs), start=1):
            for name, file in files.items():
                staged[name].append(file)
            texts[jobs[n - 1][2]].append(seen)
            if n % 10 == 0:
                say(f"  {n} of {len(jobs)} days")
    for name, files in staged.items():
        store.commit_files(name, files, replaced=[file.partition for file in files])
    for corpus, seen in texts.items():
        _texts(store, corpus, pl.concat(seen))


def _one_day(job: tuple[str, str, str, date]) -> tuple[dict[str, StagedFile], pl.DataFrame]:
    """Files of one corpus and event day below their tables, and the texts seen on it."""
    log, store_uri, corpus, day = job
    rows = _canonical(Path(log), corpus, day)
    partition = {"event_day": day.isoformat(), "corpus": corpus, "source": f"{corpus}-parquet"}
    counts, users = daily_counts(rows), daily_users(rows)
    files = {"impressions": stage(f"{store_uri}/tables/impressions", IMPRESSIONS, rows, partition=partition)}
    for name, table, frame in (("daily_counts", DAILY_COUNTS, counts), ("daily_users", DAILY_USERS, users)):
        where = {key: partition[key] for key in table.partition}
        cuts = range_cuts(frame["query_key"])
        files[name] = stage(f"{store_uri}/tables/{name}", table, frame, partition=where, cuts=cuts)
    seen = rows.select("corpus", "locale", "query_key", "query", "item_id", first_day="event_day")
    texts = [seen.unique(["query_key", "locale"]), seen.unique("item_id")]
    return files, pl.concat(texts)


def _canonical(log: Path, corpus: str, day: date) -> pl.DataFrame:
    """Rows of one event day as ingestion would store them (the simulated Parquet log is clean), as of the day before
    the last. A page that arrives two days late can do so past midnight, on the third day.
    """
    arrivals = [day + timedelta(days=n) for n in range(4) if day + timedelta(days=n) < LAST]
    paths = [log / "parquet" / corpus / arrived.isoformat() / "part-0000.parquet" for arrived in arrivals]
    rows = pl.scan_parquet(paths).filter(pl.col("shown_at").dt.date() == day).collect()
    kinds, salt = IMPRESSIONS.polars(), _salt()
    rows = with_query_key(rows).with_columns(
        query_raw="query", event_day=pl.lit(day), source=pl.lit(f"{corpus}-parquet"), salt_id=pl.lit(salt.name),
        user_key=_keys(rows["user_id"]), session_key=_keys(rows["session_id"]),
        click_arrived_at=pl.when("clicked").then("arrived_at"),
        interaction=pl.col("clicked").cast(pl.Int64) * 1_000_000,
    )  # fmt: skip
    there = rows.columns  # no bots and nothing late in this log: what is not there is null
    return rows.select(
        pl.col(name).cast(kind) if name in there else pl.lit(None, kind).alias(name) for name, kind in kinds.items()
    ).sort(_ORDER)


@cache
def _salt():
    return make_salt("simulated users", name="simulated")


def _keys(ids: pl.Series) -> pl.Series:
    distinct = ids.unique()
    keys = pl.Series([_salt().key(one) for one in distinct], dtype=pl.Int64)
    return ids.replace_strict(distinct, keys, return_dtype=pl.Int64)


def _texts(store: Store, corpus: str, seen: pl.DataFrame) -> None:
    first = seen.sort("first_day")
    queries = first.unique(["query_key", "locale"], keep="first").select(QUERIES.names).sort("query_key")
    items = with_item_key(first.unique("item_id", keep="first").select("corpus", "item_id", "first_day"))
    store.replace("queries", queries, where={"corpus": corpus})
    store.replace("item_keys", items.select(ITEM_KEYS.names).sort("item_key"), where={"corpus": corpus})


def _ingest_last_day(found: Input) -> None:
    config = write_config(found, found.after, "after")
    command = [sys.executable, "-m", "jobs", "impressions", "ingest", "--config", config, "--day", LAST, "--json"]
    env = {**os.environ, "HINDCAST_SPARK__MASTER": "local[2]"}
    done = subprocess.run([str(part) for part in command], check=False, capture_output=True, text=True, env=env)
    if done.returncode:
        raise SystemExit(f"ingestion of the last day failed: {done.stderr[-3000:]}")


def main() -> None:
    """Prepare the sizes named on the command line."""
    for size in sys.argv[1:] or ["5000000"]:
        found = prepare(int(size), say=lambda text: print(text, file=sys.stderr, flush=True))
        print(f"{found.folder}  {json.loads((found.folder / 'ready.json').read_text())['seconds']} s")


if __name__ == "__main__":
    main()
