"""The Delta jars: fetched with Maven or Spark's own Ivy, kept only if every hash of jobs/doctor/jars.sha256 agrees."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from jars import differences, expected
from machine import Missing

ROOT = Path(__file__).resolve().parent.parent
JARS = ROOT / ".jars"
COORDINATES = "io.delta:delta-spark_4.1_2.13:4.4.0"
GROUPS = "io.delta,io.unitycatalog"


def fetch() -> None:
    """Put the verified jars into .jars; Missing if one could not be fetched or has another hash."""
    if not differences(JARS):
        return
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as folder:
        found = Path(folder)
        if shutil.which("mvn"):
            _with_maven(found)
        else:
            _with_ivy(found)
        _verify(found)
        _move(found)


def _with_maven(folder: Path) -> None:
    command = ["mvn", "-q", "-B", "-f", str(ROOT / "setup" / "jars-pom.xml"), "dependency:copy-dependencies",
               f"-DoutputDirectory={folder}", f"-DincludeGroupIds={GROUPS}"]
    _run(command, environment=dict(os.environ))


def _with_ivy(folder: Path) -> None:
    """spark-submit resolves the packages before it finds that there is nothing to run.

    An empty user.home keeps Ivy from a half-filled ~/.m2, which makes it fail with "download failed"; slf4j is Spark's.
    """
    home = folder / "home"
    home.mkdir()
    nothing = folder / "nothing.py"
    nothing.write_text("")
    command = [str(ROOT / ".venv" / "bin" / "spark-submit"), "--master", "local[1]", "--packages", COORDINATES,
               "--conf", f"spark.jars.ivy={folder / 'ivy'}", "--conf", "spark.jars.excludes=org.slf4j:slf4j-api",
               str(nothing)]
    _run(command, environment={**os.environ, "SPARK_SUBMIT_OPTS": f"-Duser.home={home}", "SPARK_LOCAL_IP": "127.0.0.1",
                               "PYSPARK_PYTHON": str(ROOT / ".venv" / "bin" / "python")})
    for jar in (folder / "ivy" / "jars").glob("*.jar"):
        shutil.copy(jar, folder / jar.name.split("_", 1)[1])


def _run(command: list[str], *, environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = ([line for line in (done.stdout + done.stderr).splitlines() if line.strip()] or ["no output"])[-1]
        raise Missing(
            f"the Delta jars could not be fetched ({last.strip()[:300]}): check that this machine reaches a Maven"
            " repository (settings.xml may name a mirror) and run make setup again"
        )


def _verify(folder: Path) -> None:
    wrong = differences(folder)
    if wrong:
        raise Missing(f"the fetched jars are not those of this version ({'; '.join(wrong)}): do not use that source")


def _move(folder: Path) -> None:
    shutil.rmtree(JARS, ignore_errors=True)
    JARS.mkdir()
    for name in expected():
        shutil.copy(folder / name, JARS / name)
