"""What each variant shows of a page's cards: every variant is a view of the same rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jobs.judging.inputs import CardRow, Page
from schemas.judgments import GROUNDED, VARIANTS

SHOWN = {
    "plain": (),
    "popularity": ("impressions",),
    "ctr": ("impressions", "ctr"),
    "qri": ("impressions", "relevance"),
    "qri_unfiltered": ("impressions", "relevance"),
    "evidence_only": ("impressions", "relevance"),
}
"""Variant to the numbers of a card row that it shows, beside the historical query itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownRow:
    """A card row as a judge sees it: `number` is what a reply cites, `item` the item's place on the page, from 1."""

    number: int
    item: int
    row: CardRow


def place_of(row: CardRow, *, variant: str) -> int | None:
    """The row's place in the variant's card of its item, or None where the variant does not show it."""
    if variant == "plain":
        return None
    return row.row_unfiltered if variant == "qri_unfiltered" else row.row


def shown_rows(page: Page, rows: Iterable[CardRow], *, variant: str) -> tuple[ShownRow, ...]:
    """The rows that the variant shows, by item as on the page and by place in its card, numbered from 1."""
    if variant not in VARIANTS:
        raise ValueError(f"variant {variant!r} is not one of {', '.join(VARIANTS)}")
    places = {item.item_id: place for place, item in enumerate(page.items, start=1)}
    found = [(places[r.item_id], place_of(r, variant=variant), r) for r in rows if r.item_id in places]
    kept = sorted((f for f in found if f[1] is not None), key=lambda f: f[:2])
    return tuple(ShownRow(number=n, item=item, row=row) for n, (item, _, row) in enumerate(kept, start=1))


def needs_plain(variant: str, shown: tuple[ShownRow, ...]) -> bool:
    """True for a page without a card row under a grounded variant: its label is plain's, it is not sent."""
    return variant in GROUNDED and not shown
