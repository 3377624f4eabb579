"""How long the pages and cards of a large night take, and how much memory: `python -m benchmarks.cards [pages|cards]`.

pages: 5,000 queries to about 6,000 pages from a store whose evaluation window holds 20 million rows of daily counts.
cards: 6,000 pages of 4 items with 200 historical queries each, embeddings given. Both run on Spark local[2], JVM start
apart. Where ../shared/peers stands beside the checkout, cards are compared with a bare FAISS loop on the same numbers.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from benchmarks.lines import Line, at_most

PEER = Path("../shared/peers/cards_direct.py")
MIB = 2**20


def main(chosen: list[str]) -> int:
    """Measure, print a table, keep it under out/bench; returns the exit code."""
    lines: list[Line] = []
    for name, measure in (("pages", _pages), ("cards", _cards)):
        if name in chosen or not chosen:
            with tempfile.TemporaryDirectory() as room:
                lines += measure(Path(room))
    for line in lines:
        print(f"{line.name:<70} {line.figure:>10} {line.bound:>12}  {line.verdict}  {line.note}")
    out = Path("out/bench")
    out.mkdir(parents=True, exist_ok=True)
    (out / "cards.json").write_text(json.dumps([vars(line) for line in lines], indent=1) + "\n", encoding="utf-8")
    missed = [line.name for line in lines if line.verdict == "FAIL"]
    print("bench-cards: " + (f"FAIL ({', '.join(missed)})" if missed else "all bounds met"))
    return 1 if missed else 0


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
        at_most("  peak memory of the process tree, GiB", memory / 1024, 4),
    ]


def _cards(room: Path) -> list[Line]:
    from benchmarks.large_store import RandomEncoder, card_night
    from jobs.cards import job

    ctx, encoder = card_night(room, pages=6000, items=4, per_item=200), RandomEncoder()
    job.embedder_for = lambda settings, say=None: encoder  # embeddings are given: only what comes after is measured
    _ = ctx.spark.session
    summary, seconds, memory = measured(lambda: job.run(ctx))
    ctx.spark.stop()
    spent = seconds - encoder.seconds
    lines = [
        at_most("cards of 6,000 pages x 4 items x 200 queries, s", spent, 60, note=f"{summary['compared']:,} compared"),
        at_most("  peak memory of the process tree, GiB", memory / 1024, 4),
    ]
    return lines + ([_against_peer(spent)] if PEER.exists() else [])


def _against_peer(seconds: float) -> Line:
    done = subprocess.run(
        [sys.executable, str(PEER), "6000", "4", "200"], capture_output=True, text=True, check=True, timeout=600
    )
    peer = float(done.stdout.split()[2])
    return at_most("  times the bare FAISS loop (which reads and writes nothing)", seconds / peer, 12, note=f"{peer} s")


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
