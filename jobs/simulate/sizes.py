"""How large a simulated service is. Named sizes are fixed, so that a demo or a test is the same on every machine."""

from dataclasses import dataclass, replace
from datetime import date, timedelta

from jobs.core.errors import UsageError

LAST_DAY = date(2026, 11, 22)
"""Last simulated event day: a Sunday, so that the default ablation night is the last one."""

CORPORA = {"tracks": 0.65, "podcasts": 0.35}
LOCALES = {"en": 0.6, "de": 0.22, "es": 0.18}
WORDINGS = 6
"""Queries that ask for one thing in different words."""

PAGES_PER_QUERY_OF_A_LOG = 45
"""Of any size made for speed: the mean number of result pages a query, as in a log of 100 million rows with 220,000
queries.
"""


@dataclass(frozen=True, kw_only=True)
class Size:
    """Volume and windows of one simulated log.

    impressions: shown items over all days and corpora (approximate by rounding and bots). intents: things asked for,
    each in `WORDINGS` queries. zipf: exponent of the popularity of intents. users: size of the population; a page's
    user is drawn from it. bot_pages: pages of one bot visit. clean: neither dirty rows nor bots. The rest goes into
    hindcast.toml.
    """

    name: str
    days: int
    impressions: int
    intents: int
    hits: int = 10
    zipf: float = 0.5
    users: int = 30_000
    bot_pages: int = 600
    bot_every_days: int = 15
    labels: int = 400
    launch_queries: int = 600
    documents: int = 500
    evaluation_days: int = 10
    gap_days: int = 7
    evidence_days: int = 30
    min_users: int = 20
    page_users: tuple[int, int] = (20, 400)
    min_item_impressions: int = 10
    min_item_relevance: float = 0.3
    degraded_share: float = 0.2
    every_variant: bool = False
    segments: bool = False
    clean: bool = False

    def __post_init__(self) -> None:
        if self.days < 1 or self.impressions < self.days * self.hits:
            raise UsageError(
                f"{self.impressions} impressions over {self.days} days is less than a page a day: ask for more"
            )

    @property
    def first_day(self) -> date:
        """First event day."""
        return LAST_DAY - timedelta(days=self.days - 1)

    @property
    def calendar(self) -> list[date]:
        """All event days in order."""
        return [self.first_day + timedelta(days=i) for i in range(self.days)]

    def pages_on(self, day: date, *, corpus: str) -> int:
        """Result pages of one day and corpus; Sundays have a fifth more than the mean, Mondays a tenth less."""
        weekday = {6: 1.2, 0: 0.9, 4: 1.1, 2: 0.9, 1: 0.95, 3: 0.95, 5: 1.0}[day.weekday()]
        return max(1, round(self.impressions / self.hits / self.days * CORPORA[corpus] * weekday))


TINY = Size(
    name="tiny", days=12, impressions=20_000, intents=12, hits=6, zipf=0.2, users=4_000, bot_pages=60, bot_every_days=5,
    labels=24, launch_queries=24, documents=60, evaluation_days=2, gap_days=1, evidence_days=7, min_users=3,
    page_users=(3, 400), min_item_impressions=2, min_item_relevance=0.1, degraded_share=0.8, every_variant=True,
)  # fmt: skip
DEMO = Size(name="demo", days=60, impressions=3_000_000, intents=180)
NAMED = {size.name: size for size in (TINY, DEMO)}


def size_of(
    name: str | None, *, impressions: int | None = None, days: int | None = None, segments: bool = False
) -> Size:
    """A named size, or one of any volume made from `impressions` and `days`. Raises UsageError for an unknown name."""
    if impressions is None:
        if (name or "demo") not in NAMED:
            raise UsageError(f"size {name!r} is unknown: take {' or '.join(NAMED)}, or give --impressions and --days")
        size = NAMED[name or "demo"]
        return replace(size, days=days or size.days, segments=segments)
    queries = impressions / DEMO.hits / PAGES_PER_QUERY_OF_A_LOG
    return Size(
        name="log", days=days or 30, impressions=impressions, intents=max(20, round(queries / WORDINGS)), zipf=0.8,
        users=max(5_000, impressions // 100), segments=segments,
    )  # fmt: skip
