"""A whole Airflow for tests: scheduler, DAG processor, API server and triggerer on SQLite and the loopback interface.

All of it runs in one process group of its own, which ends as a group: `airflow standalone` leaves children behind.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "setup"))

import airflow_here  # noqa: E402 - setup/ is put on the path first

ENDED = ("success", "failed")
QUICK = {
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",  # whoever reaches this loopback port
    "AIRFLOW__CORE__PARALLELISM": "3",
    "AIRFLOW__API__WORKERS": "1",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
    "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
}


class Refused(Exception):
    """The API refused a request; the message starts with the HTTP status."""


class Airflow:
    """A running Airflow over one hindcast.toml."""

    def __init__(self, config: Path, **variables: str) -> None:
        self.home = config.parent / "airflow"
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.environment = airflow_here.variables(config=config, home=self.home, port=port) | QUICK | variables
        self.log = config.parent / "airflow.log"
        self._token = ""

    def command(self, *arguments: str) -> str:
        """`airflow ARGUMENTS…`, which must succeed; returns its standard output."""
        command = [str(airflow_here.AIRFLOW), *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{arguments}: {done.stdout[-1000:]}{done.stderr[-2000:]}")
        return done.stdout

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One request to the REST API; Refused if it is not answered with 2xx."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise Refused(f"{error.code}: {error.read().decode(errors='replace')}") from None

    def trigger(self, dag: str, **conf: Any) -> str:
        """Trigger a run with parameters and no logical date; returns its id."""
        body = {"logical_date": None, "conf": conf}
        return self.ask("POST", f"/api/v2/dags/{dag}/dagRuns", body)["dag_run_id"]

    def runs(self, dag: str) -> list[dict]:
        """The DAG's runs, oldest first."""
        return self.ask("GET", f"/api/v2/dags/{dag}/dagRuns?limit=100&order_by=id")["dag_runs"]

    def tasks(self, dag: str, run_id: str) -> list[dict]:
        """Task instances of a run."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances?limit=1000"
        return self.ask("GET", path)["task_instances"]

    def wait(self, dag: str, run_id: str, *, limit_s: float) -> dict:
        """The run when it has ended; RuntimeError with the failed tasks' logs if that takes longer than `limit_s`."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            run = self.ask("GET", f"/api/v2/dags/{dag}/dagRuns/{run_id}")
            if run["state"] in ENDED:
                return run
            time.sleep(1)
        raise RuntimeError(f"{run_id} is still {run['state']} after {limit_s} s\n{self.failures(dag, run_id)}")

    def failures(self, dag: str, run_id: str) -> str:
        """The last lines of the logs of every task that did not end well."""
        odd = [t for t in self.tasks(dag, run_id) if t["state"] not in ("success", "skipped", None)]
        return "\n".join(f"{t['task_id']} [{t['map_index']}] {t['state']}\n{self.log_of(t)[-3000:]}" for t in odd)

    def log_of(self, task: dict) -> str:
        """The text of a task instance's last try, as it stands on disk."""
        folder = self.home / "logs" / f"dag_id={task['dag_id']}" / f"run_id={task['dag_run_id']}"
        paths = sorted(folder.glob(f"task_id={task['task_id']}/**/*.log"))
        wanted = [p for p in paths if task["map_index"] < 0 or f"map_index={task['map_index']}" in str(p)]
        return wanted[-1].read_text(errors="replace") if wanted else ""

    def start(self) -> subprocess.Popen:
        """Start everything and wait until it is healthy and knows the DAGs."""
        airflow_here.prepare(self.environment)
        with self.log.open("w") as log:
            command = [str(airflow_here.AIRFLOW), "standalone"]
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=subprocess.STDOUT,
                                       stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
        end = time.monotonic() + 300
        while not self._ready():
            if process.poll() is not None or time.monotonic() > end:
                end_group(process)
                raise RuntimeError(f"Airflow did not start:\n{self.log.read_text(errors='replace')[-4000:]}")
            time.sleep(1)
        return process

    def _ready(self) -> bool:
        with suppress(OSError, Refused, json.JSONDecodeError):
            self._token = self.ask("GET", "/auth/token")["access_token"]
            health = self.ask("GET", "/api/v2/monitor/health")
            parts = ("metadatabase", "scheduler", "dag_processor", "triggerer")
            known = {dag["dag_id"] for dag in self.ask("GET", "/api/v2/dags")["dags"]}
            return all(health[part]["status"] == "healthy" for part in parts) and {"nightly", "pre_launch"} <= known
        return False


@contextmanager
def airflow(config: Path, **variables: str) -> Iterator[Airflow]:
    """A running Airflow over `config`, stopped with everything that it started at the end."""
    here = Airflow(config, **variables)
    process = here.start()
    try:
        yield here
    finally:
        end_group(process)


def end_group(process: subprocess.Popen) -> None:
    """SIGTERM to the group and to the descendants outside of it (commands of tasks), then SIGKILL to what is left."""
    family = [process.pid, *(child.pid for child in _descendants(process.pid))]
    for which, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, which)
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, which)
        there = [psutil.Process(pid) for pid in family if psutil.pid_exists(pid)]
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=patience)
        if not psutil.wait_procs(there, timeout=patience)[1]:
            return


def _descendants(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
