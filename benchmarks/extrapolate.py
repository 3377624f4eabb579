"""A night at a billion impressions a day, on paper, from the last run: `python -m benchmarks --extrapolate`.

Processor seconds grow with the log as measured between its two largest sizes (a power law), and split over cores, since
key ranges share nothing. Storage grows linearly. What judging costs depends on the sampled pages, not on the log.
"""

import re
from math import log

DAY, DAYS = 1_000_000_000, 30
HOURS, CORES = 1.0, 8  # a night that takes an hour, executors of eight cores
BUSY = 0.7  # share of the cores' time that is work: ranges differ, executors start and wait
PAGES, VARIANTS, TOKENS_IN, TOKENS_OUT = 6_000, 2, 700, 60
PRICE_IN, PRICE_OUT = 0.5, 2.0  # US dollars a million tokens: an example, [judging] prices decide
SPENT = re.compile(r"steady night, (\d+) million: processor seconds")
STORED = re.compile(r"steady night, (\d+) million: stored bytes an impression")


def on_paper(summary: dict) -> str:
    """The estimate as text; SystemExit if the last runs did not measure nights of two sizes."""
    spent, stored = (_by_size(summary, pattern) for pattern in (SPENT, STORED))
    if len(spent) < 2:
        raise SystemExit("benchmarks: two sizes of `night` are needed to extrapolate: run `make bench-night` first")
    (small, low), (large, high) = sorted(spent.items())[-2:]
    slope = log(high / low) / log(large / small)
    seconds = high * (DAY * DAYS / large) ** slope
    cores = seconds / (HOURS * 3600 * BUSY)
    window = stored[large] * DAY * DAYS / 1e12
    calls = PAGES * VARIANTS
    dollars = calls * (TOKENS_IN * PRICE_IN + TOKENS_OUT * PRICE_OUT) / 1e6
    return "\n".join([
        f"measured {summary['at']}: {low:.1f} s of the processor at {small / 1e6:.0f} million impressions of"
        f" {DAYS} days, {high:.1f} s at {large / 1e6:.0f} million; slope {slope:.2f}",
        f"a night at {DAY:,} impressions a day: {seconds / 3600:.1f} hours of one core, from canonical impressions;"
        f" with {cores:.0f} cores ({cores / CORES:.0f} executors of {CORES}) about {HOURS:g} hour",
        f"stored: {window:.1f} TB for {DAYS} days of impressions, counts and users ({stored[large]:.1f} bytes an"
        " impression, before the object store's own copies)",
        f"judging: {calls:,} calls a night whatever the log's size, about ${dollars:.0f} at ${PRICE_IN:g} and"
        f" ${PRICE_OUT:g} a million tokens in and out, before what the label store already holds",
    ])  # fmt: skip


def _by_size(summary: dict, pattern: re.Pattern[str]) -> dict[int, float]:
    found = ((pattern.fullmatch(row["name"]), row["figure"]) for row in summary["figures"])
    return {int(match[1]) * 1_000_000: float(figure) for match, figure in found if match}
