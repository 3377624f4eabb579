"""Environment variables that keep every process from calling out and from writing outside the checkout; declared once.

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
}


def environment(home: Path) -> dict[str, str]:
    """SILENT, and the folders under `home` that libraries keep their caches in."""
    cache = home / ".cache"
    return SILENT | {"HF_HOME": str(cache / "huggingface"), "MPLCONFIGDIR": str(cache / "matplotlib")}


def apply(into: MutableMapping[str, str], *, home: Path) -> None:
    """Set every variable of `environment` that `into` does not hold yet."""
    for name, value in environment(home).items():
        into.setdefault(name, value)
