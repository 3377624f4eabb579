"""What `hindcast doctor` finds, and what it says about a machine or set-up that lacks something."""

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from jobs.core.settings import Settings
from jobs.doctor import checks, jars

LOCK = """numpy==2.4.6 ; python_full_version < '3.0' \\
    --hash=sha256:aa
numpy==9.9.9 ; python_full_version >= '3.0' \\
    --hash=sha256:bb
polars==2.1.0 \\
    --hash=sha256:cc
"""


def test_pins_are_those_of_this_python() -> None:
    assert checks.pins(LOCK) == {"numpy": "9.9.9", "polars": "2.1.0"}


PACKAGES = [
    ("pytest", "", True, "", "no lock: being there is enough"),
    ("pytest", "0.0.1", False, "the lock says 0.0.1", "another version than the lock's"),
    ("no-such-package", "1", False, "make setup", "missing"),
]


@pytest.mark.parametrize(("name", "pinned", "ok", "advice", "reason"), PACKAGES)
def test_packages(name: str, pinned: str, ok: bool, advice: str, reason: str) -> None:
    found = checks.package(name, pinned)
    assert found.ok is ok, reason
    assert advice in found.advice


@pytest.fixture
def jar_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    listing = tmp_path / "list.sha256"
    listing.write_text(f"{hashlib.sha256(b'jar').hexdigest()}  a.jar\n")
    monkeypatch.setattr(jars, "LISTING", listing)
    (tmp_path / "a.jar").write_bytes(b"jar")
    return tmp_path


def test_jars_with_their_hashes_are_fine(jar_folder: Path) -> None:
    assert checks.delta_jars(jar_folder).ok


def test_a_changed_jar_is_found(jar_folder: Path) -> None:
    (jar_folder / "a.jar").write_bytes(b"jaR")
    found = checks.delta_jars(jar_folder)
    assert not found.ok
    assert "a.jar has sha256" in found.found


def test_a_missing_jar_is_found(jar_folder: Path) -> None:
    (jar_folder / "a.jar").unlink()
    assert checks.delta_jars(jar_folder).found == "a.jar is missing"


def test_no_java_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    found = checks.java()
    assert not found.ok
    assert "Java 17 or 21 is needed" in found.advice


@pytest.mark.parametrize(("name", "ok"), [("all-MiniLM-L6-v2", True), ("no/such-model", False)])
def test_the_model_is_looked_for_on_disk(name: str, ok: bool) -> None:
    found = checks.model(name)
    assert found.ok is ok
    assert bool(found.advice) is not ok


def test_a_store_that_cannot_be_written_is_found(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    assert checks.store(Settings(root=str(tmp_path), store="store/")).ok
    assert not checks.store(Settings(root=str(tmp_path), store="file/store")).ok


class _Models(BaseHTTPRequestHandler):
    answer = b'{"data":[{"id":"small"}]}'

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        """Quiet: the assertions say what matters."""


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Models) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}/v1"
        running.shutdown()


def _endpoint(base_url: str, model: str, judge: str = "openai") -> checks.Finding:
    return checks.endpoint(Settings(judging={"judge": judge, "base_url": base_url, "model": model}))


def test_an_endpoint_that_serves_the_model(server: str) -> None:
    assert _endpoint(server, "small").ok


def test_an_endpoint_without_the_model_names_what_it_serves(server: str) -> None:
    found = _endpoint(server, "large")
    assert not found.ok
    assert "serves small, not large" in found.advice


def test_an_endpoint_that_is_down() -> None:
    found = _endpoint("http://127.0.0.1:9/v1", "small")
    assert not found.ok
    assert "does not answer" in found.advice


def test_the_offline_judge_needs_no_endpoint() -> None:
    assert _endpoint("", "", judge="offline-baseline").ok


def test_the_command_ends_with_one_json_object_and_its_exit_code() -> None:
    command = [sys.executable, "-m", "jobs", "doctor", "--base-url", "http://127.0.0.1:9/v1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    body = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 1
    assert "endpoint" in body["wrong"]
    assert body["ok"] is False
