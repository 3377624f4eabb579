"""Propensity fit against plain EM in numpy on the same counts: `python -m benchmarks.propensity [--quick]`.

Counts are those of a simulated log of 20 million impressions (5 with --quick), summed over its 30 days: one row a
(query, item, rank). Both sides run in processes of their own, in turns, to convergence; the product must reach at
least the peer's likelihood. No click-model library can be a peer here: `clickmodels` 1.0.2, the pure-Python one on
PyPI, is Python 2 code (xrange, iteritems) and models sessions, `pyclickmodels` is Cython without wheels, `gecasmo`
fits cascades, `clax-models` needs JAX. A loop as such libraries have it stands in, one step of it, for reference.
"""

import json
import os
import sys
import time
from math import log as ln
from math import log1p
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

from benchmarks.lines import Line, at_most, emit
from benchmarks.measure import module, run_side
from benchmarks.night_input import Input, prepare
from jobs.core.tables import Store

ROUNDS = 3
MOST_STEPS = 100_000
SAMPLE = 200_000  # cells of the pure-Python loop's one step


def numpy_em(data: dict[str, np.ndarray]) -> dict:
    """Tabular EM of the position-based model until no propensity relative to rank 1 moves by more than 1e-6 a step."""
    pair, rank, n, c = data["pair"], data["rank"], data["impressions"], data["clicks"]
    ranks, pairs = rank.max() + 1, pair.max() + 1
    shown_rank, shown_pair = np.bincount(rank, n, ranks), np.bincount(pair, n, pairs)
    theta, gamma = np.full(ranks, 0.5), np.full(pairs, 0.5)
    steps, old = 0, np.zeros(ranks)
    while np.abs(theta / theta[0] - old).max() > 1e-6 and steps < MOST_STEPS:
        old = theta / theta[0]
        t, g = theta[rank], gamma[pair]
        none = 1 - t * g
        theta = np.bincount(rank, c + (n - c) * t * (1 - g) / none, ranks) / shown_rank
        gamma = np.bincount(pair, c + (n - c) * g * (1 - t) / none, pairs) / shown_pair
        steps += 1
    return {"steps": steps, "curve": (theta / theta[0]).tolist()}


def product_fit(data: dict[str, np.ndarray]) -> dict:
    """The product's maximum likelihood of the same model on the same cells."""
    from jobs.propensity import em

    found = em.fit(em.Cells(**data))
    return {"steps": found.steps, "curve": found.p.tolist(), "converged": found.converged}


SIDES = {"product": product_fit, "numpy": numpy_em}


def one(side: str, path: str) -> dict:
    """Fit the counts of a file; seconds of the fit alone."""
    with np.load(path) as file:
        data = {name: file[name] for name in file.files}
    begun = time.perf_counter()
    found = SIDES[side](data)
    return {**found, "seconds": time.perf_counter() - begun}


def counts_of(given: Input) -> Path:
    """Cells of the log as a file: pair and rank from 0, impressions, clicks."""
    path = given.folder / "cells.npz"
    if path.exists():
        return path
    store = Store(str(given.after.absolute()))
    scan = pl.scan_parquet([file.uri for file in store.files("daily_counts")])
    sums = scan.group_by("query_key", "item_key", "rank").agg(pl.sum("impressions"), pl.sum("clicks"))
    rows = sums.filter(pl.col("impressions") > 0).sort("query_key", "item_key", "rank").collect()
    new = rows.select(
        pl.struct("query_key", "item_key").ne(pl.struct("query_key", "item_key").shift(1)).fill_null(True)
    )
    cells = {
        "pair": new.to_series().cum_sum().to_numpy().astype(np.int64) - 1,
        "rank": rows["rank"].to_numpy().astype(np.int64) - 1,
        "impressions": rows["impressions"].to_numpy().astype(float),
        "clicks": rows["clicks"].to_numpy().astype(float),
    }
    np.savez(path, **cells)
    return path


