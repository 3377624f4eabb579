"""For all tests: connections to anything but this machine are refused, in this process and in those it starts."""

import os
import sys
from pathlib import Path

REFUSE = str(Path(__file__).resolve().parent.parent / "setup" / "refuse")
sys.path.insert(0, REFUSE)

import refuse_network  # noqa: E402, F401 - importing is what refuses

os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [REFUSE, os.environ.get("PYTHONPATH")]))
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
