"""Which variants a run judges, and how its pages are cut into shards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jobs.core.context import Context
from jobs.core.errors import UsageError
from jobs.core.sampling import unit_hash
from schemas.judgments import GROUNDED, VARIANTS

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
BASELINE_SHARD_PAGES = 50_000  # of the baseline, which takes a minute for so many: a process costs more than a shard


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One part of the pages of one corpus under one variant; `part` counts from 0 to `parts` - 1."""

    index: int
    corpus: str
    variant: str
    part: int
    parts: int
    pages: int

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as the plan keeps them."""
        return asdict(self)

    def holds(self, page_id: str) -> bool:
        """True if the page belongs to this part; a page keeps its part from one plan to the next."""
        return part_of(page_id, parts=self.parts) == self.part


def part_of(page_id: str, *, parts: int) -> int:
    """Which of `parts` a page belongs to, by a stable hash."""
    return int(unit_hash("shard", page_id) * parts)


def variants_of(ctx: Context) -> tuple[str, ...]:
    """Variants of this run: none on a backfill (unless told to), all on the ablation weekday, else as in the settings.

    Plain is always there (pages without evidence take its label), evidence_only too, since it costs nothing. Without
    any evidence only plain is left.
    """
    judging = ctx.settings.judging
    if ctx.backfill and not judging.judge_on_backfill:
        return ()
    night = ctx.run.launch_id is None
    ablation = night and WEEKDAYS[ctx.run.day.weekday()] == judging.ablation_weekday
    chosen = set(VARIANTS) if ablation else {*judging.variants, "plain", "evidence_only"}
    if no_evidence(ctx):
        chosen = {"plain"}
    return tuple(variant for variant in VARIANTS if variant in chosen)


def main_variant(variants: Sequence[str]) -> str:
    """The variant on which the judge's trust is checked: qri, else the first grounded one, else plain."""
    grounded = [variant for variant in GROUNDED if variant in variants]
    return "qri" if "qri" in grounded else next(iter(grounded), "plain")


def no_evidence(ctx: Context) -> bool:
    """True if the evidence step found too few days of data in every corpus (windows.min_evidence_days)."""
    corpora = ctx.manifest()["steps"].get("evidence", {}).get("corpora", {})
    least = ctx.settings.windows.min_evidence_days
    return bool(corpora) and all(found.get("days", least) < least for found in corpora.values())


def cut(pages: Mapping[str, int], *, variants: tuple[str, ...], shard_pages: int, max_shards: int) -> list[Shard]:
    """Shards of (corpus, variant, part) for `pages` by corpus, at most `max_shards` whatever the number of pages.

    Raises UsageError where corpora and variants alone are more than that.
    """
    filled = {corpus: n for corpus, n in sorted(pages.items()) if n}
    if len(filled) * len(variants) > max_shards:
        raise UsageError(
            f"{len(filled)} corpora under {len(variants)} variants need more than judging.max_shards = {max_shards}:"
            " raise it, or judge fewer variants"
        )
    size = shard_pages
    while sum(math.ceil(n / size) for n in filled.values()) * len(variants) > max_shards:
        size = math.ceil(size * 1.25)
    slots = [
        (corpus, variant, part, math.ceil(n / size), n)
        for corpus, n in filled.items()
        for variant in variants
        for part in range(math.ceil(n / size))
    ]
    return [
        Shard(index=i, corpus=c, variant=v, part=part, parts=parts, pages=math.ceil(n / parts))
        for i, (c, v, part, parts, n) in enumerate(slots)
    ]
