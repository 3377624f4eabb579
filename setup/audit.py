"""`make audit`: every locked package looked up in a database of known vulnerabilities.

Exit code 0 where none is known, or where nothing could be looked up, which is then said with its reason; 1 where one is
known. Run by the Python of .venv-audit.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("jobs-dev", "airflow-dev", "object-store", "audit", "tools")
"""Each lock of the servers is part of the one of development."""


def look_up(lock: Path) -> tuple[list[dict], str]:
    """pip-audit's findings by package, or none and the reason."""
    command = [sys.executable, "-m", "pip_audit", "-r", str(lock), "--disable-pip", "--require-hashes", "-f", "json",
               "--progress-spinner", "off", "--timeout", "20"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)["dependencies"], ""
    except (ValueError, KeyError):
        last = [line for line in done.stderr.splitlines() if line.strip()] or ["no output"]
        return [], last[-1][:300]


def verdict(name: str, packages: list[dict], reason: str) -> tuple[str, list[str]]:
    """One line on a lock, and one a known vulnerability."""
    skipped = [p for p in packages if "skip_reason" in p]
    looked = len(packages) - len(skipped)
    bad = [
        f"  {p['name']} {p['version']}: {v['id']}, mended in {', '.join(v['fix_versions']) or 'no version yet'}"
        for p in packages
        for v in p.get("vulns", [])
    ]
    if not looked:
        reason = reason or (skipped[0]["skip_reason"] if skipped else "the lock is empty")
        return f"audit: {name}: nothing could be looked up ({reason})", []
    missed = f", {len(skipped)} could not be ({skipped[0]['skip_reason']})" if skipped else ""
    return f"audit: {name}: {looked} packages looked up{missed}, {len(bad)} known vulnerabilities", bad


def main() -> int:
    """Look at every lock; 1 if any vulnerability is known."""
    known = []
    for name in LOCKS:
        line, bad = verdict(name, *look_up(ROOT / "requirements" / f"{name}.txt"))
        print("\n".join([line, *bad]), flush=True)
        known += bad
    return 1 if known else 0


if __name__ == "__main__":
    sys.exit(main())
