"""The class archive: used only where it is, one name for each Java and pyspark, and no reason to fail."""

import subprocess
from pathlib import Path

import pytest

from jobs.core import class_data


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a pyspark and a Java, both of them names only."""
    (tmp_path / ".venv/lib/python3.11/site-packages/pyspark/jars").mkdir(parents=True)
    (tmp_path / "jdk/bin").mkdir(parents=True)
    (tmp_path / "jdk/bin/java").write_text("")
    monkeypatch.setenv("HINDCAST_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    return tmp_path


def test_without_an_archive_there_are_no_flags(machine: Path) -> None:
    assert class_data.archive().parent == machine / ".cache"
    assert class_data.options() == ""


def test_with_an_archive_the_flags_name_it_and_keep_a_misfit_quiet(machine: Path) -> None:
    path = class_data.archive()
    path.parent.mkdir()
    path.touch()
    assert class_data.options().split() == [f"-XX:SharedArchiveFile={path}", "-Xlog:cds*=off"]


@pytest.mark.parametrize("gone", ["jdk/bin/java", ".venv/lib/python3.11/site-packages/pyspark/jars"])
def test_without_java_or_pyspark_there_is_none(machine: Path, gone: str) -> None:
    (machine / gone).rename(machine / "elsewhere")
    assert class_data.archive() is None
    assert class_data.options() == ""
    assert class_data.main() == 0


def test_another_java_has_another_archive(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = class_data.archive()
    (machine / "other/bin").mkdir(parents=True)
    (machine / "other/bin/java").write_text("")
    monkeypatch.setenv("JAVA_HOME", str(machine / "other"))
    assert class_data.archive() != first


def test_a_jvm_that_cannot_write_one_fails_nothing(machine: Path, monkeypatch, capsys) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "no space left on device")
    monkeypatch.setattr(class_data.subprocess, "run", lambda *args, **options: failed)
    assert class_data.main() == 0
    assert "no space left on device" in capsys.readouterr().out
    assert class_data.options() == ""


def test_a_new_archive_takes_the_place_of_the_old_ones(machine: Path, monkeypatch) -> None:
    (machine / ".cache").mkdir()
    old = machine / ".cache/spark-of-an-older-java.jsa"
    old.touch()

    def dumped(command: list[str], **options: object) -> subprocess.CompletedProcess:
        Path(command[-1]).write_text("classes")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(class_data.subprocess, "run", dumped)
    assert class_data.main() == 0
    assert class_data.archive().read_text() == "classes"
    assert not old.exists()
