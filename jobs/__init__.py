"""Hindcast: grades search result pages with what past users did."""

import os
from pathlib import Path

from schemas.environment import apply

__version__ = "0.1.0"

apply(os.environ, home=Path(os.environ.get("HINDCAST_HOME") or Path(__file__).resolve().parents[1]))
