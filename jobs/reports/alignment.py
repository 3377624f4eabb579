"""Do the judges point where the online test pointed? Signs per query, on whole label codes (methods.md, 4)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from jobs.reports.paired import mcnemar

CODE = 1_000_000
"""Labels become whole millionths before they are summed: a mean of thirds never decides a sign by rounding."""


@dataclass(frozen=True, kw_only=True)
class Preference:
    """One judge's view of one query: sign and mean of A - B over scored instances, and how many were not scored."""

    query_key: int
    sign: int
    difference: float
    scored_a: int
    scored_b: int
    unscored: int


def sign(value: float) -> int:
    """-1, 0 or 1."""
    return (value > 0) - (value < 0)


def preferences(judgments: pl.DataFrame, *, value: str = "label") -> dict[int, Preference]:
    """Per query that has a scored page of both systems: whose mean label is higher.

    `judgments`: one variant's rows with query_key, system ("a"/"b") and `value` (null = unscored). The comparison of
    means is made on whole numbers (sum A x n B against sum B x n A), so equal means are exactly tied.
    """
    coded = judgments.with_columns(code=(pl.col(value) * CODE).round().cast(pl.Int64))
    rows = coded.group_by("query_key", "system").agg(
        total=pl.col("code").sum(), n=pl.col("code").count(), unscored=pl.col("code").null_count()
    )
    sides: dict[int, dict[str, tuple[int, int, int]]] = {}
    for key, system, total, n, unscored in rows.sort("query_key", "system").iter_rows():
        sides.setdefault(key, {})[system] = (total, n, unscored)
    found = (_prefer(key, side) for key, side in sides.items())
    return {p.query_key: p for p in found if p}


def _prefer(key: int, side: dict[str, tuple[int, int, int]]) -> Preference | None:
    (a, n_a, lost_a), (b, n_b, lost_b) = side.get("a", (0, 0, 0)), side.get("b", (0, 0, 0))
    if not n_a or not n_b:
        return None
    exact = a * n_b - b * n_a
    return Preference(
        query_key=key,
        sign=sign(exact),
        difference=exact / (n_a * n_b * CODE),
        scored_a=n_a,
        scored_b=n_b,
        unscored=lost_a + lost_b,
    )


def alignment(judged: dict[int, int], online: dict[int, int]) -> dict:
    """Sign alignment over queries that both know; signs are -1, 0, 1.

    `aligned`: the paper's definition, equal signs (a judge's tie is wrong unless the outcome ties). `decided`: both
    signs are not 0; `accuracy_decided` among them. `tied`: the judge ties, the outcome does not. `half_credit` gives a
    half where exactly one side ties. Ratios are null with a reason where nothing stands under them.
    """
    keys = sorted(judged.keys() & online.keys())
    pairs = [(judged[k], online[k]) for k in keys]
    aligned = sum(j == o for j, o in pairs)
    decided = sum(j != 0 and o != 0 for j, o in pairs)
    right = sum(j == o != 0 for j, o in pairs)
    credit = sum(1.0 if j == o else 0.5 if 0 in (j, o) else 0.0 for j, o in pairs)
    return {
        "n": len(pairs),
        "aligned": aligned / len(pairs) if pairs else None,
        "n_aligned": aligned,
        "decided": decided,
        "tied": sum(j == 0 and o != 0 for j, o in pairs),
        "both_zero": sum(j == 0 == o for j, o in pairs),
        "accuracy_decided": right / decided if decided else None,
        "half_credit": credit / len(pairs) if pairs else None,
        "reason": None if decided else "no query is decided by both the judge and the outcome",
    }


def credits(judged: dict[int, int], online: dict[int, int]) -> np.ndarray:
    """Per common query, in the order of keys: [aligned, half credit], float64 (n, 2), for bootstrap intervals."""
    pairs = [(judged[k], online[k]) for k in sorted(judged.keys() & online.keys())]
    rows = [(float(j == o), 1.0 if j == o else 0.5 if 0 in (j, o) else 0.0) for j, o in pairs]
    return np.asarray(rows, np.float64).reshape(len(rows), 2)


def compare_judges(a: dict[int, int], b: dict[int, int], online: dict[int, int]) -> dict:
    """Exact McNemar between two judges on the queries that both and the outcome know."""
    keys = sorted(a.keys() & b.keys() & online.keys())
    only_a = sum(a[k] == online[k] != b[k] for k in keys)
    only_b = sum(b[k] == online[k] != a[k] for k in keys)
    return {"n": len(keys), "only_a": only_a, "only_b": only_b, "p": mcnemar(only_a=only_a, only_b=only_b)}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the online test measured for one query; `standard_error` of A - B, or None where the file holds neither
    errors nor counts of a share."""

    query_key: int
    difference: float
    standard_error: float | None


def outcomes(rows: Iterable[dict]) -> list[Outcome]:
    """Outcomes from rows with query_key, system_a, system_b and optionally n_a, n_b, standard_error_a, _b.

    With counts alone and values inside [0, 1] the values are taken as shares (binomial errors, one pseudo-count).
    """
    return [
        Outcome(
            query_key=row["query_key"],
            difference=row["system_a"] - row["system_b"],
            standard_error=_difference_error(row),
        )
        for row in rows
    ]


def _difference_error(row: dict) -> float | None:
    sides = [_side_error(row, side) for side in ("a", "b")]
    return math.hypot(*sides) if None not in sides else None


def _side_error(row: dict, side: str) -> float | None:
    given, n, value = row.get(f"standard_error_{side}"), row.get(f"n_{side}"), row[f"system_{side}"]
    if given is not None:
        return float(given)
    if not n or not 0 <= value <= 1:
        return None
    smoothed = (value * n + 0.5) / (n + 1)
    return math.sqrt(smoothed * (1 - smoothed) / n)


def online_noise(found: list[Outcome]) -> dict:
    """What the online test itself decided, and the ceiling that its noise sets on anybody's alignment.

    `decided`: |difference| > 1.96 standard errors. `ceiling`: mean probability that the measured sign is the true one,
    under a normal prior around 0 fitted by moments (a judge who knew the truth would align that often).
    """
    known = [o for o in found if o.standard_error]
    if not known:
        return {"n": 0, "decided": None, "ceiling": None, "reason": "the outcomes carry neither errors nor counts"}
    d = np.array([o.difference for o in known])
    e = np.array([o.standard_error for o in known])
    spread = max(float(np.mean(d**2 - e**2)), 0.0)
    share = spread / (spread + e**2)
    return {
        "n": len(known),
        "decided": int((np.abs(d) > 1.96 * e).sum()),
        "ceiling": float(np.mean(_normal_cdf(np.sqrt(share) * np.abs(d) / e))),
        "reason": None,
    }


def decided_keys(found: list[Outcome]) -> set[int]:
    """Keys of the queries on which the online test alone is decided (95%)."""
    return {o.query_key for o in found if o.standard_error and abs(o.difference) > 1.96 * o.standard_error}


def _normal_cdf(z: np.ndarray) -> np.ndarray:
    from scipy.special import ndtr

    return ndtr(z)
