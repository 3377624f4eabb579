"""`hindcast package`: what a Spark cluster is sent, so that its executors need nothing installed by hand.

Two files: `hindcast-VERSION.zip` with jobs and schemas (spark.submit.pyFiles), and `packages-….tar.gz` with the
third-party packages that tasks import (spark.archives), copied from the environment that runs this command, so that
executors compute with exactly the versions of the driver. Executors bring a bare Python of the same minor version.
"""

import json
import platform
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from packaging.requirements import Requirement

from jobs import __version__
from jobs.core import cli
from jobs.core.context import code_sha256
from jobs.core.errors import MachineError, UsageError
from jobs.core.spark import home

package_app = typer.Typer(help="Archives for the executors of a Spark cluster.", no_args_is_help=True)

TASK_PACKAGES = ("polars", "pyarrow", "numpy", "scipy", "deltalake", "pydantic", "orjson", "isal", "tenacity",
                 "threadpoolctl", "phonenumbers", "python-stdnum", "faiss-cpu")  # fmt: skip
"""What functions that run as tasks import, without what only drivers do (torch, Great Expectations): 0.7 of 7 GiB."""

_LEFT_OUT = re.compile(r"(^|/)(tests?|__pycache__)/|\.pyc$|\.(h|hpp|pxd|pyx)$|^\.\./|^/")
_OWN = ("jobs", "schemas")


def closure(names: Iterable[str]) -> list[str]:
    """The named distributions and everything that they require here, without extras, sorted."""
    found: dict[str, metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = _canonical(waiting.pop())
        if name not in found:
            found[name] = _installed(name)
            needs = (Requirement(text) for text in found[name].requires or [])
            waiting += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return sorted(found)


def write_code(folder: Path, *, root: Path, versions: dict[str, str]) -> Path:
    """The zip of jobs and schemas below `root`, package data included; entries carry no times, so equal code is equal.

    Its comment tells sessions what it was made of (jobs.core.spark.check_fresh).
    """
    target = folder / f"hindcast-{__version__}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = json.dumps({"code": code_sha256(), "packages": versions}, sort_keys=True).encode()
        for path in sorted(p for part in _OWN for p in (root / part).rglob("*") if p.is_file()):
            name = path.relative_to(root).as_posix()
            if not _LEFT_OUT.search(name):
                archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return target


def write_packages(folder: Path, names: Iterable[str]) -> Path:
    """The archive of those distributions, unpacked side by side; named after the Python and machine it fits."""
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    target = folder / f"packages-{python}-{platform.system().lower()}-{platform.machine()}.tar.gz"
    with tarfile.open(target, "w:gz", compresslevel=1) as archive:
        for source, name in _files_of(names):
            archive.add(source, arcname=name, recursive=False)
    return target


def _files_of(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        for file in _installed(name).files or []:
            place = file.locate()
            if not _LEFT_OUT.search(str(file)) and Path(place).is_file():
                yield str(place), str(file)


def _installed(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise MachineError(f"{name} is not installed here, and tasks need it: run `make setup`") from None


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cli.command(package_app, "package", example="hindcast package --out dist")
def package(
    out: Annotated[str, typer.Option("--out", help="Folder to write the two archives to.")] = "",
    json_: cli.JsonOption = False,
) -> None:
    """Write the archives that [spark] package names: code and packages for executors, from this environment."""
    if not out:
        raise UsageError("--out is missing: name the folder that the archives go to, such as dist")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("hindcast-*.zip"), *folder.glob("packages-*.tar.gz")):
        old.unlink()
    held = {name: metadata.version(name) for name in closure(TASK_PACKAGES)}
    code, packages = write_code(folder, root=home(), versions=held), write_packages(folder, held)
    summary: dict[str, Any] = {
        "code": str(code),
        "packages": str(packages),
        "distributions": held,
        "mib": round((code.stat().st_size + packages.stat().st_size) / (1 << 20), 1),
    }
    cli.finish(summary, as_json=json_, text=f"{code}\n{packages} ({summary['mib']} MiB)")
