"""Judging against a bare asyncio + openai loop, memory at 100,000 pages, and a cached second run.

    python -m benchmarks.judging            all figures; exit code 1 if a bound is missed
    python -m benchmarks.judging --quick    throughput only

Both sides ask the same loopback endpoint, which answers after 200 ms; runs are interleaved and medians compared.
"""

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

from benchmarks.endpoint import fixed_endpoint
from benchmarks.lines import Line, at_least, at_most, emit

SLOTS, DELAY_S, CALLS, RUNS = 64, 0.2, 2500, 5
MANY = 100_000
BOUNDS = {"throughput": 0.90, "cpu": 1.25, "memory_mib": 500, "second_run_s": 30}


def bare_loop(base_url: str) -> dict:
    """The loop that one would write first: asyncio, openai and a semaphore, nothing stored or parsed."""
    from openai import AsyncOpenAI

    async def run() -> dict:
        async with AsyncOpenAI(base_url=base_url, api_key="none") as client:
            gate = asyncio.Semaphore(SLOTS)

            async def one(i: int) -> object:
                async with gate:
                    message = {"role": "user", "content": "x" * 3000 + str(i)}
                    return await client.chat.completions.create(model="m", temperature=0, messages=[message])

            return await _timed(asyncio.gather(*(one(i) for i in range(CALLS))), CALLS)

    return asyncio.run(run())


async def _timed(work: object, calls: int) -> dict:
    wall, cpu = time.perf_counter(), time.process_time()
    await work
    return _figures(calls, wall, cpu)


def _figures(calls: int, wall: float, cpu: float) -> dict:
    seconds, spent = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"calls_a_second": calls / seconds, "cpu_ms": spent / calls * 1000, "seconds": seconds, "memory_mib": peak}


def product(base_url: str, folder: str, out: str) -> dict:
    """The product: pages and cards from files, prompts, calls, parsing, label store, judgments in order."""
    from jobs.core.progress import Progress
    from jobs.judging.file_mode import run_files
    from jobs.judging.job import file_job

    room = Path(folder)
    over = {"judge": "openai", "base_url": base_url, "model": "m", "variants": ["qri"], "slots": SLOTS}
    files = {"pages": str(room / "pages.jsonl"), "cards": str(room / "cards.jsonl"), "out": str(room / out)}
    wall, cpu = time.perf_counter(), time.process_time()
    job = file_job(over, config="", labels="", retry="", **files)
    summary = run_files(job, Progress(None))
    figures = _figures(max(1, summary["written"]), wall, cpu)
    return figures | {"labels": summary["labels"], "asked": summary["asked"]}


def write_input(folder: Path, *, pages: int) -> None:
    """Pages of four items, each item with a card of four rows."""
    with (folder / "pages.jsonl").open("w") as page_file, (folder / "cards.jsonl").open("w") as card_file:
        for n in range(pages):
            titles = [f"title {k} of the song number {n}" for k in range(1, 5)]
            items = [{"item_id": f"i{n}-{k}", "rank": k, "title": t} for k, t in enumerate(titles, start=1)]
            page = {"page_id": f"p{n}", "locale": "en", "query": f"a song with the number {n}", "items": items}
            page_file.write(json.dumps(page) + "\n")
            for item in items:
                rows = [{"query": f"earlier query {r} near {n}", "relevance": 0.1 * r, "impressions": 90 * r,
                         "clicks": 9 * r, "ctr": 0.1, "similarity": 0.9 - 0.1 * r} for r in range(1, 5)]  # fmt: skip
                card = {"page_id": page["page_id"], "item_id": item["item_id"], "rows": rows}
                card_file.write(json.dumps(card) + "\n")


