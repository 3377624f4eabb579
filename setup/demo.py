"""`make demo`: simulate a log, run the night, an A/B forecast and its outcome through Airflow, say what came out."""

import argparse
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import TextIO

import airflow_here

ROOT = airflow_here.ROOT
OUT = ROOT / "out" / "demo"
HINDCAST = ROOT / ".venv" / "bin" / "hindcast"
TASK = re.compile(r"\[DAG TEST\] (starting|end task) task_id=(\S+) map_index=(-?\d+)")
EVERY_S = 5.0  # so long may a task stay silent; then it gives a sign of life, ever more rarely
GRACE_S = 5.0  # Airflow takes a moment to pass a signal on to the command of its task
LOCAL_MODEL = {
    "HINDCAST_JUDGING__JUDGE": "local",
    "HINDCAST_JUDGING__MAX_PAGES": "15",  # of the night and again of the launch: on one core each takes seconds
    "HINDCAST_JUDGING__ABLATION_WEEKDAY": '""',  # plain and grounded only
    "HINDCAST_JUDGING__REQUEST_TIMEOUT_S": "240",  # reading a long page takes a busy core that long
    "HINDCAST_JUDGING__ANCHOR_PAGES": "0",  # and nothing is asked again to measure drift
    "HINDCAST_JUDGING__REPEAT_PAGES": "0",
    "HINDCAST_EVIDENCE__TOP_K": "2",  # rows a card: what the model reads is what it costs
    # Grades of so small a model are noise, often all equal, which is no failure here.
    "HINDCAST_REPORT__GATES__MIN_SPEARMAN": '"off"',
    "HINDCAST_REPORT__GATES__MAX_UNSCORED": '"off"',
}
"""JUDGE=local proves the protocol within ten minutes; it says nothing about judging."""


class Failed(Exception):
    """A step of the demo failed; the message says where to read on."""


