"""Nights as processes that can be killed at a named moment, whole or in part."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psutil

from schemas.flow import flow, qualified
from tests.e2e.conftest import NIGHT, ROOT

STEPS = tuple(qualified(task) for task in flow("night"))
HEAVY = tuple(qualified(task) for task in flow("night") if task.engine == "spark")
PARTS = ("tree", "driver", "jvm", "worker")
"""What is killed: everything at once, the driver alone, its JVM, or one Python worker of the JVM."""
LIMIT_S = 900
PUBLISHED = (0, 3)


@dataclass(frozen=True)
class Kill:
    """SIGKILL to a part of a night, `delay_s` after the step has begun."""

    step: str
    delay_s: float
    part: str


def kills(seed: int, n: int) -> list[Kill]:
    """`n` random kills; half of them in steps that run tasks in the JVM, where most of the time goes."""
    chance = Random(seed)
    return [Kill(chance.choice(chance.choice((HEAVY, STEPS))), 3 * chance.random(), chance.choice(PARTS))
            for _ in range(n)]  # fmt: skip


class Night:
    """`hindcast night` as a process group of its own."""

    def __init__(self, config: Path) -> None:
        command = [sys.executable, "-m", "jobs", "night", "--config", str(config), "--day", NIGHT, "--json"]
        self.process = subprocess.Popen(command, cwd=ROOT, text=True, errors="replace", start_new_session=True,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
        self.said: list[str] = []
        self._lines: queue.Queue = queue.Queue()
        self._family: list[psutil.Process] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stderr:
            self.said.append(line.rstrip())
            self._lines.put(line.rstrip())
        self._lines.put(None)

    def reach(self, step: str) -> bool:
        """Wait until the step begins; False if the night ends before."""
        while (line := self._lines.get(timeout=LIMIT_S)) is not None:
            if line.startswith(f"{step} …"):
                return True
        return False

    def ended(self) -> int:
        """The exit code, once it has ended by itself."""
        code = self.process.wait(timeout=LIMIT_S)
        self._reader.join(timeout=60)
        return code

    def orphans(self, *, patience_s: float = 60.0) -> list[str]:
        """Names of processes of a killed night that do not end by themselves; they are ended then."""
        alive = psutil.wait_procs(self._family, timeout=patience_s)[1]
        names = [_name(process) for process in alive]
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return names

    def clear(self) -> bool:
        """True if the last that a failed night said is a sentence for people."""
        return bool(self.said) and self.said[-1].startswith("hindcast: ")

    def kill(self, part: str) -> str:
        """SIGKILL; returns what was killed in the end (the whole tree where there is no such part now)."""
        driver = psutil.Process(self.process.pid)
        self._family = family = driver.children(recursive=True)
        jvms = [p for p in family if _name(p) == "java"]
        workers = [p for jvm in jvms for p in _children(jvm) if "python" in _name(p)]
        chosen = {"driver": [driver], "jvm": jvms[:1], "worker": workers[-1:]}.get(part) or [driver, *family]
        for process in chosen:
            with suppress(psutil.NoSuchProcess):
                os.kill(process.pid, signal.SIGKILL)
        return part if len(chosen) == 1 else "tree"


def struck(config: Path, kill: Kill) -> tuple[str, Night]:
    """A night that is killed as `kill` says: what was killed ("" if it had ended before), and the night, ended."""
    night = Night(config)
    killed = ""
    if night.reach(kill.step):
        time.sleep(kill.delay_s)
        if night.process.poll() is None:
            killed = night.kill(kill.part)
    night.ended()
    return killed, night


def _name(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return process.name()
    return ""


def _children(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []
