"""One side of a benchmark in a process of its own: wall seconds, processor seconds and peak memory of its tree.

Memory is the resident set (RSS) summed over the process and all of its descendants, sampled; pages that processes
share count in each of them, and no heap setting enters. Java processes that were seen are counted too.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

EVERY_S = 0.05
LAUNCHER = "org.apache.spark.launcher.Main"
GIB = 2**30


@dataclass(kw_only=True)
class Usage:
    """What a process tree used: seconds by the clock and of the processor, peak bytes, and when its JVMs started.

    `jvms` counts a JVM once by process; the short-lived launcher with which Spark's scripts put their command together
    is none.
    """

    seconds: float = 0.0
    processor: float = 0.0
    peak: int = 0
    jvms: dict[int, float] = field(default_factory=dict)
    told: Any = None

    @property
    def gib(self) -> float:
        """Peak memory in GiB."""
        return self.peak / GIB


def run_side(command: Sequence[object], *, env: dict[str, str] | None = None, log: Path | None = None) -> Usage:
    """Run a command to its end and say what its tree used; `told` is the JSON of its last line, if it is JSON.

    Raises SystemExit with the end of its messages if it fails. Its stderr goes to `log` where one is given.
    """
    with open(log or os.devnull, "w+", encoding="utf-8", errors="replace") as err:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=err if log else subprocess.PIPE,
            text=True,
            env=env,
        )
        with watching(process.pid) as usage:
            out, said = process.communicate()
        if process.returncode:
            tail = said or _tail(err)
            raise SystemExit(f"{' '.join(map(str, command[:6]))} ended with {process.returncode}: {tail[-3000:]}")
    usage.told = _last_json(out)
    return usage


def module(name: str, *arguments: object) -> list[object]:
    """The command that runs a module of this environment."""
    return [sys.executable, "-m", name, *arguments]


@contextmanager
def watching(pid: int) -> Iterator[Usage]:
    """Watch the tree of a running process while the body runs."""
    usage, ended, begun = Usage(), threading.Event(), time.perf_counter()
    watcher = threading.Thread(target=_watch, args=(pid, usage, ended.is_set), daemon=True)
    watcher.start()
    try:
        yield usage
    finally:
        usage.seconds = time.perf_counter() - begun
        ended.set()
        watcher.join()


def _watch(pid: int, usage: Usage, ended: Callable[[], bool]) -> None:
    """Sample until `ended`; processor seconds are the last ones seen of every process."""
    spent: dict[int, float] = {}
    while not ended():
        total = 0
        for one in _tree(pid):
            try:
                with one.oneshot():
                    total += one.memory_info().rss
                    spent[one.pid] = sum(one.cpu_times()[:2])
                    if one.name() == "java" and one.pid not in usage.jvms and LAUNCHER not in one.cmdline():
                        usage.jvms[one.pid] = one.create_time()
            except psutil.Error:
                continue
        usage.peak = max(usage.peak, total)
        usage.processor = sum(spent.values())
        time.sleep(EVERY_S)


def _tree(pid: int) -> list[psutil.Process]:
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.Error:
        return []


def _tail(file: Any) -> str:
    file.seek(0)
    return file.read()[-3000:]


def _last_json(out: str) -> Any:
    lines = out.strip().splitlines()
    try:
        return json.loads(lines[-1]) if lines else None
    except json.JSONDecodeError:
        return None
