"""Spark's daemon for Python workers on this machine, without the archives that Spark puts in front of the packages.

Spark hands its workers pyspark.zip and its own 15 MB jar on the path, although the same pyspark is installed. Python
compiles what it imports from an archive anew in every process, and reads the directory of every archive again whenever
import caches are dropped, which a worker does at each task: .4 s a session and .1 s a task, measured on Spark 4.1.3.

Started by Spark as `python -m jobs.core.python_daemon pyspark.worker` (`spark.python.daemon.module`).
"""

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any


def without_archives(path: list[str]) -> list[str]:
    """The entries of a module path that are neither zip archives nor jars."""
    return [entry for entry in path if not entry.endswith((".zip", ".jar"))]


def quietly(worker: Callable[..., int]) -> Callable[..., int]:
    """The worker of a fork, which ends with code 1 instead of a stack trace where Spark has closed its socket."""

    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except BrokenPipeError:
            return 1

    return run


def main() -> None:
    """Serve forks until Spark closes the standard input; the archives stay where no other pyspark is installed."""
    given = list(sys.path)
    sys.path[:] = without_archives(given)
    if find_spec("pyspark") is None:
        sys.path[:] = given
    sys.path_importer_cache.clear()
    from pyspark import daemon

    daemon.worker = quietly(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    main()
