"""Bounds of the report: 6,000 pages x 5 variants with 10,000 bootstrap samples, and the bootstrap against a plain loop.

    python -m benchmarks.reports            # prints the figures and exits 1 if one is missed

Under 60 s and 2 GiB with index.html under 15 MB; the bootstrap within .3 of a numpy and scipy loop's time per sample on
the same input (processor time of one thread each, median of interleaved runs, since the machine may be busy).
"""

import json
import resource
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.stats import spearmanr

from benchmarks.lines import at_most, emit

PAGES, SAMPLES, ITEMS, ROWS = 6_000, 10_000, 4, 10
VARIANTS = {"plain": 0.9, "popularity": 0.85, "ctr": 0.8, "qri": 0.6, "qri_unfiltered": 0.5}
MAX_SECONDS, MAX_BYTES, MAX_HTML, MAX_RATIO = 60.0, 2 * 2**30, 15 * 10**6, 0.3


def labels(truth: np.ndarray, spread: float, rng: np.random.Generator) -> np.ndarray:
    """Three-level labels of a judge that sees the truth with an error."""
    return np.clip(np.round(2 * (truth + rng.normal(0, spread, len(truth)))), 0, 2) / 2


def loop_seconds(samples: int) -> float:
    """The bootstrap that one would write first: two Spearman correlations per resample of queries."""
    rng = np.random.default_rng(0)
    truth = rng.random(PAGES)
    a, b = (labels(truth, s, rng) for s in (0.9, 0.8))
    query = rng.integers(0, PAGES * 5 // 6, PAGES)
    rows = [np.flatnonzero(query == q) for q in np.unique(query)]
    begun = time.process_time()
    for _ in range(samples):
        take = np.concatenate([rows[j] for j in rng.integers(0, len(rows), len(rows))])
        _ = spearmanr(b[take], truth[take]).statistic - spearmanr(a[take], truth[take]).statistic
    return time.process_time() - begun


def ours_seconds(samples: int) -> float:
    """The same input and two judges through the report's bootstrap (all four statistics)."""
    from jobs.reports.resample import Subset, bootstrap

    rng = np.random.default_rng(0)
    truth = rng.random(PAGES)
    judges = {n: labels(truth, s, rng) for n, s in (("a", 0.9), ("b", 0.8))}
    query = rng.integers(0, PAGES * 5 // 6, PAGES)
    subset = Subset(name="all", rows=np.arange(PAGES), labels=judges)
    begun = time.process_time()
    bootstrap(truth=truth, query=query, subsets=[subset], samples=samples, seed=0, workers=1)
    return time.process_time() - begun


def write_inputs(folder: Path) -> dict[str, Path]:
    """Judgments, truth, pages and cards of 6,000 simulated pages: each item with ten historical queries."""
    rng = np.random.default_rng(1)
    truth = rng.beta(2, 2, PAGES)
    answers = {v: labels(truth, s, rng) for v, s in VARIANTS.items()}
    rows: dict[str, list[dict]] = {"judgments": [], "truth": [], "pages": [], "cards": []}
    for i in range(PAGES):
        page = {"page_id": f"page-{i:05d}", "query_key": f"{i * 5 // 6:016x}"}
        place = {"locale": ("en", "de", "es")[i % 3], "corpus": ("tracks", "podcasts")[i % 2]}
        rows["truth"].append({**page, **place, "truth": float(truth[i]), "truth_standard_error": 0.1})
        items = [_item(i, k) for k in range(ITEMS)]
        rows["pages"].append({**page, "query": f"simulated query number {i}", "items": items})
        rows["judgments"] += [_judgment(page, v, float(x[i])) for v, x in answers.items()]
        rows["cards"] += [{**page, "item_id": item["item_id"], "rows": _card(rng)} for item in items]
    paths = {n: folder / f"{n}.jsonl" for n in rows}
    for name, path in paths.items():
        path.write_text("".join(json.dumps(r) + "\n" for r in rows[name]), "utf-8")
    return paths


def _item(page: int, place: int) -> dict:
    number = (page * 7 + place) % 20_000
    return {"item_id": f"item-{number}", "rank": place + 1, "title": f"Title of item {number}"}


def _judgment(page: dict, variant: str, label: float) -> dict:
    said = f"Simulated rationale of a grade for {page['page_id']} under {variant}, as long as a judge's usually is."
    shown = {"qri_count": ITEMS * ROWS, "cited": [1, 2], "rationale": said}
    return {**page, "variant": variant, "model": "simulated", "label": label, **shown}


def _card(rng: np.random.Generator) -> list[dict]:
    seen = rng.integers(20, 2000, ROWS)
    clicks = rng.binomial(seen, 0.2)
    return [
        {"query": f"past query {q}", "similarity": round(0.9 - r / 40, 4), "impressions": int(n), "clicks": int(c),
         "examined": round(n * 0.6, 2), "relevance": round(c / n / 0.6, 4), "relevance_low": round(c / n / 0.8, 4),
         "relevance_high": round(c / n / 0.5, 4), "users": int(n // 2)}
        for r, (q, n, c) in enumerate(zip(rng.integers(0, 30_000, ROWS), seen, clicks, strict=True))
    ]  # fmt: skip


def main() -> int:
    """Print each figure with its bound; 1 if one is missed."""
    from jobs.reports.data import Options
    from jobs.reports.job import build_files

    ratios = [ours_seconds(300) / loop_seconds(300) for _ in range(3)]
    with TemporaryDirectory() as folder:
        paths = write_inputs(Path(folder))
        begun = time.perf_counter()
        build_files({**paths, "outcomes": None}, out=f"{folder}/out", before="", options=Options(samples=SAMPLES))
        seconds = time.perf_counter() - begun
        html = (Path(folder) / "out" / "index.html").stat().st_size
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    lines = [
        at_most("report, 6,000 pages x 5 variants, 10,000 samples, s", seconds, MAX_SECONDS),
        at_most("report, its memory, GiB", memory / 2**30, MAX_BYTES / 2**30),
        at_most("report, index.html with 240,000 card rows, MB", html / 1e6, MAX_HTML / 1e6),
        at_most("bootstrap of the report, time a sample / plain loop", statistics.median(ratios), MAX_RATIO),
    ]
    return emit(lines, name="reports")


if __name__ == "__main__":
    sys.exit(main())
