"""`make bench`: every published figure, each module in a process of its own, and one table of all figures at the end.

    python -m benchmarks [--quick] [MODULE ...]    measure; 1 if a bound is missed
    python -m benchmarks --table                   the table of the last run, from out/bench/summary.json
    python -m benchmarks --plot                    the figures with bounds over the runs of out/bench/history.jsonl
    python -m benchmarks --extrapolate             on paper: a night at a billion impressions a day

The summary goes to out/bench/summary.json, one line a run to out/bench/history.jsonl.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata

from benchmarks.extrapolate import on_paper
from benchmarks.lines import COLLECTED, FIGURES, OUT, Line, read, sentence, table

PEERS = ("duckdb", "polars", "numpy", "scipy", "faiss-cpu", "openai", "sentence-transformers", "pyspark", "deltalake")


@dataclass(frozen=True)
class Module:
    """One module: what it is about, the arguments of a quick run (None: not part of it), minutes on two idle cores."""

    about: str
    quick: tuple[str, ...] | None
    minutes: float


MODULES = {
    "night": Module("a night against full-window re-scans in DuckDB and Polars", ("--quick",), 14),
    "propensity": Module("propensity fit against plain EM in numpy", ("--quick",), 3),
    "demo": Module("three DAG runs, JVM start-ups", ("--quick",), 5),
    "cards": Module("pages and cards, against FAISS called directly", None, 3),
    "judging": Module("judging against a bare loop", ("--quick",), 4),
    "reports": Module("the report and its bootstrap against a plain loop", (), 1),
    "peers": Module("the benchmarks' own peers against the shared ones", None, 2),
    "ingest": Module("ingestion against DuckDB", None, 6),
    "estimators": Module("examination and relevance against planted truth and real logs", None, 4),
    "pages": Module("pages: bias, coverage, drops", None, 1),
    "skills": Module("what discovered skills bring and cost", None, 7),
}
ON_ONE_THREAD = {"estimators": {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}}


def run(name: str, arguments: Sequence[str]) -> tuple[list[Line], float]:
    """Run one module with its output shown; its lines and seconds. A module that fails without a line gives one."""
    print(f"\n== {name}: {MODULES[name].about} (about {MODULES[name].minutes:g} minutes)", flush=True)
    (FIGURES / f"{name}.json").unlink(missing_ok=True)
    begun = time.monotonic()
    command = [sys.executable, "-u", "-m", f"benchmarks.{name}", *arguments]
    env = os.environ | ON_ONE_THREAD.get(name, {}) | {COLLECTED: "1"}
    code = subprocess.run(command, env=env, check=False).returncode
    lines = read(name)
    if code and not any(line.verdict == "FAIL" for line in lines):
        lines.append(Line(f"{name}: ended with exit code {code}", "-", "must hold", "FAIL"))
    return lines, time.monotonic() - begun


def versions() -> dict[str, str]:
    """Versions of Python and of the peers."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in PEERS}}


def measure(names: Sequence[str], *, quick: bool) -> dict:
    """Run the modules in turn; the body of summary.json."""
    rows, seconds = [], {}
    for name in names:
        lines, seconds[name] = run(name, (MODULES[name].quick or ()) if quick else ())
        rows += [{"module": name, **vars(line)} for line in lines]
    at = datetime.now(UTC).isoformat(timespec="seconds")
    took = {name: round(value, 1) for name, value in seconds.items()}
    return {"at": at, "quick": quick, "versions": versions(), "seconds": took, "figures": rows}


