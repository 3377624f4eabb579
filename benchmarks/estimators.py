"""`make bench-estimators`: what the estimators of examination and relevance reach on planted counts and on real logs.

Prints one table; each line is a figure with its bound, or a figure that is only reported. Ends with exit code 1 if a
bound is missed. Everything is seeded; out/bench/figures/estimators.json holds the same lines.
"""

import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

from benchmarks import estimator_coverage, estimator_curves, estimator_real, estimator_relevance
from benchmarks.lines import Line, keep, sentence

SECTIONS = (
    ("Planted curves, mean absolute relative error", estimator_curves.planted),
    ("Identified or not", estimator_curves.identified),
    ("Few swaps between two rankers", estimator_curves.few_swaps),
    ("Bias of relevance, 4,000 repetitions of 400 pages", estimator_relevance.bias),
    ("Relevance on a simulated log (curve fitted on the same log)", estimator_relevance.table),
    ("A wrong declared curve (true 1/rank)", estimator_relevance.wrong_curve),
    ("Coverage of 95% intervals", estimator_coverage.coverage),
    ("Real logs", estimator_real.real),
)


def main() -> int:
    """Run all sections; returns the exit code."""
    lines: list[Line] = []
    os.environ |= {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}  # two processes share the two cores
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:  # threads of Polars do not survive a fork
        for title, section in SECTIONS:
            begun = time.monotonic()
            found = list(section(pool))
            lines += [replace(line, name=f"{title}: {line.name}") for line in found]
            _print(title, found, time.monotonic() - begun)
    print(sentence(lines))
    return keep(lines, name="estimators")


def _print(title: str, lines: Iterable[Line], seconds: float) -> None:
    print(f"\n{title} ({seconds:.0f} s)")
    for line in lines:
        print(f"  {line.name:<66} {line.figure:>22}   {line.bound:<22} {line.verdict}")
        if line.note:
            print(f"      {line.note}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
