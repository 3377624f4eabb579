"""Agreement between raters: Cohen's kappa and Krippendorff's alpha, also for the marks that reviewers export."""

import json
from collections import Counter
from pathlib import Path

import numpy as np

from jobs.core.errors import InputError

MARKS = ("agree", "disagree", "unsure")
_LEVELS = ("nominal", "ordinal", "interval")


def cohen_kappa(a: list, b: list, *, weights: str | None = None) -> float | None:
    """Cohen's kappa of two equally long lists of ratings; `weights` None, "linear" or "quadratic".

    None if there are no pairs, or if both raters use one and the same single value (chance agreement is then 1).
    """
    values = sorted({*a, *b})
    place = {v: i for i, v in enumerate(values)}
    table = np.zeros((len(values), len(values)))
    for x, y in zip(a, b, strict=True):
        table[place[x], place[y]] += 1
    if not table.sum():
        return None
    distance = np.abs(np.subtract.outer(np.arange(len(values)), np.arange(len(values)))).astype(float)
    cost = {None: (distance > 0).astype(float), "linear": distance, "quadratic": distance**2}[weights]
    share = table / table.sum()
    expected = np.outer(share.sum(axis=1), share.sum(axis=0))
    chance = float((expected * cost).sum())
    return None if chance == 0 else 1 - float((share * cost).sum()) / chance


def krippendorff_alpha(units: list[list], *, level: str = "nominal") -> float | None:
    """Krippendorff's alpha; `units` holds the ratings of each unit (units with one rating do not count).

    `level` is "nominal", "ordinal" or "interval". None if no unit has two ratings or all ratings are equal.
    """
    if level not in _LEVELS:
        raise InputError(f"level {level!r} is not one of {', '.join(_LEVELS)}")
    paired = [u for u in units if len(u) > 1]
    values = sorted({v for u in paired for v in u})
    if len(values) < 2:
        return None
    place = {v: i for i, v in enumerate(values)}
    coincidence = np.zeros((len(values), len(values)))
    for unit in paired:
        counts = Counter(place[v] for v in unit)
        for x, n in counts.items():
            for y, m in counts.items():
                coincidence[x, y] += n * (m - (x == y)) / (len(unit) - 1)
    totals = coincidence.sum(axis=1)
    cost = _cost(values, totals, level)
    expected = np.outer(totals, totals) - np.diag(totals)
    return 1 - float((coincidence * cost).sum()) * (totals.sum() - 1) / float((expected * cost).sum())


def _cost(values: list, totals: np.ndarray, level: str) -> np.ndarray:
    if level == "nominal":
        return 1.0 - np.eye(len(values))
    numbers = np.asarray(values, float) if level == "interval" else np.cumsum(totals) - totals / 2
    return np.subtract.outer(numbers, numbers) ** 2


def read_marks(path: Path) -> dict[str, str]:
    """Page id -> mark, from a file that the report's explorer exported ({"reviewer", "run", "marks": {...}})."""
    try:
        content = json.loads(path.read_text("utf-8"))
        marks = content["marks"]
        found = {str(page): str(entry["mark"]) for page, entry in marks.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no file of marks ({error}): export it with the button of the explorer") from error
    wrong = sorted({m for m in found.values() if m not in MARKS})
    if wrong:
        raise InputError(f"{path} holds the mark {wrong[0]!r}: allowed are {', '.join(MARKS)}")
    return found


def agree(files: list[Path]) -> dict:
    """Agreement of reviewers' exported marks: Cohen's kappa per pair, Krippendorff's alpha over all, counts.

    `agree_share` is the share of marks that side with the judge. Null values carry a `reason`.
    """
    if not files:
        raise InputError("no file of marks: name at least one export of the explorer")
    reviewers = {f"{i + 1}:{path.stem}": read_marks(path) for i, path in enumerate(files)}
    pages = sorted({p for marks in reviewers.values() for p in marks})
    units = [[m[p] for m in reviewers.values() if p in m] for p in pages]
    alpha = krippendorff_alpha(units)
    names = list(reviewers)
    return {
        "reviewers": {name: dict(Counter(marks.values())) for name, marks in reviewers.items()},
        "pages": len(pages),
        "pages_by_two_or_more": sum(len(u) > 1 for u in units),
        "agree_share": _share([m for u in units for m in u]),
        "krippendorff_alpha": alpha,
        "reason": None if alpha is not None else "no page has two different marks, so chance cannot be told from skill",
        "cohen_kappa": [_pair(reviewers, a, b) for i, a in enumerate(names) for b in names[i + 1 :]],
    }


def _share(marks: list[str]) -> float | None:
    sided = [m for m in marks if m != "unsure"]
    return sum(m == "agree" for m in sided) / len(sided) if sided else None


def _pair(reviewers: dict[str, dict[str, str]], a: str, b: str) -> dict:
    both = sorted(reviewers[a].keys() & reviewers[b].keys())
    kappa = cohen_kappa([reviewers[a][p] for p in both], [reviewers[b][p] for p in both])
    why = None if kappa is not None else "no common pages" if not both else "both used one mark only"
    return {"a": a, "b": b, "n": len(both), "kappa": kappa, "reason": why}