def likelihood(data: dict[str, np.ndarray], curve: list[float]) -> float:
    """Log-likelihood of the cells under a curve, every pair's relevance at its best (by EM with the curve fixed)."""
    p, pair = np.array(curve)[data["rank"]], data["pair"]
    n, c = data["impressions"], data["clicks"]
    shown = np.bincount(pair, n)
    r = np.full(len(shown), 0.5)
    for _ in range(300):
        at = r[pair]
        r = np.bincount(pair, c + (n - c) * at * (1 - p) / (1 - p * at)) / shown
    mu = np.clip(p * r[pair], 1e-300, 1 - 1e-12)
    return float((c * np.log(mu) + (n - c) * np.log1p(-mu)).sum())


def python_step(data: dict[str, np.ndarray]) -> float:
    """Seconds a cell of one EM step in a loop with dictionaries, as pure-Python libraries have it."""
    names = ("pair", "rank", "impressions", "clicks")
    cells = list(zip(*(data[name][:SAMPLE].tolist() for name in names), strict=True))
    theta, gamma = dict.fromkeys(range(64), 0.5), dict.fromkeys((cell[0] for cell in cells), 0.5)
    begun, total = time.perf_counter(), 0.0
    above, below, ranks, shown = {}, {}, {}, {}
    for pair, rank, n, c in cells:
        t, g = theta[rank], gamma[pair]
        none = 1 - t * g
        ranks[rank] = ranks.get(rank, 0.0) + c + (n - c) * t * (1 - g) / none
        above[pair] = above.get(pair, 0.0) + c + (n - c) * g * (1 - t) / none
        shown[rank] = shown.get(rank, 0.0) + n
        below[pair] = below.get(pair, 0.0) + n
        total += c * ln(t * g) + (n - c) * log1p(-t * g)
    return (time.perf_counter() - begun) / len(cells)


def figures(given: Input, *, rounds: int = ROUNDS) -> list[Line]:
    """Ratio of the product's fit to the peer's, and the pure-Python loop's."""
    path = counts_of(given)
    runs: dict[str, list[dict]] = {side: [] for side in SIDES}
    env = {**os.environ, "OMP_NUM_THREADS": "2"}
    for n in range(rounds):
        for side in SIDES:
            runs[side].append(run_side(module("benchmarks.propensity", "--one", side, path), env=env).told)
            print(f"  round {n + 1}: {side} {runs[side][-1]['seconds']:.1f} s", file=sys.stderr, flush=True)
    with np.load(path) as file:
        data = {name: file[name] for name in file.files}
    ours, peer = runs["product"][0], runs["numpy"][0]
    gain = likelihood(data, ours["curve"]) - likelihood(data, peer["curve"])
    if gain < -0.01 or not ours["converged"]:
        raise SystemExit(f"propensity: the product's likelihood is {-gain:.3f} below the peer's: nothing to time")
    ratio = median(a["seconds"] / b["seconds"] for a, b in zip(runs["product"], runs["numpy"], strict=True))
    apart = np.abs(np.array(ours["curve"]) - peer["curve"]).max()
    cells = len(data["pair"])
    said = (
        f"{cells:,} cells; product {ours['seconds']:.1f} s in {ours['steps']} steps, numpy {np.__version__}"
        f" {peer['seconds']:.1f} s in {peer['steps']}; log-likelihood {gain:+.2f}, curves within {apart:.4f}"
    )
    loop = python_step(data) * cells * peer["steps"] / median(run["seconds"] for run in runs["numpy"])
    size = f"{given.impressions / 1e6:.0f} million"
    return [
        at_most(f"propensity fit on counts of {size}: wall / numpy EM", ratio, 1.5, note=said),
        Line("a pure-Python EM loop / numpy EM", f"{loop:.1f}", note="from one step of 200,000 cells"),
    ]


def main() -> int:
    """Measure, print, and return the exit code."""
    if "--one" in sys.argv:
        print(json.dumps(one(*sys.argv[2:4])))
        return 0
    quick = "--quick" in sys.argv
    given = prepare(5_000_000 if quick else 20_000_000, say=lambda text: print(text, file=sys.stderr, flush=True))
    return emit(figures(given), name="propensity")


if __name__ == "__main__":
    sys.exit(main())
