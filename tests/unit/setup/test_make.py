"""`make` on machines that lack something, and that nothing is made twice."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "setup"), str(ROOT / "jobs" / "doctor")]

import prepare  # noqa: E402 - set-up is no package


def _make(target: str, *, path: str, **variables: str) -> subprocess.CompletedProcess:
    left_out = ("JAVA_HOME", "PYTHONPATH", "MAKEFLAGS", "MAKELEVEL")
    environment = {k: v for k, v in os.environ.items() if k not in left_out} | {"PATH": path, **variables}
    command = ["make", target]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("target", ["demo", "test", "setup"])
def test_an_old_java_first_on_the_path_stops_with_the_version_needed(tmp_path: Path, target: str) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    done = _make(target, path=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert done.returncode != 0
    (sentence, *rest) = done.stderr.splitlines()
    assert sentence.startswith("setup: Java 17 or 21 is needed, but")
    assert "version 8" in sentence
    assert all(line.startswith("make") for line in rest), "one sentence, no traceback"


def test_no_python_stops_with_the_versions_needed() -> None:
    done = _make("setup", path=os.environ["PATH"], PYTHON="no-such-python")
    assert done.returncode != 0
    assert "Python 3.11, 3.12 or 3.13 is needed, but there is no no-such-python" in done.stderr + done.stdout


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> prepare.Stage:
    monkeypatch.setattr(prepare, "ROOT", tmp_path)
    monkeypatch.setattr(prepare, "STAMPS", tmp_path / "stamps")
    (tmp_path / "stamps").mkdir()
    (tmp_path / "setup").mkdir()
    for name in ("lock.txt", "setup/prepare.py"):
        (tmp_path / name).write_text("one")
    make = (tmp_path / "made").touch
    return prepare.Stage(name="s", meaning="m", inputs=("lock.txt",), product="made", gib=0, make=make)


def test_a_stage_is_made_once(stage: prepare.Stage) -> None:
    assert not stage.fresh()
    stage.run()
    assert stage.fresh()


@pytest.mark.parametrize("change", ["lock.txt", "setup/prepare.py", "made"])
def test_a_stage_is_made_again_when_something_changed(stage: prepare.Stage, tmp_path: Path, change: str) -> None:
    stage.run()
    path = tmp_path / change
    path.unlink() if change == "made" else path.write_text("two")
    assert not stage.fresh()


def test_a_stage_that_failed_is_not_fresh(stage: prepare.Stage, tmp_path: Path) -> None:
    stage.run()
    broken = prepare.Stage(**{**vars(stage), "make": lambda: (_ for _ in ()).throw(prepare.Missing("no network"))})
    with pytest.raises(prepare.Missing):
        broken.run()
    assert not stage.fresh()


def test_a_failing_command_becomes_one_sentence_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(prepare.Missing, match=r"`sh -c .*failed \(error: no route\): check the network") as caught:
        prepare._run(["sh", "-c", "echo noise; echo 'error: no route' >&2; echo hint >&2; exit 2"], "check the network")
    assert "\n" not in str(caught.value)
