"""Several labels of one page brought to one row: the majority, with every member's label and their spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import mean, median_low
from typing import Any


def combined(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One row for the members' rows of one page and variant; a single member's row stays as it is.

    The label is the most frequent one, of equally frequent ones the lower of the middle two; without any label the
    first member's reason. Rationale and citations are those of the first member that gave the label. Tokens add up.
    """
    if len(rows) == 1:
        return rows[0]
    labels = [row["label"] for row in rows if row["label"] is not None]
    label = _majority(labels) if labels else None
    speaker = next(row for row in rows if row["label"] == label)
    expected = [row["expected_label"] for row in rows if row["expected_label"] is not None]
    return {
        **speaker,
        "model": "+".join(dict.fromkeys(row["model"] for row in rows)),
        "sample": 0,
        "label": label,
        "reason": None if labels else rows[0]["reason"],
        "expected_label": mean(expected) if expected else None,
        "members": [row["label"] for row in rows],
        "spread": max(labels) - min(labels) if labels else None,
        "tokens_in": sum(row["tokens_in"] for row in rows if not row["cached"]),
        "tokens_out": sum(row["tokens_out"] for row in rows if not row["cached"]),
        "cached": all(row["cached"] for row in rows),
        "possibly_billed_twice": any(row["possibly_billed_twice"] for row in rows),
    }


def _majority(labels: list[float]) -> float:
    counts = Counter(labels)
    most = max(counts.values())
    return median_low(sorted(label for label, count in counts.items() if count == most))
