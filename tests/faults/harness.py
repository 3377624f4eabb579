"""Helpers of the fault tests: pages, a server, the command, and the comparison of rows with the server's ledger."""

import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from pathlib import Path

from tests.faults.server import meant

ROOT = Path(__file__).parents[2]


def write_pages(path: Path, *, count: int) -> None:
    """`count` pages whose ids stand in their queries, where the server finds them."""
    with path.open("w") as out:
        for n in range(count):
            items = [{"item_id": f"i{n}-{k}", "rank": k, "title": f"title {k} of {n}"} for k in (1, 2, 3)]
            body = {"page_id": f"page-{n:05d}", "query": f"page-{n:05d} song", "items": items}
            out.write(json.dumps(body) + "\n")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def server(port: int, *, seed: int, ledger: Path, share: float = 0.2):
    """The fault server as a process."""
    command = [sys.executable, "-m", "tests.faults.server", str(port), str(seed), str(ledger), str(share)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        wait_for(port)
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(port: int) -> None:
    """Return when the port accepts connections."""
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on port {port}")


def wait_for_more(ledger: Path, process: subprocess.Popen) -> None:
    """Return when the server has generated another reply, or the process has ended."""
    before = ledger.stat().st_size if ledger.exists() else 0
    while process.poll() is None and (not ledger.exists() or ledger.stat().st_size == before):
        time.sleep(0.01)


def judging(folder: Path, port: int, *options: str, **environment: str) -> subprocess.Popen:
    """`hindcast judging run` on folder/pages.jsonl as a process of its own."""
    command = [
        sys.executable, "-m", "jobs", "judging", "run", "--pages", str(folder / "pages.jsonl"), "--variants", "plain",
        "--base-url", f"http://127.0.0.1:{port}/v1", "--model", "fault", "--out", str(folder / "judgments.jsonl"),
        "--json", *options,
    ]  # fmt: skip
    patience = {"HINDCAST_JUDGING__REQUEST_TIMEOUT_S": "1.5", "HINDCAST_API_KEY": "none"}
    return subprocess.Popen(
        command, cwd=ROOT, env=os.environ | patience | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finished(process: subprocess.Popen) -> dict:
    """The summary of a run that must succeed."""
    out, err = process.communicate(timeout=300)
    if process.returncode != 0:
        raise RuntimeError(f"judging ended with {process.returncode}: {err.decode()[-2000:]}")
    return json.loads(out.splitlines()[-1])


def rows_of(folder: Path) -> list[dict]:
    """The judgments."""
    return [json.loads(line) for line in (folder / "judgments.jsonl").read_text().splitlines()]


def ledger_of(path: Path) -> dict[str, list[dict]]:
    """What the server generated, by page, in order."""
    found = defaultdict(list)
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        found[entry["page"]].append(entry)
    return found


def problems(rows: list[dict], ledger: dict[str, list[dict]], *, count: int, seed: int) -> list[str]:
    """Every way in which the rows disagree with what the server did; empty if all is well."""
    found = []
    per_page = Counter(row["page_id"] for row in rows)
    found += [f"{page}: {n} rows" for page, n in per_page.items() if n != 1]
    found += [f"{len(per_page)} pages instead of {count}"] if len(per_page) != count else []
    for row in rows:
        page, generated = row["page_id"], ledger.get(row["page_id"], [])
        if (row["label"] is None) == (row["reason"] is None):
            found.append(f"{page}: label {row['label']}, reason {row['reason']}")
        if row["label"] is not None and row["label"] != meant(page, seed=seed) / 2:
            found.append(f"{page}: label {row['label']} is not the one that the server meant")
        if not generated:
            found.append(f"{page}: {row['label']} {row['reason']} without any reply")
            continue
        if (row["label"], row["reason"]) != (generated[-1]["label"], generated[-1]["reason"]):
            found.append(f"{page}: {row['label']} {row['reason']}, but the last reply was {generated[-1]}")
        if len(generated) > 1 and not row["possibly_billed_twice"]:
            found.append(f"{page}: answered {len(generated)} times, not marked")
    return found
