"""Waits for a provider's batches without holding a worker slot, by asking the jobs environment from time to time."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

SETTLE_S = 20.0
"""Before the first question: where a trigger fires before the scheduler has seen the deferring process end, Airflow
takes that end for one of the resumed task and fails it (apache/airflow issues 71580 and 72716, open with 3.3)."""

FAILURES = 10  # status commands in a row that may fail before the task is told; a restarting machine takes a few


class BatchTrigger(BaseTrigger):
    """Fires when `command` (hindcast judging batch-status ... --json) says that all batches are done.

    The event's payload is the command's last JSON object, or {"done": False, "error": text} after FAILURES failures in
    a row. `command` is a list that never passes through a shell.
    """

    def __init__(self, *, command: list[str], poll_s: float = 60.0, settle_s: float = SETTLE_S) -> None:
        super().__init__()
        self.command, self.poll_s, self.settle_s = list(command), poll_s, settle_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How the triggerer makes this trigger anew after a restart."""
        values = {"command": self.command, "poll_s": self.poll_s, "settle_s": self.settle_s}
        return "triggers.batches.BatchTrigger", values

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Ask until done."""
        await asyncio.sleep(self.settle_s)
        failures = 0
        while True:
            status = await self._status()
            failures = failures + 1 if "error" in status else 0
            if status.get("done") or failures >= FAILURES:
                yield TriggerEvent({"done": False} | status)
                return
            await asyncio.sleep(self.poll_s)

    async def _status(self) -> dict[str, Any]:
        try:
            process = await asyncio.create_subprocess_exec(
                *self.command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:
            return {"error": f"{self.command[0]}: {error.strerror}"}
        out, problem = await process.communicate()
        lines = [line for line in out.decode("utf-8", "replace").splitlines() if line.startswith("{")]
        if process.returncode or not lines:
            said = problem.decode("utf-8", "replace").strip().splitlines() or ["no answer"]
            return {"error": f"exit code {process.returncode}: {said[-1][:300]}"}
        return json.loads(lines[-1])
