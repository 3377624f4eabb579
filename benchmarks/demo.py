"""The demo: its three DAG runs, longest steps, and the JVMs of a night: `python -m benchmarks.demo [--quick]`.

Runs `make demo`'s own script (--quick: only `hindcast night` on a tiny log) and watches its process tree. JVMs are
counted from the processes that were seen, not from what the program says.
"""

import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.lines import Line, at_most, emit
from benchmarks.measure import Usage, module, run_side, watching

PARTS = ("nightly", "forecast", "outcome")
SECONDS, DAG_JVMS, NIGHT_JVMS = 360, 5, 1
STEP = re.compile(r"^  (\S.*?)\s+(\d+\.\d) s$")
TINY_NIGHT = "2026-11-22"  # last simulated day


@dataclass(kw_only=True)
class Demo:
    """When each DAG run began (wall clock), when the last ended, and seconds by step."""

    begun: dict[str, float] = field(default_factory=dict)
    ended: float = 0.0
    steps: dict[str, float] = field(default_factory=dict)

    def see(self, line: str, now: float) -> None:
        """Take one line that the demo printed."""
        part = line.split(":")[0]
        if part in PARTS:
            self.begun[part] = now
        elif line.startswith("Simulated log. Judge:"):
            self.ended = now
        elif self.begun and (found := STEP.match(line)):
            self.steps[f"{list(self.begun)[-1]} {found[1]}"] = float(found[2])


def run_demo() -> tuple[Demo, Usage]:
    """Run the demo to its end; SystemExit with its last lines if it fails."""
    demo, said = Demo(), []
    process = subprocess.Popen([sys.executable, "setup/demo.py"], stdout=subprocess.PIPE, text=True)
    with watching(process.pid) as usage:
        for line in process.stdout:
            said.append(line)
            print(f"  demo: {line.rstrip()}", file=sys.stderr, flush=True)
            demo.see(line.rstrip("\n"), time.time())
        process.wait()
    if process.returncode or set(demo.begun) != set(PARTS) or not demo.ended:
        raise SystemExit(f"demo: it ended with {process.returncode}: {''.join(said[-5:])}")
    return demo, usage


def figures(demo: Demo, usage: Usage) -> list[Line]:
    """Seconds of the DAG runs, JVMs of the nightly one, and the longest steps."""
    seconds = demo.ended - demo.begun["nightly"]
    starts = sorted(usage.jvms.values())
    jvms = sum(demo.begun["nightly"] <= at < demo.begun["forecast"] for at in starts)
    others = sum(at >= demo.begun["forecast"] for at in starts)
    longest = sorted(demo.steps.items(), key=lambda one: -one[1])[:6]
    said = "longest: " + ", ".join(f"{name} {value:.0f} s" for name, value in longest)
    return [
        at_most("demo, three DAG runs, s", seconds, SECONDS, note=said),
        at_most("JVM start-ups of the demo's night (DAG)", jvms, DAG_JVMS, note=f"forecast and outcome: {others} more"),
        Line("demo, peak memory of the process tree, GiB", f"{usage.gib:.2f}"),
    ]


def night_jvms() -> list[Line]:
    """JVMs that `hindcast night` starts, on a tiny simulated log."""
    with tempfile.TemporaryDirectory() as room:
        run_side(module("jobs", "simulate", "--size", "tiny", "--out", room))
        config = Path(room) / "hindcast.toml"
        usage = run_side(module("jobs", "night", "--config", config, "--day", TINY_NIGHT))
    return [at_most("JVM start-ups of `hindcast night`", len(usage.jvms), NIGHT_JVMS, note=f"{usage.seconds:.0f} s")]


def main() -> int:
    """Measure, print, and return the exit code."""
    lines = night_jvms()
    if "--quick" not in sys.argv:
        lines = [*figures(*run_demo()), *lines]
    return emit(lines, name="demo")


if __name__ == "__main__":
    sys.exit(main())
