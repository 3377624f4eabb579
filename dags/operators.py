"""How tasks run commands of the jobs environment; nothing of it is imported here."""

import json
import os
import signal
import subprocess
from datetime import timedelta
from pathlib import Path

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from schemas.environment import environment

HOME = Path(os.environ.get("HINDCAST_HOME") or Path(__file__).resolve().parents[1])
CONFIG = os.environ.get("HINDCAST_CONFIG", str(HOME / "hindcast.toml"))
BIN = Path(os.environ.get("HINDCAST_JOBS_BIN") or HOME / ".venv" / "bin")  # of the jobs environment
POLL_S = float(os.environ.get("HINDCAST_DAGS_POLL_S") or 60)  # between two questions whether batches are done
BATCH_WINDOW = timedelta(hours=26)  # providers promise a day
FINAL = (2, 3)  # wrong use, a report gate failed: the same again when asked again


class JobsOperator(BaseOperator):
    """Run `hindcast ARGUMENTS --json` in the jobs environment; its last JSON object is the task's result.

    Arguments are a list that never passes through a shell; those that render to nothing are left out. Exit codes 2
    (wrong use) and 3 (a gate failed) are not retried. `shows` names a mapped instance in the UI, `result` the one part
    of the summary to keep, to map over. `skips_unless` names a part of the summary: where it is false the task, and so
    all that waits for it, is skipped, with the summary's `why`.
    """

    template_fields = ("arguments",)

    def __init__(
        self, *, arguments: list[str], shows: str = "", result: str = "", skips_unless: str = "", **options
    ) -> None:
        super().__init__(**options)
        self.arguments, self.shows, self.result, self.skips_unless = arguments, shows, result, skips_unless
        self._process: subprocess.Popen | None = None

    def execute(self, context) -> dict | list | None:
        """Stream the command's output into the task's log and return its summary."""
        found = self.run(self.arguments)
        if self.skips_unless and not found[self.skips_unless]:
            raise AirflowSkipException(str(found.get("why")))
        return found[self.result] if self.result else found

    def run(self, arguments: list[str]) -> dict:
        """One command; its summary."""
        command = [str(BIN / "hindcast"), *filter(None, arguments), "--json"]
        self.log.info("running %s", command)
        variables = environment(HOME) | os.environ
        self._process = subprocess.Popen(command, env=variables, text=True, errors="replace", start_new_session=True,
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        line = summary = ""
        for line in self._process.stdout:
            self.log.info("%s", line.rstrip())
            summary = line if line.startswith("{") else summary
        judge_exit(self._process.wait(), line.strip())
        return json.loads(summary) if summary else {}

    def on_kill(self) -> None:
        """End the command and what it started."""
        if self._process and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)


class ShardOperator(JobsOperator):
    """One judging shard. A batch is handed over, waited for in the triggerer (no worker slot is held), and collected.

    Killed after the hand-over, a retry finds the batch again: it is handed over once.
    """

    def __init__(self, *, batch: bool = False, **options) -> None:
        super().__init__(**options)
        self.batch = batch

    def execute(self, context) -> dict | list | None:
        """Judge the shard, or hand it over and defer."""
        if not self.batch:
            return super().execute(context)
        self.run([*self.arguments, "--submit-only"])
        from triggers.batches import BatchTrigger  # imports Airflow's core, which no parsing should wait for

        command = [str(BIN / "hindcast"), "judging", "batch-status", f"--config={CONFIG}", "--json"]
        self.defer(trigger=BatchTrigger(command=command, poll_s=POLL_S), method_name="collect", timeout=BATCH_WINDOW)
        return None

    def collect(self, context, event: dict) -> dict | list | None:
        """After the wait: keep the replies, and ask for nothing that was answered."""
        if "error" in event:
            raise AirflowException(f"the state of the batches is unknown: {event['error']}")
        return super().execute(context)


def judge_exit(code: int, last: str) -> None:
    """Nothing for 0; AirflowFailException (no retry) for what would be the same again, else AirflowException."""
    if code in FINAL:
        raise AirflowFailException(f"exit code {code}: {last}")
    if code:
        raise AirflowException(f"exit code {code}: {last}")
