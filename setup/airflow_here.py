"""Airflow on this machine: `python setup/airflow_here.py CONFIG ARGUMENTS…` runs `airflow ARGUMENTS…`.

SQLite, Spark on local[*], nothing called out; everything that Airflow writes stands in airflow/ beside CONFIG. With
`standalone` as ARGUMENTS scheduler, DAG processor, API server (its address: AIRFLOW__API__BASE_URL) and triggerer run
until Ctrl-C. Pools are made on first use, as `airflow pools set NAME SLOTS MEANING` makes them anywhere else.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from jobs.core import class_data  # noqa: E402 - the checkout is put on the path first
from schemas.environment import environment  # noqa: E402

AIRFLOW = ROOT / ".venv-airflow" / "bin" / "airflow"
POOLS = (("spark", 1, "Spark drivers on this machine"), ("endpoint", 2, "Shards that ask a model at the same time"))
LOCAL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For short runs on one machine: start-up takes about half as long. Not for clusters."""


def variables(*, config: Path, home: Path, port: int = 8080) -> dict[str, str]:
    """The environment of every airflow command: this process's own, and what keeps Airflow in `home`.

    Its API server listens on `port` of the loopback interface only.
    """
    settings = {
        "PATH": f"{AIRFLOW.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",  # standalone starts `airflow`
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db?timeout=60",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.25",  # a second each would be a tenth of a small night
        "AIRFLOW_CONN_SPARK_DEFAULT": os.environ.get("AIRFLOW_CONN_SPARK_DEFAULT", "spark://local%5B%2A%5D"),
        "HINDCAST_CONFIG": str(config.resolve()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {LOCAL_JVM} {class_data.options()}".strip(),
    }
    return dict(os.environ) | environment(ROOT) | settings


def prepare(environment_: dict[str, str]) -> None:
    """Make the database and the pools; quick when they are there."""
    home = Path(environment_["AIRFLOW_HOME"])
    if (home / "ready").exists():
        return
    home.mkdir(parents=True, exist_ok=True)
    commands = [["db", "migrate"]] + [["pools", "set", name, str(slots), text] for name, slots, text in POOLS]
    for command in commands:
        subprocess.run([str(AIRFLOW), *command], env=environment_, check=True, capture_output=True)
    (home / "ready").touch()


def main() -> None:
    """Replace this process by airflow."""
    config = Path(sys.argv[1])
    own = variables(config=config, home=config.resolve().parent / "airflow")
    prepare(own)
    os.execve(str(AIRFLOW), [str(AIRFLOW), *sys.argv[2:]], own)


if __name__ == "__main__":
    main()
