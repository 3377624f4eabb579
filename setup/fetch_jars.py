"""Jars: fetched with Maven or Spark's own Ivy, kept only if every committed hash agrees."""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from jars import LISTING, differences, expected
from machine import Missing

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, kw_only=True)
class Jars:
    """A set of jars: where it goes, the committed hashes, and how Maven and Ivy name it."""

    name: str
    folder: Path
    listing: Path
    pom: Path
    coordinates: str
    groups: str


DELTA = Jars(name="Delta", folder=ROOT / ".jars", listing=LISTING, pom=ROOT / "setup" / "jars-pom.xml",
             coordinates="io.delta:delta-spark_4.1_2.13:4.4.0", groups="io.delta,io.unitycatalog")  # fmt: skip
S3A = Jars(name="s3a", folder=ROOT / ".jars-s3a", listing=ROOT / "setup" / "s3a.sha256",
           pom=ROOT / "setup" / "s3a-pom.xml", groups="org.apache.hadoop,software.amazon.awssdk",
           coordinates="org.apache.hadoop:hadoop-aws:3.4.2,software.amazon.awssdk:bundle:2.29.52")  # fmt: skip


def fetch(jars: Jars) -> None:
    """Put the verified jars into their folder; Missing if one could not be fetched or has another hash."""
    if not differences(jars.folder, jars.listing):
        return
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as folder:
        found = Path(folder)
        if shutil.which("mvn"):
            _with_maven(jars, found)
        else:
            _with_ivy(jars, found)
        _verify(jars, found)
        _move(jars, found)


def _with_maven(jars: Jars, folder: Path) -> None:
    command = ["mvn", "-q", "-B", "-f", str(jars.pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}",
               f"-DincludeGroupIds={jars.groups}"]  # fmt: skip
    _run(jars, command, environment=dict(os.environ))


def _with_ivy(jars: Jars, folder: Path) -> None:
    """spark-submit resolves the packages before it finds that there is nothing to run.

    An empty user.home keeps Ivy from a half-filled ~/.m2, which makes it fail with "download failed"; slf4j is Spark's.
    """
    home = folder / "home"
    home.mkdir()
    nothing = folder / "nothing.py"
    nothing.write_text("")
    command = [str(ROOT / ".venv" / "bin" / "spark-submit"), "--master", "local[1]", "--packages", jars.coordinates,
               "--conf", f"spark.jars.ivy={folder / 'ivy'}", "--conf", "spark.jars.excludes=org.slf4j:slf4j-api",
               str(nothing)]  # fmt: skip
    _run(jars, command, environment={**os.environ, "SPARK_SUBMIT_OPTS": f"-Duser.home={home}",
                                     "SPARK_LOCAL_IP": "127.0.0.1",
                                     "PYSPARK_PYTHON": str(ROOT / ".venv" / "bin" / "python")})  # fmt: skip
    for jar in (folder / "ivy" / "jars").glob("*.jar"):
        shutil.copy(jar, folder / jar.name.split("_", 1)[1])


def _run(jars: Jars, command: list[str], *, environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = ([line for line in (done.stdout + done.stderr).splitlines() if line.strip()] or ["no output"])[-1]
        raise Missing(
            f"the {jars.name} jars could not be fetched ({last.strip()[:300]}): check that this machine reaches a Maven"
            " repository (settings.xml may name a mirror) and run make setup again"
        )


def _verify(jars: Jars, folder: Path) -> None:
    wrong = differences(folder, jars.listing)
    if wrong:
        raise Missing(f"the fetched jars are not those of this version ({'; '.join(wrong)}): do not use that source")


def _move(jars: Jars, folder: Path) -> None:
    shutil.rmtree(jars.folder, ignore_errors=True)
    jars.folder.mkdir()
    for name in expected(jars.listing):
        shutil.move(folder / name, jars.folder / name)
