"""Time windows and leakage guards: the only place that knows which row a run may see (formats.md, "Terms").

All windows are half-open [start, end) in UTC days, on event time and on arrival time. Evidence and propensity see event
days of the evidence window whose rows arrived before the cut; evaluation sees its window as of the night.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import polars as pl

from jobs.core.errors import LeakageError, UsageError
from schemas.names import launch_id as checked_launch_id
from schemas.names import run_key

_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Window:
    """Half-open range of UTC days [start, end); `start == end` is empty."""

    start: date
    end: date

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise UsageError(f"window [{self.start}, {self.end}) ends before it starts: exchange its dates")

    def __contains__(self, day: date) -> bool:
        return self.start <= day < self.end

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"

    @property
    def days(self) -> int:
        """Number of days in the window."""
        return (self.end - self.start).days

    def each_day(self) -> list[date]:
        """The days of the window in order."""
        return [self.start + timedelta(days=i) for i in range(self.days)]

    def touches(self, other: "Window") -> bool:
        """True if any day stands in both windows."""
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, kw_only=True)
class WindowLengths:
    """Lengths in days; the defaults are those of formats.md."""

    evaluation_days: int = 10
    gap_days: int = 7
    evidence_days: int = 30
    min_evidence_days: int = 7

    def __post_init__(self) -> None:
        for name in ("evaluation_days", "evidence_days", "min_evidence_days"):
            if getattr(self, name) < 1:
                raise UsageError(f"windows.{name} is {getattr(self, name)}: it must be at least 1 day")
        if self.gap_days < 0:
            raise UsageError(f"windows.gap_days is {self.gap_days}: it must be 0 or more")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one pass computes, and the partition of all that it writes from propensity on.

    `cut` is the start of the evaluation window, or of the launch; `as_of` the last arrival day that evaluation sees.
    """

    key: str
    cut: date
    as_of: date
    evidence: Window
    evaluation: Window | None
    gap_days: int
    launch_id: str | None = None

    def __post_init__(self) -> None:
        run_key(self.key)
        if self.evidence.end + timedelta(days=self.gap_days) > self.cut:
            raise LeakageError(
                f"evidence window {self.evidence} ends less than the gap of {self.gap_days} days before the cut"
                f" {self.cut}: move the evidence window back"
            )
        if self.evaluation and self.evidence.touches(self.evaluation):
            raise LeakageError(f"evidence window {self.evidence} touches evaluation window {self.evaluation}")

    @classmethod
    def night(cls, day: date, *, lengths: WindowLengths) -> "Run":
        """The run that processes event day `day`, whatever the scheduler calls its interval."""
        evaluation = Window(day - timedelta(days=lengths.evaluation_days - 1), day + timedelta(days=1))
        return cls(
            key=f"night-{day.isoformat()}",
            cut=evaluation.start,
            as_of=day,
            evidence=_before(evaluation.start, lengths),
            evaluation=evaluation,
            gap_days=lengths.gap_days,
        )

    @classmethod
    def launch(cls, launch_id: str, *, start: date, lengths: WindowLengths) -> "Run":
        """The forecast of a launch that starts on `start`: no evaluation window, the cut is the launch itself."""
        return cls(
            key=f"launch-{checked_launch_id(launch_id)}",
            cut=start,
            as_of=start - timedelta(days=1),
            evidence=_before(start, lengths),
            evaluation=None,
            gap_days=lengths.gap_days,
            launch_id=launch_id,
        )

    @property
    def day(self) -> date:
        """The night's event day; of a launch the last day before its start."""
        return self.as_of

    @property
    def history(self) -> Window:
        """Every event day that this run reads: from the first evidence day to `as_of`, both included."""
        return Window(self.evidence.start, self.as_of + timedelta(days=1))

    def evidence_sees(self, event_day: date, arrival_day: date) -> bool:
        """May a row of this event and arrival day stand behind a card or a curve of this run?"""
        return event_day in self.evidence and arrival_day < self.cut

    def evaluation_sees(self, event_day: date, arrival_day: date) -> bool:
        """May a row of this event and arrival day stand behind a page's truth of this run?"""
        return self.evaluation is not None and event_day in self.evaluation and arrival_day <= self.as_of

    def check_evidence(self, event_day: date, arrival_day: date) -> None:
        """Raise LeakageError, naming both windows, unless `evidence_sees`."""
        if not self.evidence_sees(event_day, arrival_day):
            raise LeakageError(
                f"a row of event day {event_day} that arrived on {arrival_day} reached the evidence of {self.key}:"
                f" its evidence window is {self.evidence}, rows must have arrived before {self.cut}"
                f" (evaluation {self.evaluation or 'starts with the launch'})"
            )


def evidence_filter(run: Run) -> pl.Expr:
    """`Run.evidence_sees` as an expression over columns event_day and arrival_day."""
    event, arrival = pl.col("event_day"), pl.col("arrival_day")
    return (event >= run.evidence.start) & (event < run.evidence.end) & (arrival < run.cut)


def evaluation_filter(run: Run) -> pl.Expr:
    """`Run.evaluation_sees` as an expression over columns event_day and arrival_day; false for launches."""
    if run.evaluation is None:
        return pl.lit(value=False)
    event, arrival = pl.col("event_day"), pl.col("arrival_day")
    return (event >= run.evaluation.start) & (event < run.evaluation.end) & (arrival <= run.as_of)


def composes(day: date) -> bool:
    """True for days whose relevance composes pages, false for days that score them: parity of days since 1970-01-01."""
    return (day - _EPOCH).days % 2 == 0


def composes_filter(column: str = "event_day") -> pl.Expr:
    """`composes` as an expression over a date column."""
    return pl.col(column).cast(pl.Int32) % 2 == 0


def utc_day(moment: datetime) -> date:
    """UTC calendar day of an aware time; a time without offset is an error, never the machine's zone."""
    if moment.tzinfo is None:
        raise UsageError(f"time {moment.isoformat()} has no offset: declare time_zone for its source")
    return moment.astimezone(UTC).date()


def _before(cut: date, lengths: WindowLengths) -> Window:
    try:
        end = cut - timedelta(days=lengths.gap_days)
        return Window(end - timedelta(days=lengths.evidence_days), end)
    except OverflowError:
        raise UsageError(f"day {cut} has no evidence window before it in the calendar: name a later day") from None
