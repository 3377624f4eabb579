"""`make bench`: every published figure in turn, each by its own module, and one summary table.

A module prints its figures and exits non-zero when one misses its bound; the table's last column says which. The
summary goes to out/bench/summary.json, and one line a run to out/bench/history.jsonl, for plotting.
"""

import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

OUT = Path("out/bench")

MODULES = {
    "estimators": "examination and relevance against planted truth and real logs",
    "ingest": "ingestion against DuckDB",
    "pages": "pages: bias, coverage, drops and seconds",
    "cards": "cards against FAISS called directly",
    "judging": "judging against a bare loop",
    "skills": "what discovered skills bring and cost",
    "reports": "the report and its bootstrap against a plain loop",
}


def run(name: str) -> dict:
    """Run one benchmark with its output shown; its name, seconds and verdict."""
    print(f"\n== {name}: {MODULES[name]}", flush=True)
    begun = time.monotonic()
    code = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode
    return {"benchmark": name, "seconds": round(time.monotonic() - begun, 1), "verdict": "FAIL" if code else "pass"}


def main(names: list[str]) -> int:
    """Run the named benchmarks (all without names); 0 if each met its bounds, 2 for an unknown name."""
    unknown = sorted(set(names) - set(MODULES))
    if unknown:
        print(f"benchmarks: no benchmark {', '.join(unknown)}: there are {', '.join(MODULES)}", file=sys.stderr)
        return 2
    rows = [run(name) for name in names or MODULES]
    at = datetime.now(UTC).isoformat(timespec="seconds")
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "summary.json").write_text(json.dumps({"at": at, "benchmarks": rows}, indent=1), encoding="utf-8")
    with (OUT / "history.jsonl").open("a", encoding="utf-8") as history:
        history.write(json.dumps({"at": at, "benchmarks": rows}) + "\n")
    print(f"\n{'benchmark':<14}{'seconds':>9}  verdict")
    for row in rows:
        print(f"{row['benchmark']:<14}{row['seconds']:>9}  {row['verdict']}")
    return int(any(row["verdict"] == "FAIL" for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
