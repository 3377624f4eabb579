"""An archive of Spark's loaded classes, from which a JVM on this machine starts in half the processor time.

`python -m jobs.core.class_data` makes it (once per Java and pyspark; `make setup` does), `options` are the JVM flags
that use it, empty without one. A JVM that finds the archive made by another Java or from other jars passes over it.
Imports nothing beyond the standard library, so that set-up code of any environment may ask.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

_QUIET = "-Xlog:cds*=off"  # an archive that does not fit is no news: the JVM loads its classes from the jars
_PATIENCE_S = 300.0


def archive() -> Path | None:
    """Where the archive of this machine's Java and the jobs environment's pyspark belongs; None if either lacks."""
    home = Path(os.environ.get("HINDCAST_HOME") or Path(__file__).resolve().parents[2])
    java_home = os.environ.get("JAVA_HOME")
    java = Path(java_home) / "bin" / "java" if java_home else shutil.which("java")
    jars = next(iter(sorted((home / ".venv" / "lib").glob("python3.*/site-packages/pyspark/jars"))), None)
    if java is None or jars is None or not Path(java).exists():
        return None
    real = Path(java).resolve()
    known = f"{real} {real.stat().st_mtime_ns} {jars} {jars.stat().st_mtime_ns}"
    return home / ".cache" / f"spark-{hashlib.sha256(known.encode()).hexdigest()[:12]}.jsa"


def options() -> str:
    """JVM flags that use the archive; an empty text if there is none."""
    path = archive()
    return f"-XX:SharedArchiveFile={path} {_QUIET}" if path and path.exists() else ""


def dump(target: str) -> None:
    """Start a local session, let it do a little of everything, and end its JVM, which then writes the archive."""
    from pyspark import SparkContext

    from jobs.core.settings import Spark
    from jobs.core.spark import SparkProvider, local_jvm

    flags = f"{local_jvm()} -XX:ArchiveClassesAtExit={target} {_QUIET}"
    settings = Spark(master="local[2]", conf={"spark.driver.extraJavaOptions": flags})
    provider = SparkProvider(settings, store_uri=str(Path(target).parent))
    session = provider.session
    session.sparkContext.parallelize([1, 2], 2).map(str).collect()
    session.createDataFrame([(1, "a"), (2, "b")], "n int, t string").groupBy("t").sum("n").collect()
    gateway = SparkContext._gateway
    provider.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=_PATIENCE_S)


def main() -> int:
    """Make the archive if it is not there; never a failure, since Spark starts without one too."""
    path = archive()
    if path is None or path.exists():
        return 0
    print("setup: class archive of Spark, 100 MB …", flush=True)  # noqa: T201 - part of what `make setup` says
    path.parent.mkdir(exist_ok=True)
    target = path.with_suffix(f".{os.getpid()}")
    command = [sys.executable, "-m", "jobs.core.class_data", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not target.exists():
        print(f"setup: no class archive ({done.stderr.strip()[-200:]}): Spark starts slower, all else works")  # noqa: T201
        return 0
    for old in path.parent.glob("spark-*.jsa"):
        old.unlink()
    target.rename(path)
    return 0


if __name__ == "__main__":
    sys.exit(dump(sys.argv[1]) if sys.argv[1:] else main())
