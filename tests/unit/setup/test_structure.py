"""The structural half of `make lint`."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "setup"))

import structure  # noqa: E402 - set-up is no package

LONG = "def f():\n" + "    x = 1\n" * 60
CASES = [
    ("jobs/a.py", "x = 1\n", "", "nothing to say"),
    ("jobs/a.py", LONG, "jobs/a.py:1: f has 61 lines", "one line above the limit"),
    ("tests/a.py", LONG, "", "tests may be long"),
    ("jobs/a.py", "x = 1\n" * 401, "401 lines", "one line above the limit"),
    ("tests/a.py", "def test_a():\n    f()\n", "test_a asserts nothing", "a test that cannot fail"),
    ("tests/a.py", "def test_a():\n    assert f()\n", "", "it can"),
    ("jobs/a.py", "try:\n    f()\nexcept ValueError:\n    pass\n", "swallowed", "an error that nobody sees"),
    ("jobs/a.py", "def f():\n    '''Later.'''\n    pass\n", "f does nothing", "a stub"),
    ("jobs/a.py", "# TO" "DO mend\n", "jobs/a.py:1: a note", "work left in a comment"),
]


@pytest.mark.parametrize(("path", "text", "expected", "reason"), CASES)
def test_complaints(path: str, text: str, expected: str, reason: str) -> None:
    found = "\n".join(structure.complaints(path, text))
    assert (expected in found) if expected else (found == ""), reason
