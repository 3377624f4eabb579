"""A line of a benchmark's table: figure, bound, verdict; and how a module hands its lines to `make bench`."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

OUT = Path("out/bench")
FIGURES = OUT / "figures"
"""One JSON file a module: its lines of the last run."""

COLLECTED = "BENCH_COLLECTED"  # not HINDCAST_…, which names settings
"""Set while `python -m benchmarks` runs the module and prints its lines in a table of all."""


@dataclass(frozen=True)
class Line:
    """One figure. `verdict` is pass, FAIL or reported (no bound)."""

    name: str
    figure: str
    bound: str = ""
    verdict: str = "reported"
    note: str = ""


def at_most(name: str, value: float, bound: float, *, note: str = "") -> Line:
    """A figure that must not exceed its bound."""
    return Line(name, f"{value:.4f}", f"<= {bound:g}", "pass" if value <= bound else "FAIL", note)


def at_least(name: str, value: float, bound: float, *, note: str = "") -> Line:
    """A figure that must reach its bound."""
    return Line(name, f"{value:.4f}", f">= {bound:g}", "pass" if value >= bound else "FAIL", note)


def within(name: str, value: float, low: float, high: float, *, note: str = "") -> Line:
    """A figure that must lie between two bounds."""
    return Line(name, f"{value:.4f}", f"{low:g} to {high:g}", "pass" if low <= value <= high else "FAIL", note)


def holds(name: str, *, truth: bool, figure: str, note: str = "") -> Line:
    """A statement that must be true."""
    return Line(name, figure, "must hold", "pass" if truth else "FAIL", note)


def keep(lines: Sequence[Line], *, name: str) -> int:
    """Keep a module's lines for the summary and return its exit code: 1 if a bound was missed."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    text = json.dumps([vars(line) for line in lines], indent=1, ensure_ascii=False)
    (FIGURES / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return int(any(line.verdict == "FAIL" for line in lines))


def emit(lines: Sequence[Line], *, name: str, title: str = "") -> int:
    """Print a module's lines, `keep` them, and return its exit code."""
    if title:
        print(f"{name}: {title}")
    print(table(lines), flush=True)
    if COLLECTED not in os.environ:
        print(sentence(lines))
    return keep(lines, name=name)


def read(name: str) -> list[Line]:
    """The lines that a module kept; none if it kept none."""
    path = FIGURES / f"{name}.json"
    return [Line(**body) for body in json.loads(path.read_text(encoding="utf-8"))] if path.exists() else []


def table(lines: Sequence[Line], *, notes: bool = True) -> str:
    """The lines in columns figure | measured | bound | verdict, notes below them."""
    width = max([len(line.name) for line in lines] + [len("figure")])
    rows = [f"{'figure':<{width}} | {'measured':>10} | {'bound':>12} | verdict"]
    for line in lines:
        rows.append(f"{line.name:<{width}} | {line.figure:>10} | {line.bound:>12} | {line.verdict}")
        rows += [f"    {line.note}"] if notes and line.note else []
    return "\n".join(rows)


def sentence(lines: Sequence[Line]) -> str:
    """How many figures there are and how they came out."""
    counts = {verdict: sum(line.verdict == verdict for line in lines) for verdict in ("pass", "FAIL", "reported")}
    return f"{len(lines)} figures: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
