"""May the judge be trusted: does it repeat itself, does order matter where it should, has the endpoint changed?

All checks work on small stable samples of a shard's pages and are asked apart from the labels of the run (a salt in the
key), so they never replace one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobs.core.sampling import unit_hash
from jobs.judging.inputs import CardRow, Page
from jobs.judging.runner import Work

Labels = Mapping[str, float | None]
Grade = Callable[[Sequence[Work], str], Labels]
"""Labels by page id of given pages, asked under a salt."""

SHARE_OF_PAGES = 0.1  # of a shard at most are asked again, so that small runs are not doubled
LEAST_NOISE = 0.05  # share of anchors that may change by chance, even where repeats agreed on fewer pages
ALARM_P = 0.01  # chance of a false alarm a night


def check(works: Sequence[Work], labels: Labels, grade: Grade, *, pages: int) -> dict[str, Any]:
    """Repeats and orders on a stable sample of `works`, compared with `labels`, the run's own labels by page id.

    `repeat`: the same question again. `evidence_order`: the rows of each card turned round, which should change
    nothing. `result_order`: the results turned round, which should change labels where results differ.
    """
    some = sample(works, most=pages, salt="repeat")
    turned = [(n, turned_page(page), rows) for n, page, rows in some]
    rows_turned = [(n, page, turned_rows(rows)) for n, page, rows in some]
    return {
        "repeat": agreement(labels, grade(some, "repeat")),
        "evidence_order": agreement(labels, grade(rows_turned, "evidence order")),
        "result_order": agreement(labels, grade(turned, "result order")),
    }


def planned_calls(pages: int, *, repeat_pages: int, anchor_pages: int) -> int:
    """Calls that the checks on a shard of so many pages take: three a repeated page, one an anchor."""
    most = math.ceil(pages * SHARE_OF_PAGES)
    return 3 * min(repeat_pages, most) + min(anchor_pages, most)


def check_anchors(
    kept: dict[str, Any] | None, labels: Labels, *, run: str, noise: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tonight's labels of the anchor pages against the first night's: (what to keep, what to report).

    kept: what an earlier night kept, None on the first one. noise: share of repeats that disagreed tonight. `alarm` is
    set where more anchors changed than chance allows.
    """
    reference = {page: label for page, label in (kept or {}).get("reference", labels).items() if label is not None}
    found = agreement(reference, labels)
    chance = at_least(found["changed"], of=found["n"], share=max(noise, LEAST_NOISE))
    alarm = found["n"] > 0 and chance < ALARM_P
    history = {**(kept or {}).get("history", {}), run: {"n": found["n"], "changed": found["changed"], "alarm": alarm}}
    report = {**found, "p": round(chance, 6), "alarm": alarm, "first_night": (kept or {}).get("first_night", run)}
    return {"first_night": report["first_night"], "reference": reference, "history": history}, report


def agreement(first: Labels, second: Labels) -> dict[str, Any]:
    """Pages that both labelled, how many of them differ, and the mean change (second minus first)."""
    both = [(first[p], second[p]) for p in sorted(second) if first.get(p) is not None and second[p] is not None]
    changed = sum(a != b for a, b in both)
    return {
        "n": len(both),
        "changed": changed,
        "same_share": round(1 - changed / len(both), 4) if both else None,
        "mean_change": round(math.fsum(b - a for a, b in both) / len(both), 4) if both else None,
        "unscored": sum(label is None for label in second.values()),
    }


def sample(works: Sequence[Work], *, most: int, salt: str) -> list[Work]:
    """A stable sample: at most `most` pages and SHARE_OF_PAGES of all, by a hash of the page id."""
    count = min(most, math.ceil(len(works) * SHARE_OF_PAGES))
    ranked = sorted(works, key=lambda work: unit_hash(salt, work[1].page_id))
    return ranked[:count]


def turned_page(page: Page) -> Page:
    """The page with its results in the opposite order."""
    items = [replace(item, rank=n) for n, item in enumerate(reversed(page.items), start=1)]
    return replace(page, items=tuple(items))


def turned_rows(rows: Sequence[CardRow]) -> list[CardRow]:
    """The rows with each item's card read from its end."""
    found: list[CardRow] = []
    for name in dict.fromkeys(row.item_id for row in rows):
        own = [row for row in rows if row.item_id == name]
        last = {place: max((getattr(r, place) or 0 for r in own), default=0) for place in ("row", "row_unfiltered")}
        found += [replace(row, **{place: _turned(getattr(row, place), last[place]) for place in last}) for row in own]
    return found


def at_least(successes: int, *, of: int, share: float) -> float:
    """Probability of at least so many successes among `of` trials of probability `share` (binomial upper tail)."""
    terms = (math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(successes, of + 1))
    return min(1.0, math.fsum(terms))


def _turned(place: int | None, last: int) -> int | None:
    return None if place is None else last + 1 - place