def in_process(*arguments: str) -> dict:
    """Run one side in a process of its own and read its figures."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.judging", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def throughput(room: Path) -> dict:
    """Medians over interleaved runs of both sides."""
    write_input(room, pages=CALLS)
    sides: dict[str, list[dict]] = {"bare": [], "product": []}
    with fixed_endpoint(DELAY_S) as url:
        for n in range(RUNS):
            sides["bare"].append(in_process("--bare", url))
            sides["product"].append(in_process("--product", url, str(room), f"j{n}.jsonl"))
            print(f"  run {n + 1} of {RUNS}: bare {sides['bare'][-1]['calls_a_second']:.1f} calls/s,"
                  f" product {sides['product'][-1]['calls_a_second']:.1f} calls/s", flush=True)  # fmt: skip
    wrong = [run for run in sides["product"] if run["labels"] != CALLS or run["asked"] != CALLS]
    if wrong:
        raise SystemExit(f"the product labelled {wrong[0]['labels']} of {CALLS} pages: nothing to time")
    medians = {name: {k: statistics.median(run[k] for run in runs) for k in runs[0]} for name, runs in sides.items()}
    return medians | {"ratio": {k: _ratio(sides, k) for k in ("calls_a_second", "cpu_ms")}}


def _ratio(sides: dict[str, list[dict]], figure: str) -> float:
    """Median over the runs of product / bare: the two of one run met the same load of the machine."""
    pairs = zip(sides["product"], sides["bare"], strict=True)
    return statistics.median(ours[figure] / bare[figure] for ours, bare in pairs)


def many(room: Path) -> dict:
    """Memory of a run over 100,000 pages, and the time of a second run that finds every label."""
    write_input(room, pages=MANY)
    with fixed_endpoint(0.0) as url:
        first = in_process("--product", url, str(room), "j.jsonl")
        second = in_process("--product", url, str(room), "j.jsonl")
    if first["labels"] != MANY or second["labels"] != MANY or second["asked"]:
        raise SystemExit(f"{first['labels']} and {second['labels']} labels, {second['asked']} asked again")
    return {"first": first, "second": second}


def lines_of(figures: dict) -> list[Line]:
    """One line a figure."""
    bare, ours = figures["throughput"]["bare"], figures["throughput"]["product"]
    ratio = figures["throughput"]["ratio"]
    said = (
        f"product {ours['calls_a_second']:.1f}, bare loop {bare['calls_a_second']:.1f}, ideal {SLOTS / DELAY_S:.0f};"
        f" openai {metadata.version('openai')}"
    )
    name = f"judging at {SLOTS} slots, {DELAY_S * 1000:.0f} ms: calls/s / bare loop"
    cpu = f"product {ours['cpu_ms']:.2f} ms, bare loop {bare['cpu_ms']:.2f} ms"
    lines = [
        at_least(name, ratio["calls_a_second"], BOUNDS["throughput"], note=said),
        at_most("judging, processor time a call / bare loop", ratio["cpu_ms"], BOUNDS["cpu"], note=cpu),
    ]
    if "many" in figures:
        memory, seconds = figures["many"]["first"]["memory_mib"], figures["many"]["second"]["seconds"]
        lines += [
            at_most(f"judging {MANY:,} pages, peak memory, MiB", memory, BOUNDS["memory_mib"]),
            at_most(f"judging {MANY:,} pages, second run, s", seconds, BOUNDS["second_run_s"]),
        ]
    return lines


def main(*, quick: bool) -> int:
    """Measure, print the table, return the exit code."""
    figures = {}
    with tempfile.TemporaryDirectory() as room:
        figures["throughput"] = throughput(Path(room))
    if not quick:
        with tempfile.TemporaryDirectory() as room:
            figures["many"] = many(Path(room))
    return emit(lines_of(figures), name="judging")


if __name__ == "__main__":
    if "--bare" in sys.argv:
        print(json.dumps(bare_loop(sys.argv[2])))
    elif "--product" in sys.argv:
        print(json.dumps(product(*sys.argv[2:5])))
    else:
        sys.exit(main(quick="--quick" in sys.argv))
