"""What both DAGs share: defaults, the one Spark-submit helper and the one jobs-environment helper.

Tasks run commands of the jobs environment; nothing of it is imported here.
"""

import json
import os
import signal
import subprocess
from datetime import timedelta
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from schemas.environment import environment

HOME = Path(os.environ.get("HINDCAST_HOME") or Path(__file__).resolve().parents[1])
CONFIG = os.environ.get("HINDCAST_CONFIG", str(HOME / "hindcast.toml"))
BIN = Path(os.environ.get("HINDCAST_JOBS_BIN") or HOME / ".venv" / "bin")  # of the jobs environment
SPARK_POOL, ENDPOINT_POOL = "spark", "endpoint"
DEFAULTS = {
    "owner": "hindcast",
    "retries": 2,  # lost executors, endpoints and object stores come back
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=15),
    "execution_timeout": timedelta(hours=7),  # above judging's own run_deadline_s
}


class JobsOperator(BaseOperator):
    """Run `hindcast ARGUMENTS --json` in the jobs environment; its last JSON object is the task's result.

    Arguments are a list that never passes through a shell; those that render to nothing are left out. Exit codes 2
    (wrong use) and 3 (a gate failed) are not retried. `shows` names a mapped instance in the UI, `result` the one part
    of the summary to keep, to map over.
    """

    template_fields = ("arguments",)

    def __init__(self, *, arguments: list[str], shows: str = "", result: str = "", **options) -> None:
        super().__init__(**options)
        self.arguments, self.shows, self.result = arguments, shows, result
        self._process: subprocess.Popen | None = None

    def execute(self, context) -> dict | list | None:
        """Stream the command's output into the task's log and return its summary."""
        command = [str(BIN / "hindcast"), *filter(None, self.arguments), "--json"]
        self.log.info("running %s", command)
        variables = environment(HOME) | os.environ
        self._process = subprocess.Popen(command, env=variables, text=True, errors="replace", start_new_session=True,
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        line = summary = ""
        for line in self._process.stdout:
            self.log.info("%s", line.rstrip())
            summary = line if line.startswith("{") else summary
        self._judge(self._process.wait(), line.strip())
        found = json.loads(summary) if summary else {}
        return found[self.result] if self.result else found

    def on_kill(self) -> None:
        """End the command and what it started."""
        if self._process and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)

    def _judge(self, code: int, last: str) -> None:
        if code in (2, 3):
            raise AirflowFailException(f"exit code {code}: {last}")
        if code:
            raise AirflowException(f"exit code {code}: {last}")


def spark_step(*, arguments: list[str], **options) -> SparkSubmitOperator:
    """A step that needs a JVM, submitted to the master of the connection `spark_default`.

    The hook starts whatever `spark-submit` is first on the PATH, so the jobs environment is put there.
    """
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    variables = environment(HOME) | {"PATH": path, "PYSPARK_PYTHON": str(BIN / "python")}
    jars = ",".join(sorted(str(jar) for jar in (HOME / ".jars").glob("*.jar")))
    return SparkSubmitOperator(application=str(HOME / "jobs" / "__main__.py"), application_args=[*arguments, "--json"],
                               jars=jars, env_vars=variables, pool=SPARK_POOL, name="{{ task.task_id }}",
                               driver_memory=os.environ.get("HINDCAST_SPARK__DRIVER_MEMORY", "2g"), **options)
