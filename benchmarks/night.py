"""A night against full-window re-scans in DuckDB and Polars: `python -m benchmarks.night [--quick]`.

At 100 million impressions of 30 days (and at 20 million, and 5 with --quick): the steady night, the first build, and
the night as it is run. Every side is a process of its own, sides take turns, medians of the rounds are compared, and
results are compared before anything is timed. --peers also times the shared peers on the same input.
"""

import argparse
import json
import os
import shutil
import sys
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from statistics import median

import polars as pl

from benchmarks.lines import Line, at_most, emit
from benchmarks.measure import Usage, module, run_side
from benchmarks.night_input import LAST, Input, copy_store, prepare, write_config
from benchmarks.night_side import RUN, evidence_of
from jobs.core.tables import Store

ROUNDS = 3
WORK = Path("out/bench/work")
SHARED = Path("../shared/peers")
KEYS = ["locale", "query", "item_id"]
USERS_WITHIN, CURVE_WITHIN = 0.03, 1e-9
NEAR_WITHIN = 0.05  # of the rows: queries near the threshold, since the peers only estimate their users
PEERS = ("duckdb", "polars")
DERIVED = ("daily_counts", "daily_users", "evidence", "propensities")


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


@dataclass(kw_only=True)
class Night:
    """What the sides of one size used, round by round."""

    given: Input
    runs: dict[str, list[Usage]] = field(default_factory=dict)

    def seconds(self, side: str) -> float:
        """Median of wall seconds."""
        return median(one.seconds for one in self.runs[side])

    def ratio(self, ours: str, peer: str, what: str = "seconds") -> float:
        """Median over the rounds of ours / peer: the two of one round met the same load of the machine."""
        pairs = zip(self.runs[ours], self.runs[peer], strict=True)
        return median(getattr(a, what) / getattr(b, what) for a, b in pairs)

    def note(self, side: str) -> str:
        """Seconds, processor seconds, memory and steps of a side."""
        one = sorted(self.runs[side], key=lambda usage: usage.seconds)[len(self.runs[side]) // 2]
        told = one.told or {}
        steps = ", ".join(f"{name} {value:.1f}" for name, value in told.get("steps", {}).items())
        version = f" {told['version']}" if "version" in told else ""
        text = f"{side}{version} {one.seconds:.1f} s (processor {one.processor:.1f} s, peak {one.gib:.2f} GiB)"
        return f"{text}: {steps}" if steps else text


def measure(given: Input, *, rounds: int, sides: tuple[str, ...]) -> Night:
    """Run the sides in turns, compared before they count."""
    night = Night(given=given, runs={side: [] for side in sides})
    _compare(given, {side: run_once(given, side, keep=True) for side in sides})
    for n in range(rounds):
        for side in sides:
            night.runs[side].append(run_once(given, side)[0])
        spent = ", ".join(f"{side} {runs[-1].seconds:.1f} s" for side, runs in night.runs.items())
        say(f"  {given.impressions / 1e6:.0f} million, round {n + 1} of {rounds}: {spent}")
    return night


def run_once(given: Input, side: str, *, keep: bool = False) -> tuple[Usage, pl.DataFrame | None]:
    """One run of one side; with `keep` the table that it made."""
    env = {**os.environ, "HINDCAST_SPARK__MASTER": "local[2]"}
    if side.split()[0] in PEERS:
        name, form = f"{side} log".split()[:2]
        out = WORK / f"{name}.parquet"
        WORK.mkdir(parents=True, exist_ok=True)
        usage = run_side(module("benchmarks.night_peers", name, _peer_input(given, form), out), env=env)
        return usage, pl.read_parquet(out) if keep else None
    store = copy_store(given.after, WORK / side, without=DERIVED if side == "first" else DERIVED[2:])
    usage = run_side(module("benchmarks.night_side", side, store), env=env)
    frame = evidence_of(str(store.absolute())).collect() if keep else None
    shutil.rmtree(store)
    return usage, frame


def _peer_input(given: Input, form: str) -> Path:
    """What the peers read: the log's files, or the live files of Hindcast's impressions table."""
    if form == "log":
        files = _log_files(given)
    else:
        days = [day.isoformat() for day in RUN.evidence.each_day()]
        found = Store(str(given.after.absolute())).files("impressions", where={"event_day": days})
        files = [file.uri for file in found]
    path = given.folder / f"peers-{form}.json"
    path.write_text(json.dumps({"files": files, "form": form, "cut": RUN.cut.isoformat()}), encoding="utf-8")
    return path


def _log_files(given: Input) -> list[str]:
    return sorted(str(path.absolute()) for path in given.log.glob("parquet/*/*/*.parquet"))


def _compare(given: Input, made: dict[str, tuple[Usage, pl.DataFrame]]) -> None:
    """SystemExit unless all tables say the same: counts, clicks and exposure of each pair, users within 3%."""
    base = made.pop("duckdb")[1]
    for side, (_, frame) in made.items():
        both = frame.join(base, on=KEYS, suffix="_peer")
        wrong = both.filter(
            (pl.col("impressions") != pl.col("impressions_peer"))
            | (pl.col("clicks") != pl.col("clicks_peer"))
            | ((pl.col("examined") - pl.col("examined_peer")).abs() > CURVE_WITHIN * pl.col("examined"))
        )
        users = both.unique(["locale", "query"])
        off = abs(users["users"].sum() / users["users_peer"].sum() - 1)
        lone = max(frame.height, base.height) - both.height
        if wrong.height or off > USERS_WITHIN or lone > NEAR_WITHIN * base.height:
            raise SystemExit(
                f"night: {side} and duckdb differ at {given.impressions:,} impressions: {wrong.height} of {both.height}"
                f" rows, users {off:.1%}, {lone} rows on one side only: nothing to time"
            )
        said = f"{both.height:,} rows equal, users within {off:.2%}, {lone:,} rows near the threshold on one side"
        say(f"  {given.impressions / 1e6:.0f} million: {side} = duckdb: {said}")


def as_run(given: Input) -> Line:
    """The night as it is run on the last day's Parquet log, by step, against the steady night; reported."""
    store = copy_store(given.before, WORK / "night")
    usage = run_side(module("benchmarks.night_side", "night", write_config(given, store, "night")))
    shutil.rmtree(store)
    night = Night(given=given, runs={"night": [usage]})
    return Line(f"night as it is run, {_size(given)}, s", f"{usage.seconds:.1f}", note=night.note("night"))


def shared_peers(given: Input) -> list[Line]:
    """The benchmark's own peers against the shared ones, on one file set with the shared ones' column names."""
    if not SHARED.exists():
        return [Line("own peers / shared peers", "-", note="../shared/peers does not stand beside this checkout")]
    folder = _renamed(given)
    body = {"files": sorted(map(str, folder.glob("*/*.parquet"))), "form": "plain", "cut": ""}
    own = folder / "peers.json"
    own.write_text(json.dumps(body), encoding="utf-8")
    lines = []
    for name in ("duckdb", "polars"):
        pairs = []
        for _ in range(ROUNDS):
            glob = f"{folder}/*/*.parquet"
            theirs = run_side([sys.executable, SHARED / f"{name}_rescan.py", glob, WORK / "shared.parquet"])
            ours = run_side(module("benchmarks.night_peers", name, own, WORK / f"{name}.parquet"))
            pairs.append(ours.seconds / theirs.seconds)
        label = f"own {name} re-scan / the shared one, {_size(given)}, wall"
        lines.append(at_most(label, median(pairs), 1.3))
    shutil.rmtree(folder)
    return lines


def _renamed(given: Input) -> Path:
    """The log's columns under the shared peers' names, in day folders."""
    folder = given.folder / "renamed"
    for path in map(Path, _log_files(given)):
        corpus, day = path.parts[-3:-1]
        target = folder / day / f"{corpus}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        kept = ["locale", "query", "item_id", "rank", "ranker", "user_id", "clicked"]
        pl.scan_parquet(path).select(kept).rename({"item_id": "item"}).sink_parquet(target, compression="zstd")
    return folder


def figures(nights: dict[int, Night]) -> list[Line]:
    """The lines of the sizes that were measured, largest last."""
    lines: list[Line] = []
    for size, night in sorted(nights.items()):
        wall = {100: 1.0, 20: 2.5}.get(size // 1_000_000)
        lines.append(_ratio_line(night, "duckdb", "wall", wall))
        lines += _reported(night)
        if size >= 100_000_000:
            lines.append(_ratio_line(night, "polars", "wall", 0.8))
            lines.append(_ratio_line(night, "duckdb", "peak memory", 0.8))
            lines.append(_first_build(night))
            lines.append(_ratio_line(night, "duckdb store", "wall", None))
    if len(nights) > 1:
        lines += _growth(nights)
    return lines


def _size(given: Input) -> str:
    return f"{given.impressions / 1e6:.0f} million"


def _ratio_line(night: Night, peer: str, what: str, bound: float | None) -> Line:
    value = night.ratio("steady", peer, "seconds" if what == "wall" else "peak")
    told = "duckdb on Hindcast's own sorted table" if peer == "duckdb store" else peer
    name = f"steady night, {_size(night.given)}: {what} / {told}"
    note = f"{night.note('steady')}; {night.note(peer)}"
    return at_most(name, value, bound, note=note) if bound else Line(name, f"{value:.4f}", note=note)


def _reported(night: Night) -> list[Line]:
    """Processor seconds, memory and stored bytes, from which `--extrapolate` reckons."""
    name = f"steady night, {_size(night.given)}"
    spent, peak = (median(getattr(one, what) for one in night.runs["steady"]) for what in ("processor", "gib"))
    sizes = {table: _stored(night.given, table) for table in ("impressions", "daily_counts", "daily_users")}
    stored = ", ".join(f"{table} {size:.1f}" for table, size in sizes.items())
    return [
        Line(f"{name}: processor seconds", f"{spent:.2f}"),
        Line(f"{name}: peak memory, GiB", f"{peak:.2f}"),
        Line(f"{name}: stored bytes an impression", f"{sum(sizes.values()):.2f}", note=stored),
    ]


def _stored(given: Input, table: str) -> float:
    files = Store(str(given.after.absolute())).files(table)
    return sum(file.size for file in files) / given.impressions


def _first_build(night: Night) -> Line:
    name = f"first build of 30 days, {_size(night.given)}: wall / duckdb"
    return at_most(name, night.ratio("first", "duckdb"), 3.0, note=night.note("first"))


def _growth(nights: dict[int, Night]) -> list[Line]:
    (small, one), (large, other) = sorted(nights.items())[-2:]
    sides = [night.runs["steady"] for night in (one, other)]
    time_, memory = (
        median(getattr(u, what) for u in sides[1]) / median(getattr(u, what) for u in sides[0])
        for what in ("seconds", "peak")
    )
    name = f"growth of a steady night, {small / 1e6:.0f} to {large / 1e6:.0f} million"
    slopes = [log(ratio) / log(large / small) for ratio in (time_, memory)]
    bounds = (5.0, 1.5) if small == 20_000_000 else (None, None)
    lines = []
    for what, value, bound in zip(("time", "memory"), (time_, memory), bounds, strict=True):
        told = f"{name}: {what} ratio"
        lines.append(at_most(told, value, bound) if bound else Line(told, f"{value:.4f}"))
    return [
        *lines,
        *(Line(f"{name}: log-log slope of {w}", f"{s:.3f}") for w, s in zip(("time", "memory"), slopes, strict=True)),
    ]


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="5 and 20 million, without the first build")
    parser.add_argument("--sizes", default="", help="millions, as 5,20,100")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    sizes = [int(n) for n in (options.sizes or ("5,20" if options.quick else "20,100")).split(",")]
    nights, lines = {}, []
    for millions in sizes:
        given = prepare(millions * 1_000_000, say=say)
        sides = ("steady", "duckdb", "polars", *(("first", "duckdb store") if millions >= 100 else ()))
        nights[given.impressions] = measure(given, rounds=options.rounds, sides=sides)
        if millions == sizes[-1]:
            lines.append(as_run(given))
        if millions == 20:
            lines += shared_peers(given)
    shutil.rmtree(WORK, ignore_errors=True)
    return emit([*figures(nights), *lines], name="night", title=f"last day {LAST}, medians of {options.rounds} rounds")


if __name__ == "__main__":
    sys.exit(main())
