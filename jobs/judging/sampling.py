"""Fewer pages than there are, where a judge is slow: whole queries, chosen by a stable hash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from jobs.core.sampling import unit_hash
from jobs.judging.inputs import Page


def at_most(pages: Callable[[], Iterable[Page]], *, most: int) -> Iterator[Page]:
    """Pages in order, at most `most` of them (0: all): queries by stable hash, each with all its pages, so that pairs
    of one query stay together. `pages` is called twice where there are too many."""
    if most <= 0:
        return iter(pages())
    counts = Counter(_group(page) for page in pages())
    kept: set[tuple[str, str, str]] = set()
    left = most
    for group in sorted(counts, key=lambda group: (unit_hash("judged", *group), group)):
        if counts[group] <= left:
            kept.add(group)
            left -= counts[group]
        if left <= 0:
            break
    return (page for page in pages() if _group(page) in kept)


def _group(page: Page) -> tuple[str, str, str]:
    return page.set, page.corpus, page.query_key
