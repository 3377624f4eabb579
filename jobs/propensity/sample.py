"""Which queries a curve is fitted on: a stable share of them, which is a range of keys, since keys are hashes."""

from dataclasses import dataclass
from itertools import pairwise

from jobs.core.context import Context
from jobs.core.keys import RANGES

LOWEST = -(1 << 63)  # smallest query key


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Queries that a curve is fitted on: those with keys up to `high`, `share` of all. Keys are hashes."""

    high: int
    share: float
    queries: int

    @property
    def note(self) -> str | None:
        """What the curve says of it; None where all queries are used."""
        return f"fitted on {self.share:.2%} of {self.queries:,} queries, a stable sample" if self.share < 1 else None


def sample_of(ctx: Context, corpus: str, *, most: int) -> Sample:
    """About `most` of the corpus's queries: a curve needs far fewer pairs than evidence does."""
    files = ctx.store.files("queries", version=ctx.table_version("queries"), where={"corpus": corpus})
    queries = sum(file.rows for file in files)
    share = min(1.0, most / queries) if queries else 1.0
    return Sample(high=LOWEST + round(share * (1 << 64)) - 1, share=share, queries=queries)


def split(high: int, *, tasks: int) -> list[tuple[int, int]]:
    """Inclusive (low, high) keys of at least one and at most 16 equal parts of the keys up to `high`."""
    parts = min(RANGES, max(1, tasks))
    edges = [LOWEST + (high + 1 - LOWEST) * i // parts for i in range(parts + 1)]
    return [(low, end - 1) for low, end in pairwise(edges)]
