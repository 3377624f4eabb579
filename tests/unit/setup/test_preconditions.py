"""What `make setup` says about a machine that lacks something."""

import os
import stat
from pathlib import Path

import pytest

from jobs.doctor import machine

JAVA_OUTPUTS = [
    ('openjdk version "17.0.15" 2025-04-15', 17, "Debian's 17"),
    ('openjdk version "1.8.0_402"', 8, "before 9 the major number stood second"),
    ('java version "21" 2023-09-19', 21, "a first release has one number"),
    ('openjdk version "25-ea" 2025-09-16', 25, "early access"),
    ("command not found", None, "no version at all"),
]


@pytest.mark.parametrize(("text", "version", "reason"), JAVA_OUTPUTS)
def test_java_version_is_read(text: str, version: int | None, reason: str) -> None:
    assert machine.java_version(text) == version, reason


def _java(folder: Path, version: str) -> Path:
    folder.mkdir(parents=True)
    path = folder / "java"
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


JAVAS = [("1.8.0_402", False), ("11.0.2", False), ("17.0.1", True), ("21.0.1", True), ("25.0.1", False)]
PYTHONS = [((3, 10, 9), False), ((3, 11, 0), True), ((3, 13, 1), True), ((3, 14, 0), False)]


@pytest.mark.parametrize(("version", "fits"), JAVAS)
def test_only_java_17_to_21_is_taken(tmp_path: Path, version: str, fits: bool) -> None:
    _java(tmp_path / "bin", version)
    environment = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}/usr/bin:/bin"}
    if fits:
        assert machine.check_java(environment) == int(version.split(".")[0])
        return
    with pytest.raises(machine.Missing, match="Java 17 or 21 is needed"):
        machine.check_java(environment)


def test_java_home_counts_before_the_path(tmp_path: Path) -> None:
    _java(tmp_path / "bin", "1.8.0_402")
    _java(tmp_path / "home" / "bin", "17.0.1")
    environment = {"PATH": str(tmp_path / "bin"), "JAVA_HOME": str(tmp_path / "home")}
    assert machine.check_java({**environment, "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}) == 17
    with pytest.raises(machine.Missing, match="JAVA_HOME has no"):
        machine.check_java({**environment, "JAVA_HOME": str(tmp_path)[:-1] + "/nowhere"})


def test_no_java_names_the_version_and_the_way_out() -> None:
    with pytest.raises(machine.Missing, match=r"Java 17 or 21 is needed, but there is no java.*install it"):
        machine.check_java({"PATH": "/nowhere"})


@pytest.mark.parametrize(("version", "fits"), PYTHONS)
def test_python_versions(version: tuple[int, ...], fits: bool) -> None:
    if fits:
        assert machine.check_python(version) is None
        return
    with pytest.raises(machine.Missing, match=r"Python 3\.11, 3\.12 or 3\.13 is needed"):
        machine.check_python(version)


def test_disk_space_says_how_much(tmp_path: Path) -> None:
    assert machine.check_disk(str(tmp_path), 0.001) is None
    with pytest.raises(machine.Missing, match=r"1000000 GiB of free disk space are needed .* GiB are there"):
        machine.check_disk(str(tmp_path), 1e6)
