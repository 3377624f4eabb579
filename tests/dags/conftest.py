"""Airflow reads its folders from the environment when it is imported, so they are set before any test is collected."""

import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "setup"))

import airflow_here  # noqa: E402

if find_spec("airflow"):
    HOME = Path(tempfile.mkdtemp(prefix="airflow-"))
    os.environ |= airflow_here.variables(config=HOME / "hindcast.toml", home=HOME)
else:  # `pytest tests` in the jobs environment
    collect_ignore_glob = ["test_*.py"]
