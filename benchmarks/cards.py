"""How long the pages and cards of a large night take, and how much memory: `python -m benchmarks.cards [pages|cards]`.

pages: 5,000 queries to about 6,000 pages from a store whose evaluation window holds 20 million rows of daily counts.
cards: 6,000 pages of 4 items with 200 historical queries each, embeddings given. Both run on Spark local[2], JVM start
apart. Cards are compared with a bare FAISS loop on lists of the same lengths, in the same run.
"""

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.lines import Line, at_most, emit

PAGES, ITEMS, HISTORY = 6000, 4, 200
ROUNDS = 3  # interleaved with the peer, since files freshly written and a busy machine slow both
PEER = Path("../shared/peers/cards_direct.py")
MIB = 2**20


def main(chosen: list[str]) -> int:
    """Measure, print a table, keep it under out/bench; returns the exit code."""
    lines: list[Line] = []
    for name, measure in (("pages", _pages), ("cards", _cards)):
        if name in chosen or not chosen:
            with tempfile.TemporaryDirectory() as room:
                lines += measure(Path(room))
    return emit(lines, name="cards")


def _pages(room: Path) -> list[Line]:
    from benchmarks.large_store import DAYS, large_night
    from jobs.pages import job

    ctx, rows = large_night(room)
    _ = ctx.spark.session
    summary, seconds, memory = measured(lambda: job.run(ctx))
    ctx.spark.stop()
    said = f"{summary['logs']['queries']:,} queries, {summary['logs']['pages']:,} pages"
    return [
        at_most(f"pages from {rows / 1e6:.0f} million rows of {DAYS} days, s", seconds, 60, note=said),
        at_most("pages, peak memory of the process tree, GiB", memory / 1024, 4),
    ]


def _cards(room: Path) -> list[Line]:
    from benchmarks.large_store import RandomEncoder, card_night
    from jobs.cards import job

    ctx, encoder = card_night(room, pages=PAGES, items=ITEMS, per_item=HISTORY), RandomEncoder()
    job.embedder_for = lambda settings, say=None: encoder  # embeddings are given: only what comes after is measured
    plain, rounds = job.run_tasks, []
    _ = ctx.spark.session
    for _ in range(ROUNDS):
        encoder.seconds, tasks = 0.0, []
        job.run_tasks = _noted(plain, tasks)
        summary, seconds, memory = measured(lambda: job.run(ctx))
        rounds.append((seconds - encoder.seconds, memory, tasks, _peer_seconds()))
    ctx.spark.stop()
    spent, _, tasks, _ = min(rounds, key=lambda one: one[0])
    memory, peer = max(one[1] for one in rounds), min(one[3] for one in rounds)
    parts = {part: sum(result["seconds"][part] for result in tasks) for part in tasks[0]["seconds"]}
    said = ", ".join(f"{part} {value:.1f} s" for part, value in parts.items())
    name = f"cards of {PAGES:,} pages x {ITEMS} items x {HISTORY} queries, best of {ROUNDS}"
    return [
        at_most(f"{name}, s", spent, 60, note=f"{summary['compared']:,} compared; {len(tasks)} tasks: {said}"),
        at_most("cards, peak memory of the process tree, GiB", memory / 1024, 4),
        at_most(
            "cards / a bare FAISS loop, which reads and writes nothing", spent / peer, 3, note=f"{peer:.2f} s; {said}"
        ),
    ]


def _noted(run_tasks: Callable[..., list[dict]], seen: list[dict]) -> Callable[..., list[dict]]:
    def noted(*args: Any, label: str = "") -> list[dict]:
        seen.extend(run_tasks(*args, label=label))
        return seen

    return noted


def _peer_seconds() -> float:
    """Seconds of the shared peer, or of the same loop here where it does not stand beside the checkout."""
    if not PEER.exists():
        return bare_loop()
    command = [sys.executable, str(PEER), str(PAGES), str(ITEMS), str(HISTORY)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return float(done.stdout.split()[2])


def bare_loop(pages: int = PAGES) -> float:
    """One exact FAISS index for each page item, built and searched in memory; seconds of the loop alone."""
    import faiss

    faiss.omp_set_num_threads(2)
    rng = np.random.default_rng(0)
    history, queries = (rng.standard_normal((n, 384), dtype=np.float32) for n in (200_000, pages))
    faiss.normalize_L2(history)
    faiss.normalize_L2(queries)
    lists = rng.integers(0, len(history), (pages, ITEMS, HISTORY))
    begun, kept = time.perf_counter(), 0
    for page in range(pages):
        for item in range(ITEMS):
            index = faiss.IndexFlatIP(384)
            index.add(history[lists[page, item]])
            cosine, _ = index.search(queries[page : page + 1], 20)
            kept += int((cosine[0] <= 0.9).sum())
    return time.perf_counter() - begun


def measured(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """What `call` returns, its seconds, and the highest memory of this process and its children in MiB."""
    peak, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.1):
            peak[0] = max(peak[0], _tree_mib())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    begun = time.perf_counter()
    try:
        result = call()
    finally:
        seconds = time.perf_counter() - begun
        done.set()
        watcher.join()
    return result, seconds, peak[0]


def _tree_mib() -> float:
    """Proportional memory where the system tells it: pages that processes share count once."""
    total = 0
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        try:
            full = process.memory_full_info()
            total += getattr(full, "pss", full.rss)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total / MIB


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
