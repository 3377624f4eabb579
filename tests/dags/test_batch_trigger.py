"""The trigger that waits for batches: it polls a command, survives failures, and can be made anew."""

import asyncio
import sys
from importlib import import_module

import pytest

from triggers.batches import FAILURES, SETTLE_S, BatchTrigger


def fired(script: str, *arguments: str) -> dict:
    trigger = BatchTrigger(command=[sys.executable, "-c", script, *arguments], poll_s=0.01, settle_s=0)

    async def first():
        return [event async for event in trigger.run()]

    (event,) = asyncio.run(first())
    return event.payload


COUNTS = """
import json, pathlib, sys
file = pathlib.Path(sys.argv[1]); n = int(file.read_text() or 0); file.write_text(str(n + 1))
if n == 1: sys.exit("the endpoint is away")
print("progress"); print(json.dumps({"done": n >= 3, "asked": n}))
"""


def test_it_waits_until_all_batches_are_done(tmp_path):
    counter = tmp_path / "n"
    counter.write_text("0")
    assert fired(COUNTS, str(counter)) == {"done": True, "asked": 3}


@pytest.mark.parametrize("script", ["import sys; sys.exit('no such store')", "print('nothing to read')"])
def test_a_command_that_keeps_failing_is_told(script):
    payload = fired(script)
    assert payload["done"] is False
    assert "exit code" in payload["error"]


def test_a_command_that_is_not_there_is_told():
    trigger = BatchTrigger(command=["/nowhere/hindcast"], poll_s=0, settle_s=0)

    async def first():
        return [event.payload async for event in trigger.run()]

    assert asyncio.run(first()) == [{"done": False, "error": "/nowhere/hindcast: No such file or directory"}]
    assert FAILURES > 1


def test_it_can_be_made_anew_after_a_restart():
    path, values = BatchTrigger(command=["hindcast", "judging"], poll_s=5.0).serialize()
    module, name = path.rsplit(".", 1)
    again = getattr(import_module(module), name)(**values)
    assert (again.command, again.poll_s) == (["hindcast", "judging"], 5.0)
    assert again.settle_s == SETTLE_S >= 10, "a trigger that fires at once can fail its own task in Airflow 3.3"
