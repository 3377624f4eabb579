"""The benchmarks' own peers against the shared ones on the same input: `python -m benchmarks.peers`.

A user has only this checkout, so each benchmark carries its peer; that none of them is slow is checked here where
../shared/peers stands beside it. The re-scans of DuckDB and Polars are checked by `benchmarks.night`.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.endpoint import fixed_endpoint
from benchmarks.lines import Line, at_most, emit
from benchmarks.measure import module

SHARED = Path("../shared/peers")
ROUNDS, WITHIN = 3, 1.3
SLOTS, CALLS = 64, 1280


def shared(name: str, *arguments: object, word: int) -> float:
    """The figure that a shared peer prints as its `word`-th word."""
    command = [sys.executable, str(SHARED / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[word])


def own(expression: str) -> float:
    """Seconds that a benchmark's own peer tells, in a process of its own."""
    command = [sys.executable, "-c", f"import benchmarks.peers as peers; print({expression})"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def bootstrap() -> float:
    """Seconds of 200 samples of 6,000 pages."""
    from benchmarks.reports import loop_seconds

    return loop_seconds(200)


def cards() -> float:
    """Seconds of 1,000 pages of 4 items with 200 queries each."""
    from benchmarks.cards import bare_loop

    return bare_loop(pages=1000)


def em(path: str) -> float:
    """Seconds of plain EM on planted counts."""
    from benchmarks.propensity import numpy_em

    with np.load(path) as file:
        data = {name: file[name] for name in file.files}
    begun = time.perf_counter()
    numpy_em(data)
    return time.perf_counter() - begun


def _planted(path: Path) -> None:
    from benchmarks.planted_counts import two_rankers
    from jobs.propensity.estimators import pair_counts

    cells = pair_counts(two_rankers(0, queries=3000), max_rank=10, max_queries=3000).cells
    np.savez(path, **vars(cells))


def _calls_ratio() -> float:
    """The shared loop's calls a second over those of the own one."""
    with fixed_endpoint(0.2) as url:
        theirs = shared("bare_loop.py", url, SLOTS, CALLS, word=1)
        done = subprocess.run(
            list(map(str, module("benchmarks.judging", "--bare", url))), capture_output=True, text=True, check=True
        )
    return theirs / json.loads(done.stdout.splitlines()[-1])["calls_a_second"]


def main() -> int:
    """Measure, print, and return the exit code."""
    if not SHARED.exists():
        return emit([Line("own peers / shared ones", "-", note="../shared/peers is not beside here")], name="peers")
    with tempfile.TemporaryDirectory() as room:
        counts = Path(room) / "counts.npz"
        _planted(counts)
        pairs = {
            "bootstrap loop": lambda: own("peers.bootstrap()") / shared("bootstrap_loop.py", 6000, 200, word=2),
            "cards in FAISS": lambda: own("peers.cards()") / shared("cards_direct.py", 1000, 4, 200, word=2),
            "EM in numpy": lambda: own(f"peers.em({str(counts)!r})") / shared("numpy_em.py", counts, word=2),
            "bare judging loop": _calls_ratio,
        }
        lines = []
        for name, ratio in pairs.items():
            print(f"  {name} …", file=sys.stderr, flush=True)
            measured = median(ratio() for _ in range(ROUNDS))
            lines.append(at_most(f"own {name} / the shared one, time", measured, WITHIN))
    return emit(lines, name="peers")


if __name__ == "__main__":
    sys.exit(main())
