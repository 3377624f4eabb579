"""A standalone Spark master with two worker processes on loopback, an S3-compatible server, and nights on them.

Workers know nothing of the checkout: they run in a folder of their own, without PYTHONPATH, and the only Python on
their PATH is the one that the environments were made from, without packages.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyspark
import pytest
from pyarrow import fs

from jobs.core.tables import Store
from tests.e2e.conftest import NIGHT, ROOT, night, tiny  # noqa: F401 - fixtures

SPARK_HOME = Path(pyspark.__file__).parent
SERVER = ROOT / ".venv-object-store" / "bin" / "moto_server"
INPUTS = ("hindcast.toml", "logs", "items", "documents", "retrieval", "labels")
SECRET = "planted/secret+access0key1that2no3file4may5hold"
BUCKET = "store-of-a-night"
DEADLINE_S = 120  # of a process that should answer; most take five seconds


@dataclass
class Cluster:
    """The running processes: a master and workers by name, and where they write."""

    folder: Path
    url: str
    web: str
    workers: dict[str, psutil.Popen] = field(default_factory=dict)

    def state(self) -> dict:
        """What the master says of itself."""
        with urllib.request.urlopen(f"{self.web}/json/", timeout=10) as answer:
            return json.load(answer)

    def alive(self) -> int:
        """Workers that the master counts on."""
        return self.state()["aliveworkers"]

    def texts(self) -> str:
        """Everything that master, workers and executors have logged."""
        paths = [p for p in self.folder.rglob("*") if p.is_file() and p.name in ("stdout", "stderr", "log")]
        return "\n".join(p.read_text(errors="replace") for p in paths)


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def until(done, what: str, *, seconds: float = DEADLINE_S) -> None:
    """Ask again and again until `done()` is true; AssertionError naming what did not happen."""
    end, last = time.monotonic() + seconds, None
    while time.monotonic() < end:
        try:
            if done():
                return
        except OSError as error:  # not there yet
            last = error
        time.sleep(0.2)
    raise AssertionError(f"{what} within {seconds} s ({last or 'it answers otherwise'})")


def kill_tree(process: psutil.Process) -> None:
    """SIGKILL a process and all that it started (Python workers leave their parent's process group)."""
    family = [process, *process.children(recursive=True)]
    for one in family:
        try:
            one.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(family, timeout=20)


@pytest.fixture(scope="session")
def bare_path(tmp_path_factory) -> str:
    """A PATH whose only Python is the one behind the environments: the same version, without packages of ours."""
    folder = tmp_path_factory.mktemp("bin")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    base = Path(sys.base_prefix) / "bin" / version
    (folder / version).write_text(f'#!/bin/sh\nexec {base} "$@"\n')
    (folder / version).chmod(0o755)
    java = Path(shutil.which("java")).parent
    return os.pathsep.join([str(folder), str(java), "/usr/bin", "/bin"])


@pytest.fixture(scope="session")
def package(tmp_path_factory) -> Path:
    """The archives of `hindcast package`."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "jobs", "package", "--out", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def object_store():
    """AWS_ variables of a server on loopback with an empty bucket; the secret is planted."""
    if not SERVER.exists():
        pytest.skip(f"{SERVER} is not there: run make setup-object-store")
    port = free_port()
    server = psutil.Popen([SERVER, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        until(lambda: socket.create_connection(("127.0.0.1", port), 1).close() is None, "the object store answers")
        system = fs.S3FileSystem(access_key="planted-id", secret_key=SECRET, region="us-east-1", scheme="http",
                                 endpoint_override=f"127.0.0.1:{port}", allow_bucket_creation=True)  # fmt: skip
        system.create_dir(BUCKET)
        yield {"AWS_ACCESS_KEY_ID": "planted-id", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
               "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}  # fmt: skip
    finally:
        kill_tree(server)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, bare_path, object_store):
    """A master and two workers of one core each; workers hold the object store's credentials, as machines do."""
    folder = tmp_path_factory.mktemp("cluster")
    port, web = free_port(), free_port()
    environment = {"PATH": bare_path, "HOME": str(folder), "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1",
                   "SPARK_DAEMON_MEMORY": "256m", "LANG": "C.UTF-8", "SPARK_CONF_DIR": str(folder),
                   **object_store}  # fmt: skip
    running = Cluster(folder=folder, url=f"spark://127.0.0.1:{port}", web=f"http://127.0.0.1:{web}")
    master = _daemon(folder / "master", environment, "master.Master", "--port", port, "--webui-port", web)
    try:
        until(lambda: running.alive() == 0, "the master answers")
        for name in ("one", "two"):
            options = ("--cores", 1, "--memory", "1g", "--webui-port", 0, "--work-dir", folder / name / "work")
            running.workers[name] = _daemon(folder / name, environment, "worker.Worker", *options, running.url)
        until(lambda: running.alive() == 2, "both workers registered")
        yield running
    finally:
        for process in (*running.workers.values(), master):
            if process.is_running():
                kill_tree(process)


def _daemon(folder: Path, environment: dict, name: str, *arguments) -> psutil.Popen:
    folder.mkdir()
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1"]
    with (folder / "log").open("w") as log:
        return psutil.Popen([*command, *map(str, arguments)], cwd=folder, env=environment, stdout=log,
                            stderr=subprocess.STDOUT)  # fmt: skip


@dataclass
class Prepared:
    """A copy of the simulated log with settings of its own, and what its commands need in their environment."""

    folder: Path
    store_uri: str
    environment: dict[str, str]

    @property
    def config(self) -> Path:
        return self.folder / "hindcast.toml"

    def store(self) -> Store:
        return Store(self.store_uri)

    def start_night(self) -> subprocess.Popen:
        """`hindcast night`, its output (both streams) in night.log."""
        command = [sys.executable, "-m", "jobs", "night", "--config", str(self.config), "--day", NIGHT, "--json"]
        with (self.folder / "night.log").open("w") as log:
            return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT,
                                    env={**os.environ, **self.environment})  # fmt: skip

    def log(self) -> str:
        return (self.folder / "night.log").read_text(errors="replace")

    def run_night(self) -> str:
        """The whole night; returns its output. The report's gates may fail on so few pages."""
        code = self.start_night().wait(timeout=900)
        assert code in (0, 3), self.log()[-4000:]
        return self.log()


def prepare(tiny_folder: Path, folder: Path, cluster: Cluster, package: Path, *, store: str = "store/",
            environment: dict | None = None) -> Prepared:  # fmt: skip
    """A copy of the log whose settings name the cluster's master and the archives; nothing else differs."""
    for name in INPUTS:
        source = tiny_folder / name
        shutil.copytree(source, folder / name) if source.is_dir() else shutil.copy(source, folder / name)
    settings = (folder / "hindcast.toml").read_text().replace('store = "store/"', f'store = "{store}"')
    (folder / "hindcast.toml").write_text(f'''{settings}
[spark]
master = "{cluster.url}"
package = "{os.path.relpath(package, folder)}"
[spark.conf]
"spark.executor.memory" = "512m"
"spark.executor.cores" = "1"
''')
    assert tomllib.loads((folder / "hindcast.toml").read_text())["spark"]["master"] == cluster.url
    uri = store if "://" in store else str(folder / "store")
    return Prepared(folder=folder, store_uri=uri, environment=environment or {})
