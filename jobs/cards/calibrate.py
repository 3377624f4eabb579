"""A model's near-duplicate threshold from pairs of queries that are, or are not, the same query in other words."""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jobs.core.embedding import Encoder
from jobs.core.errors import InputError
from jobs.core.normalise import normalise_query
from jobs.core.sampling import unit_hash
from jobs.pages.files import read_rows

MIN_PAIRS = 20  # of each kind: below it the interval of an error rate is wider than .4
Z = 1.959964


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two normalised queries of one locale, and whether they are near-duplicates."""

    a: str
    b: str
    locale: str
    near_duplicate: bool


def read_pairs(path: Path) -> list[Pair]:
    """Pairs of a JSON lines or CSV file with a, b, near_duplicate (true/false) and optionally locale."""
    pairs = []
    for number, row in read_rows(path):
        label = str(row.get("near_duplicate", "")).lower() if isinstance(row, dict) else ""
        if label not in ("true", "false", "1", "0") or not row.get("a") or not row.get("b"):
            raise InputError(f"{path} line {number}: a pair needs a, b and near_duplicate (true, false): mend it")
        locale = row.get("locale") or ""
        a, b = (normalise_query(row[name], locale=locale) for name in ("a", "b"))
        pairs.append(Pair(a=a, b=b, locale=locale, near_duplicate=label in ("true", "1")))
    return pairs


def planted_pairs(queries: Sequence[str], *, locale: str, limit: int = 400) -> list[Pair]:
    """Pairs made from real queries.

    Near-duplicates: the same words in another order, with a slip of the keyboard, without accents. Different: the
    longest word exchanged for that of another query. Drawn by hashes, so the same queries give the same pairs.
    """
    drawn = sorted((q for q in set(queries) if len(q.split()) > 1), key=lambda q: unit_hash("calibrate", q))[:limit]
    pairs = []
    for query, other in zip(drawn, drawn[1:] + drawn[:1], strict=True):
        pairs += [Pair(a=query, b=text, locale=locale, near_duplicate=True) for text in _rewordings(query)]
        pairs += [Pair(a=query, b=text, locale=locale, near_duplicate=False) for text in _different(query, other)]
    return pairs


def calibrate(pairs: Sequence[Pair], *, encoder: Encoder) -> dict[str, Any]:
    """The threshold that errs least, counting both errors alike, with its error rates and their 95% intervals.

    missed: share of near-duplicates at or below it, which would leak; wrongly_dropped: share of different queries above
    it, which would be lost. The threshold lies in the middle of the gap between the two nearest cosines. InputError for
    fewer than MIN_PAIRS of either kind.
    """
    label = np.array([pair.near_duplicate for pair in pairs], dtype=bool)
    if not has_enough(pairs):
        counts = f"{int(label.sum())} near-duplicate and {int((~label).sum())} different pairs"
        raise InputError(f"{counts} are too few to calibrate on: give at least {MIN_PAIRS} of each")
    cosine = cosines(pairs, encoder=encoder)
    threshold = best_threshold(cosine, label)
    return {
        "threshold": threshold,
        "missed": _rate(int((cosine[label] <= threshold).sum()), int(label.sum())),
        "wrongly_dropped": _rate(int((cosine[~label] > threshold).sum()), int((~label).sum())),
        "near_duplicates": _quantiles(cosine[label]),
        "different": _quantiles(cosine[~label]),
    }


def has_enough(pairs: Sequence[Pair]) -> bool:
    """At least MIN_PAIRS near-duplicate pairs and as many different ones."""
    near = sum(pair.near_duplicate for pair in pairs)
    return min(near, len(pairs) - near) >= MIN_PAIRS


def cosines(pairs: Sequence[Pair], *, encoder: Encoder) -> np.ndarray:
    """Cosine of each pair, rounded as cards do."""
    a = encoder.encode([pair.a for pair in pairs], kind="query").astype(np.float64)
    b = encoder.encode([pair.b for pair in pairs], kind="query").astype(np.float64)
    return np.round((a * b).sum(axis=1), 6)


def best_threshold(cosine: np.ndarray, near_duplicate: np.ndarray) -> float:
    """Where missed share + wrongly dropped share is least; of equal ones the lowest, which leaks least.

    Two decimals where the gap between the two nearest cosines allows.
    """
    values = np.unique(cosine)
    cuts = np.concatenate([[values[0] - 0.01], (values[:-1] + values[1:]) / 2])
    missed = np.array([(cosine[near_duplicate] <= cut).mean() for cut in cuts])
    wrong = np.array([(cosine[~near_duplicate] > cut).mean() for cut in cuts])
    best = int(np.argmin(np.round(missed + wrong, 12)))
    low = values[best - 1] if best else -1.0
    rounded = round(float(cuts[best]), 2)
    return rounded if low <= rounded < values[best] else float(cuts[best])


def _rewordings(query: str) -> list[str]:
    words = query.split()
    plain = "".join(c for c in unicodedata.normalize("NFKD", query) if not unicodedata.combining(c))
    found = [" ".join(words[1:] + words[:1]), _slip(words), plain]
    return [text for text in dict.fromkeys(found) if text != query]


def _slip(words: list[str]) -> str:
    """The longest word without its middle letter."""
    place = max(range(len(words)), key=lambda i: len(words[i]))
    word = words[place]
    cut = word[: len(word) // 2] + word[len(word) // 2 + 1 :] if len(word) > 4 else word
    return " ".join([*words[:place], cut, *words[place + 1 :]])


def _different(query: str, other: str) -> list[str]:
    words, theirs = query.split(), max(other.split(), key=len)
    place = max(range(len(words)), key=lambda i: len(words[i]))
    same = words[place][:4] == theirs[:4] or theirs in words
    return [] if same else [" ".join([*words[:place], theirs, *words[place + 1 :]])]


def _rate(errors: int, n: int) -> dict[str, float]:
    """A share with its Wilson interval."""
    p, z2 = errors / n, Z * Z
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return {
        "rate": round(p, 4),
        "low": round(max(0.0, middle - half), 4),
        "high": round(min(1.0, middle + half), 4),
        "n": n,
    }


def _quantiles(values: np.ndarray) -> dict[str, float]:
    points = np.quantile(values, [0.05, 0.5, 0.95])
    return {name: round(float(point), 4) for name, point in zip(("p05", "median", "p95"), points, strict=True)}
