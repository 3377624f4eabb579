"""Nothing but loopback can be reached: in tests, in the processes they start, and in what `make demo` runs in."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import refuse_network

from schemas.environment import SILENT, apply, environment

ROOT = Path(__file__).resolve().parents[3]
OUTSIDE = ("198.51.100.7", 443)  # an address of the block for documentation: nobody's


HOSTS = [
    ("127.0.0.1", True),
    ("::1", True),
    ("localhost", True),
    (None, True),
    (b"127.8.8.8", True),
    ("198.51.100.7", False),
    ("hub.example", False),
    ("10.0.0.1", False),
]


@pytest.mark.parametrize(("host", "local"), HOSTS)
def test_what_is_local(host: object, local: bool) -> None:
    assert refuse_network.is_local(host) is local


def test_a_connection_outside_is_refused_here() -> None:
    with socket.socket() as client, pytest.raises(refuse_network.NetworkRefused, match=r"198\.51\.100\.7"):
        client.connect(OUTSIDE)


def test_a_look_up_is_refused_here() -> None:
    with pytest.raises(refuse_network.NetworkRefused, match=r"hub\.example"):
        socket.getaddrinfo("hub.example", 443)


def test_loopback_works() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        threading.Thread(target=lambda: server.accept()[0].sendall(b"here"), daemon=True).start()
        with socket.create_connection(server.getsockname()) as client:
            assert client.recv(4) == b"here"


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_processes_that_tests_start_refuse_too() -> None:
    assert "NetworkRefused" in _python(f"import socket; socket.create_connection({OUTSIDE!r}, timeout=5)")


def test_the_guard_of_the_demo_holds_its_command() -> None:
    code = f"import socket; socket.create_connection({OUTSIDE!r}, timeout=5)"
    variables = {k: v for k, v in os.environ.items() if k not in ("LOOPBACK_ONLY", "PYTHONPATH")}
    command = [sys.executable, str(ROOT / "setup" / "no_network.py"), sys.executable, "-c", code]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("network: ")
    assert "NetworkRefused" in done.stderr or "unreachable" in done.stderr


def test_importing_jobs_silences_every_library() -> None:
    names = sorted(environment(ROOT))
    printed = _python(f"import os, jobs; print([os.environ.get(n) for n in {names!r}])")
    assert "None" not in printed
    assert SILENT["HF_HUB_OFFLINE"] == "1"


def test_a_value_that_is_set_wins() -> None:
    own = {"HF_HOME": "elsewhere"}
    apply(own, home=ROOT)
    assert own["HF_HOME"] == "elsewhere"
    assert own["GX_ANALYTICS_ENABLED"] == "false"
