"""Curves on planted counts: error by estimator and size, identifiability, and few swaps."""

from collections.abc import Iterable
from concurrent.futures import Executor

import numpy as np

from benchmarks.lines import Line, at_least, at_most, holds
from benchmarks.planted_counts import GOOD, TRUE_CURVE, relative_error, swapped, two_rankers
from jobs.propensity import em
from jobs.propensity.estimate import Options, fit
from jobs.propensity.estimators import pair_counts

SEEDS = range(100, 108)
IDENTITY_SEEDS = range(200, 220)
SWAP_SEEDS = range(300, 600)

_PLANTED = (
    ("allpairs", 1000, 60, 0.04),
    ("pbm_em", 1000, 60, 0.05),
    ("auto", 1000, 8, 0.08),
    ("auto", 10_000, 8, 0.035),
    ("allpairs", 3000, 60, None),
    ("pbm_em", 3000, 60, None),
)


def planted(pool: Executor) -> Iterable[Line]:
    """Two rankers, 10 ranks, p = 1/rank: mean over seeds."""
    for estimator, queries, pages, bound in _PLANTED:
        errors = list(pool.map(_error, [(estimator, queries, pages, seed) for seed in SEEDS]))
        name = f"{estimator}, {queries:,} queries, {pages} pages a query"
        worst = f"worst seed {max(errors):.3f}"
        yield at_most(name, np.mean(errors), bound, note=worst) if bound else Line(name, f"{np.mean(errors):.4f}")
    for queries in (1000, 10_000):
        error = np.mean([_em_error(queries, seed) for seed in SEEDS[:2]])
        name = f"pbm_em by itself, {queries:,} queries, 8 pages a query"
        yield at_least(name, error, 0.3, note="one parameter a pair: more queries do not help")
    reason = fit(two_rankers(0, pages=8), options=Options(replicates=50)).reason
    yield holds("auto says why it does not take pbm_em there", truth="pbm_em not taken: 8.0" in reason, figure="said")


def _error(case: tuple[str, int, int, int]) -> float:
    estimator, queries, pages, seed = case
    counts = two_rankers(seed, queries=queries, pages=pages)
    if estimator == "pbm_em":
        return relative_error(em.fit(pair_counts(counts, max_rank=10, max_queries=queries).cells).p)
    curve = fit(counts, options=Options(estimator=estimator, replicates=50))
    return relative_error(curve.values())


def _em_error(queries: int, seed: int) -> float:
    counts = two_rankers(seed, queries=queries, pages=8)
    return relative_error(em.fit(pair_counts(counts, max_rank=10, max_queries=queries).cells).p)


def identified(pool: Executor) -> Iterable[Line]:
    """One fixed ranker must be refused with the declared curve; two rankers must be identified; 20 seeds each."""
    one = list(pool.map(_verdict, [((GOOD,), seed) for seed in IDENTITY_SEEDS]))
    two = list(pool.map(_verdict, [((GOOD, 1.5), seed) for seed in IDENTITY_SEEDS]))
    refused = sum(v == (False, "declared") for v in one)
    found = sum(v[0] for v in two)
    yield holds("one fixed ranker: not identified, declared curve", truth=refused == 20, figure=f"{refused} of 20")
    yield holds("two rankers: identified", truth=found == 20, figure=f"{found} of 20")


def _verdict(case: tuple[tuple[float, ...], int]) -> tuple[bool, str]:
    noises, seed = case
    curve = fit(two_rankers(seed, noises=noises), options=Options(replicates=50))
    return curve.identified, curve.estimator


def few_swaps(pool: Executor) -> Iterable[Line]:
    """Two rankers that differ in one exchange of neighbours on some of 1,000 queries: errors grow, intervals cover."""
    before = 0.0
    for swaps in (800, 400, 200, 20):
        found = [f for f in pool.map(_swap, [(swaps, seed) for seed in SWAP_SEEDS], chunksize=8) if f]
        refused = len(SWAP_SEEDS) - len(found)
        if not found:
            yield holds(f"{swaps} swaps: refused", truth=swaps <= 20, figure=f"{refused} of {len(SWAP_SEEDS)}")
            continue
        errors, covered = (np.array(part) for part in zip(*found, strict=True))
        typical, share = float(np.median(errors)), float(covered.mean())
        note = f"refused {refused} of {len(SWAP_SEEDS)}; intervals of ranks 2-10 cover {share:.1%}"
        yield holds(
            f"{swaps} swaps: median relative standard error", truth=typical > before, figure=f"{typical:.3f}", note=note
        )
        yield at_least(f"{swaps} swaps: coverage", share, 0.92)
        before = typical


def _swap(case: tuple[int, int]) -> tuple[float, float] | None:
    swaps, seed = case
    curve = fit(swapped(seed, swaps=swaps), options=Options(estimator="allpairs", replicates=100))
    if not curve.identified:
        return None
    rest = curve.ranks[1:]
    covered = [r.low <= t <= r.high for r, t in zip(rest, TRUE_CURVE[1:], strict=True)]
    return float(np.median([r.standard_error / r.raw for r in rest])), float(np.mean(covered))
