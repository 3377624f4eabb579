"""How often 95% intervals of curve and relevance hold the planted value: at least 2,000 replicates a cell."""

from collections.abc import Iterable
from concurrent.futures import Executor

import numpy as np

from benchmarks.lines import Line, within
from benchmarks.planted_counts import TRUE_CURVE, two_rankers
from jobs.evidence import relevance as formulas
from jobs.propensity.curve import Curve
from jobs.propensity.estimate import Options, fit

REPLICATES = 2000
KNOWN_REPLICATES = 20_000
BOOTSTRAP = 100  # samples behind each standard error: they add 7% noise to it
LOW, HIGH, ENOUGH = 0.92, 0.985, 2.0  # the bound holds from two expected clicks on
RELEVANCE = (0.1, 0.7)  # planted relevance of an item, uniform between these
SHAPES = {
    "ranks 1 to 10": np.full(10, 0.1),
    "rank 1 only": np.eye(10)[0],
    "rank 10 only": np.eye(10)[9],
    "mostly rank 1": np.array([0.8, *[0.2 / 9] * 9]),
}
ITEM_CELLS = [(shape, clicks) for shape in SHAPES for clicks in (3, 20, 200)]
CURVES = {"300 queries, 60 pages": (300, 60), "1,000 queries, 8 pages": (1000, 8)}


def coverage(pool: Executor) -> Iterable[Line]:
    """Relevance with the curve known, the curve itself, and relevance with the curve's own error in its interval."""
    yield from _known()
    for name, (queries, pages) in CURVES.items():
        cases = [(queries, pages, seed) for seed in range(10_000, 10_000 + REPLICATES)]
        results = list(pool.map(_replicate, cases, chunksize=50))
        curves, items = (np.array(part) for part in zip(*results, strict=True))
        for rank in range(2, 11):
            yield within(f"curve of {name}: rank {rank}", curves[:, rank - 2].mean(), LOW, HIGH)
        for place, (shape, clicks) in enumerate(ITEM_CELLS):
            yield within(f"relevance, curve of {name}: {shape}, {clicks:g} clicks", items[:, place].mean(), LOW, HIGH)


def _shown(shape: str, clicks: float) -> np.ndarray:
    """Impressions by rank that give about the expected number of clicks, at least one where the shape has any."""
    weight = SHAPES[shape]
    n = weight * clicks / (np.mean(RELEVANCE) * (weight * TRUE_CURVE).sum())
    return np.where(weight > 0, np.maximum(np.ceil(n), 1), 0).astype(int)


def _known() -> Iterable[Line]:
    rng = np.random.default_rng(5)
    for shape in SHAPES:
        for wanted in (0.5, 1, 2, 3, 5, 10, 30, 100):
            n = _shown(shape, wanted)
            share = _covers(n, TRUE_CURVE, 0.0, rng, size=KNOWN_REPLICATES)
            expected = (n * TRUE_CURVE).sum() * np.mean(RELEVANCE)
            name = f"relevance, curve known: {shape}, {expected:.1f} expected clicks"
            yield within(name, share, LOW, HIGH) if expected >= ENOUGH - 1e-9 else Line(name, f"{share:.4f}")


def _covers(n: np.ndarray, p: np.ndarray, variance: float, rng: np.random.Generator, *, size: int) -> float:
    """Share of `size` items with planted relevance, shown n times by rank, whose interval under curve p holds it.

    Relevance is drawn anew for every item: at one fixed value the few possible click counts make coverage jump.
    """
    planted = rng.uniform(*RELEVANCE, size)
    clicks = rng.binomial(n, TRUE_CURVE * planted[:, None]).sum(axis=1).astype(float)
    x, y = np.full(size, (n * p).sum()), np.full(size, (n * p * p).sum())
    low, high = formulas.score_interval(clicks, x, y, curve_variance=np.full(size, variance))
    return float(((low <= planted) & (high >= planted)).mean())


def _replicate(case: tuple[int, int, int]) -> tuple[list[bool], list[float]]:
    """One fitted curve: which ranks' intervals hold the truth, and the same for items judged with that curve."""
    queries, pages, seed = case
    counts = two_rankers(seed, queries=queries, pages=pages)
    curve = fit(counts, options=Options(estimator="allpairs", replicates=BOOTSTRAP))
    ranks = [bool(r.low <= t <= r.high) for r, t in zip(curve.ranks[1:], TRUE_CURVE[1:], strict=True)]
    rng = np.random.default_rng(seed)
    return ranks, [_item(curve, _shown(shape, clicks), rng) for shape, clicks in ITEM_CELLS]


def _item(curve: Curve, n: np.ndarray, rng: np.random.Generator) -> float:
    loadings = curve.loadings()
    variance = ((n @ loadings[:, :-1]) ** 2).sum() + ((n * loadings[:, -1]) ** 2).sum()
    return _covers(n, curve.values(), variance, rng, size=1)
