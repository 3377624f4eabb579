"""Spark's daemon for Python workers on this machine, without the archives that Spark puts in front of the packages.

Spark hands its workers pyspark.zip and its own 15 MB jar on the path, although the same pyspark is installed. Python
compiles what it imports from an archive anew in every process, and reads the directory of every archive again whenever
import caches are dropped, which a worker does at each task: .4 s a session and .1 s a task, measured on Spark 4.1.3.

Started by Spark as `python -m jobs.core.python_daemon pyspark.worker` (`spark.python.daemon.module`).
"""

import sys
from importlib.util import find_spec


def without_archives(path: list[str]) -> list[str]:
    """The entries of a module path that are neither zip archives nor jars."""
    return [entry for entry in path if not entry.endswith((".zip", ".jar"))]


def main() -> None:
    """Serve forks until Spark closes the standard input; the archives stay where no other pyspark is installed."""
    given = list(sys.path)
    sys.path[:] = without_archives(given)
    if find_spec("pyspark") is None:
        sys.path[:] = given
    sys.path_importer_cache.clear()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