def simulate() -> dict:
    """Write the simulated log into out/demo; returns the command's summary."""
    command = [str(HINDCAST), "simulate", "--size", "demo", "--out", str(OUT), "--seed", "0", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Failed("hindcast simulate failed: see above")
    return json.loads(done.stdout.splitlines()[-1])


def publish_site() -> None:
    """Copy the site of the latest night and launch to out/demo/report."""
    command = [str(HINDCAST), "reports", "site", "--config", str(OUT / "hindcast.toml"), "--out", str(OUT / "report")]
    if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
        raise Failed("hindcast reports site failed: see above")


def run_dag(name: str, day: str, *, conf: dict, title: str, variables: dict[str, str]) -> None:
    """`airflow dags test`, with a line a task and a sign of life in long ones; all of its output goes to a file."""
    print(f"\n{title}", flush=True)
    log = OUT / f"{title.split(':')[0].replace(' ', '-')}.log"
    command = [str(airflow_here.AIRFLOW), "dags", "test", name, day, "-c", json.dumps(conf)]
    with log.open("w") as copy:
        process = subprocess.Popen(command, env=variables, text=True, errors="replace", start_new_session=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        fault = _follow(process, copy)
    if fault or process.returncode:
        raise Failed(f"{title}: {fault or 'the DAG run failed'}; read {log.relative_to(ROOT)}")


def _follow(process: subprocess.Popen, copy: TextIO) -> str:
    """Print tasks as they start, go on and end; returns what went wrong, or an empty text."""
    lines: queue.Queue = queue.Queue()
    threading.Thread(target=_read, args=(process, lines), daemon=True).start()
    display, fault = Display(), ""
    while (line := _next(lines)) is not None:
        copy.write(line)
        if "up_for_retry" in line.lower() and not fault:  # a demo does not wait for a retry
            fault = f"{display.task or 'a task'} failed"
            _end(process)
        display.see(line)
    process.wait()
    return fault


class Display:
    """What a person sees of a DAG run: tasks with their seconds."""

    def __init__(self) -> None:
        self.task = ""
        self._begun = self._next = 0.0

    def see(self, line: str) -> None:
        """Take one line of Airflow's output ("" if there was none for a while)."""
        found, now = TASK.search(line), time.monotonic()
        if found and found[1] == "starting":
            self.task = found[2] + ("" if found[3] == "-1" else f" [{found[3]}]")
            self._begun, self._next = now, now + EVERY_S
        elif found and self.task:
            print(f"  {self.task:<26} {now - self._begun:5.1f} s", flush=True)
            self.task = ""
        elif self.task and now > self._next:
            print(f"  {self.task} … {now - self._begun:.0f} s", flush=True)
            self._next = now + max(EVERY_S, now - self._begun)


def _read(process: subprocess.Popen, lines: queue.Queue) -> None:
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def _next(lines: queue.Queue) -> str | None:
    try:
        return lines.get(timeout=EVERY_S)
    except queue.Empty:
        return ""


def _end(process: subprocess.Popen) -> None:
    """Ask the DAG run to end its task's command, then end what does not listen."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        try:
            process.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            continue


def headline(report: dict) -> str:
    """The figures that a first reader wants, from report.json."""
    lines = ["", "Simulated log. Judge: " + str(report["run"]["judge"])]
    for part, title in (("logs", "users (Logs)"), ("human", "people (human labels)")):
        lines.append(f"Agreement with {title}, {report[part]['n_pages']:,} pages, Spearman:")
        for name, variant in report[part]["variants"].items():
            whole = variant["all"]
            lines.append(f"  {name:<16}{_interval(whole['spearman'])}  on {whole['n']:,}")
    lines.append("A/B test, sign agreement with its outcome (half credit for ties):")
    for name, variant in report["launch"]["variants"].items():
        lines.append(f"  {name:<16}{_number(variant['half_credit'])}  of {variant['n']} queries")
    leaks = report["leakage"]
    lines.append(f"Leakage: {leaks['violations']} violations in {leaks['checked']:,} card rows checked")
    return "\n".join(lines)


def _interval(statistic: dict) -> str:
    if statistic["value"] is None:
        return f"-  ({statistic.get('reason')})"
    return f"{_number(statistic['value'])}  ({_number(statistic['low'])} to {_number(statistic['high'])})"


def _number(value) -> str:
    value = value["value"] if isinstance(value, dict) else value
    return "-" if value is None else f"{value:.3f}"


def demo(judge: str) -> None:
    """All of it, in order."""
    begun = time.monotonic()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    print("simulated log: 60 days of a music search service", flush=True)
    night = simulate()["last_day"]
    variables = airflow_here.variables(config=OUT / "hindcast.toml", home=OUT / "airflow")
    variables |= LOCAL_MODEL if judge == "local" else {}
    print("airflow: its database …", flush=True)
    airflow_here.prepare(variables)
    launch = json.loads((OUT / "launch" / "launch.json").read_text())
    forecast = {key: launch[key] for key in ("launch_id", "start", "pages_a", "pages_b")}
    outcome = {key: launch[key] for key in ("launch_id", "outcomes")}
    name = launch["launch_id"]
    run_dag("nightly", night, conf={"day": night}, title=f"nightly: {night}", variables=variables)
    run_dag("pre_launch", night, conf=forecast, title=f"forecast: launch {name}", variables=variables)
    run_dag("pre_launch", launch["start"], conf=outcome, title=f"outcome: launch {name}", variables=variables)
    publish_site()
    print(headline(json.loads((OUT / "report" / "report.json").read_text())))
    print(f"\nReport: {(OUT / 'report' / 'index.html').relative_to(ROOT)}   ({time.monotonic() - begun:.0f} s)")


def main() -> int:
    """Entry of `make demo`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judge", default="offline-baseline", choices=("offline-baseline", "local"))
    try:
        demo(parser.parse_args().judge)
    except Failed as failed:
        print(f"demo: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
