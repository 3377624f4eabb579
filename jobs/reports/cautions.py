"""Where evidence is shorter than it should be: sentences that stand wherever figures rest on it."""

from typing import Any


def short_evidence(steps: dict[str, Any]) -> list[str]:
    """A sentence per corpus whose evidence window was not full of data (cold start); empty where all were."""
    corpora = (steps.get("evidence") or {}).get("corpora") or {}
    return [_short(name, found) for name, found in sorted(corpora.items()) if found.get("cold_start")]


def _short(corpus: str, found: dict[str, Any]) -> str:
    days = f"{found.get('days')} of {found.get('days_wanted')} days"
    if str(found.get("state", "")).startswith("no evidence"):
        return f"{corpus}: no evidence, the log holds {days} of its window, so pages were judged without any"
    return f"{corpus}: short evidence, {days} of its window"
