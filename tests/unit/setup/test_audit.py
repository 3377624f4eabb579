"""`make audit`: a known vulnerability fails it, and what could not be looked up is never told as clean."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "setup"))

import audit  # noqa: E402 - set-up is no package

CLEAN = {"name": "a", "version": "1", "vulns": []}
FOUND = [{"id": "CVE-1", "fix_versions": ["3", "4"]}, {"id": "CVE-2", "fix_versions": []}]
BAD = {"name": "b", "version": "2", "vulns": FOUND}
SKIPPED = {"name": "c", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("packages", "reason", "said", "known"),
    [
        ([CLEAN], "", "1 packages looked up, 0 known", 0),
        ([CLEAN, BAD], "", "2 packages looked up, 2 known", 2),
        ([CLEAN, SKIPPED], "", "1 packages looked up, 1 could not be (not found), 0 known", 0),
        ([SKIPPED, SKIPPED], "", "nothing could be looked up (not found)", 0),
        ([], "no route to host", "nothing could be looked up (no route to host)", 0),
        ([], "", "nothing could be looked up (the lock is empty)", 0),
    ],
)
def test_what_is_said_of_a_lock(packages, reason, said, known):
    line, bad = audit.verdict("jobs", packages, reason)
    assert said in line and len(bad) == known
    assert not bad or bad[0] == "  b 2: CVE-1, mended in 3, 4"


@pytest.mark.parametrize(("bad", "code"), [([], 0), ([BAD], 1)])
def test_the_exit_code_tells_whether_one_is_known(monkeypatch, capsys, bad, code):
    monkeypatch.setattr(audit, "look_up", lambda lock: ([CLEAN, *bad], ""))
    assert audit.main() == code
    told = capsys.readouterr().out.splitlines()
    assert len(told) == len(audit.LOCKS) * (1 + 2 * len(bad))


def test_every_lock_is_looked_at_or_part_of_one_that_is():
    locks = {p.stem for p in (ROOT / "requirements").glob("*.txt")}
    assert locks - {f"{name.removesuffix('-dev')}" for name in audit.LOCKS} - set(audit.LOCKS) == {"local-llm"}
    assert set(audit.LOCKS) <= locks