def keep(summary: dict) -> None:
    """Write the summary, and one line of history: measured value and verdict by figure.

    Modules that were not measured this time keep their figures in the summary.
    """
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / "summary.json"
    whole = dict(summary)
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        others = [row for row in before["figures"] if row["module"] not in summary["seconds"]]
        whole["figures"] = sorted(others + summary["figures"], key=lambda row: list(MODULES).index(row["module"]))
        whole["seconds"] = before["seconds"] | summary["seconds"]
    path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    short = {row["name"]: [row["figure"], row["bound"], row["verdict"]] for row in summary["figures"]}
    line = {"at": summary["at"], "quick": summary["quick"], "seconds": summary["seconds"], "figures": short}
    with (OUT / "history.jsonl").open("a", encoding="utf-8") as history:
        history.write(json.dumps(line, ensure_ascii=False) + "\n")


def show(summary: dict) -> int:
    """Print versions, seconds by module, the table and, last, one sentence; the exit code."""
    lines = [Line(**{key: row[key] for key in Line.__dataclass_fields__}) for row in summary["figures"]]
    print(f"\n{summary['at']}, " + ", ".join(f"{name} {version}" for name, version in summary["versions"].items()))
    print("seconds: " + ", ".join(f"{name} {value:.0f}" for name, value in summary["seconds"].items()) + "\n")
    print(table(lines, notes=False))
    print(sentence(lines))
    return int(any(line.verdict == "FAIL" for line in lines))


def last() -> dict:
    """The summary of the last run."""
    path = OUT / "summary.json"
    if not path.exists():
        raise SystemExit(f"benchmarks: there is no {path}: run `make bench` first")
    return json.loads(path.read_text(encoding="utf-8"))


def plot() -> int:
    """Draw every figure that has a bound over the runs, as a share of its bound, to out/bench/history.svg."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    runs = [json.loads(line) for line in (OUT / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    names = sorted(
        {name for one in runs for name, (_, bound, _) in one["figures"].items() if bound[:2] in ("<=", ">=")}
    )
    if not names:
        raise SystemExit("benchmarks: the history holds no figure with a bound: run `make bench` first")
    figure, axes = pyplot.subplots(figsize=(11, 6 + 0.15 * len(names)))
    for name in names:
        points = [(one["at"], _share(one["figures"][name])) for one in runs if name in one["figures"]]
        axes.plot([at for at, _ in points], [share for _, share in points], marker="o", label=name)
    axes.axhline(1.0, color="black", linewidth=1)
    axes.set(yscale="log", ylabel="share of the bound that is used (above 1: missed)", title="benchmarks")
    axes.tick_params(axis="x", rotation=30)
    figure.legend(loc="upper left", fontsize=6, bbox_to_anchor=(1.0, 0.98))
    figure.savefig(OUT / "history.svg", bbox_inches="tight")
    print(OUT / "history.svg")
    return 0


def _share(told: list[str]) -> float:
    """Measured / bound where the figure must not exceed it, bound / measured where it must reach it."""
    value, (kind, bound) = float(told[0]), told[1].split()
    smaller = max(value, 1e-9), max(float(bound), 1e-9)
    return smaller[0] / smaller[1] if kind == "<=" else smaller[1] / smaller[0]


def main() -> int:
    """Entry of `python -m benchmarks`; 2 for an unknown module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"of {', '.join(MODULES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="what fits into ten minutes")
    parser.add_argument("--table", action="store_true", help="print the table of the last run")
    parser.add_argument("--plot", action="store_true", help="draw the history")
    parser.add_argument("--extrapolate", action="store_true", help="a night at a billion impressions a day, on paper")
    options = parser.parse_args()
    unknown = sorted(set(options.modules) - set(MODULES))
    if unknown:
        print(f"benchmarks: no module {', '.join(unknown)}: there are {', '.join(MODULES)}", file=sys.stderr)
        return 2
    if options.plot:
        return plot()
    if options.extrapolate:
        print(on_paper(last()))
        return 0
    if options.table:
        return show(last())
    chosen = [name for name, one in MODULES.items() if not options.quick or one.quick is not None]
    summary = measure(options.modules or chosen, quick=options.quick)
    keep(summary)
    return show(summary)


if __name__ == "__main__":
    sys.exit(main())
