"""What executors are sent: all code with its data and nothing else, and whole distributions with what they require."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from jobs.core.errors import MachineError
from jobs.core.spark import shipped
from jobs.package import closure, write_code, write_packages

ROOT = Path(__file__).resolve().parents[3]


def test_the_code_is_whole_and_the_same_every_time(tmp_path):
    first = write_code(tmp_path, root=ROOT, versions={}).read_bytes()
    target = write_code(tmp_path, root=ROOT, versions={})
    assert target.read_bytes() == first, "no times in it: the same code is the same file"
    names = set(zipfile.ZipFile(target).namelist())
    code = {p.relative_to(ROOT).as_posix() for part in ("jobs", "schemas") for p in (ROOT / part).rglob("*.py")}
    assert code <= names
    assert any(n.startswith("jobs/judging/prompts/") for n in names), "package data too"
    assert not [n for n in names if n.endswith(".pyc") or "__pycache__" in n or n.startswith(("tests", "dags"))]


def test_code_runs_from_the_archive(tmp_path):
    target = write_code(tmp_path, root=ROOT, versions={})
    code = "import jobs.core.keys, schemas.catalog as c; print(jobs.core.keys.__file__, len(c.TABLES))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(target)},
                          capture_output=True, text=True, check=True)  # fmt: skip
    place, tables = done.stdout.split()
    assert place.startswith(str(target)) and int(tables) >= 15


def test_a_distribution_comes_with_what_it_requires_here():
    found = closure(["pydantic"])
    assert {"pydantic", "pydantic-core", "annotated-types", "typing-extensions"} <= set(found)
    assert "email-validator" not in found, "extras are not asked for"
    assert closure(["Pydantic"]) == found == sorted(found)


def test_what_is_not_installed_is_named():
    with pytest.raises(MachineError, match="no-such-package is not installed here"):
        closure(["no_such.package"])


def test_packages_are_importable_side_by_side(tmp_path):
    archive = write_packages(tmp_path, closure(["tenacity", "orjson"]))
    write_code(tmp_path, root=ROOT, versions={})
    assert shipped(tmp_path)[1] == archive
    with tarfile.open(archive) as packed:
        names = packed.getnames()
        packed.extractall(tmp_path / "packages", filter="data")
    assert not [n for n in names if n.startswith(("/", "..")) or "__pycache__" in n]
    code = "import tenacity, orjson; print(tenacity.__file__); print(orjson.dumps([1]))"
    done = subprocess.run([sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(tmp_path / "packages")},
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout.splitlines() == [str(tmp_path / "packages" / "tenacity" / "__init__.py"), "b'[1]'"]
