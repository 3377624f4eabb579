"""Environment variables that keep every process from calling out, from writing outside the checkout and from burning
processors that others need; declared once.

Read by `jobs` on import, by the DAGs for their tasks, and by the demo for Airflow itself. A value that is already set
wins, so that an operator can allow a hub or name another folder.
"""

from collections.abc import MutableMapping
from pathlib import Path

SILENT: dict[str, str] = {
    "HF_HUB_OFFLINE": "1",  # models come from packages or local folders; no hub look-ups
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "GX_ANALYTICS_ENABLED": "false",  # Great Expectations
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "SCARF_ANALYTICS": "false",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",  # its threads and forked workers do not go together
    # Threads of matrix products that wait for each other spin for some microseconds, then sleep: as fast as the default
    # of 300,000 rounds on a quiet machine, and twice as fast on a busy one.
    "GOMP_SPINCOUNT": "10000",
}


def environment(home: Path) -> dict[str, str]:
    """SILENT, and the folders under `home` that libraries keep their caches in."""
    cache = home / ".cache"
    return SILENT | {"HF_HOME": str(cache / "huggingface"), "MPLCONFIGDIR": str(cache / "matplotlib")}


def apply(into: MutableMapping[str, str], *, home: Path) -> None:
    """Set every variable of `environment` that `into` does not hold yet."""
    for name, value in environment(home).items():
        into.setdefault(name, value)
