"""What a task loads is paid by every worker of every night: pandas, half a second, is not needed in any."""

import subprocess
import sys

import pytest

SUMS = """
import numpy as np, polars as pl
from jobs.evidence.dense import _codes, whole_numbers
from jobs.evidence.sums import _lists
number, size = _codes(np.array([1, 1, 2]), np.array([5, 5, -6]))
assert number.tolist() == [0, 0, 1] and size == 2, number
assert _lists("a", np.array([1, 2, 3]), np.array([0, 2, 3])).to_list() == [[1, 2], [3]]
assert whole_numbers(np.arange(6)[::2]).to_pylist() == [0, 2, 4]
"""
SCHEMAS = """
from schemas.catalog import TABLES
assert all(table.polars() for table in TABLES.values())
"""


@pytest.mark.parametrize("code", [SUMS, SCHEMAS], ids=["sums", "schemas"])
def test_no_pandas(code):
    told = f"{code}\nimport sys\nassert 'pandas' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
