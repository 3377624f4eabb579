"""Windows and guards: no row outside its window by event or arrival day is ever visible, whatever the dates."""

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.core.errors import LeakageError, UsageError
from jobs.core.windows import (
    Run,
    Window,
    WindowLengths,
    composes,
    composes_filter,
    evaluation_filter,
    evidence_filter,
    utc_day,
)

DEFAULT = WindowLengths()
DELAYS = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=60))
DAYS = st.dates(min_value=date(1999, 1, 1), max_value=date(2099, 12, 31))
LENGTHS = st.builds(
    WindowLengths,
    evaluation_days=st.integers(1, 40),
    gap_days=st.integers(0, 40),
    evidence_days=st.integers(1, 120),
    min_evidence_days=st.integers(1, 10),
)


@pytest.mark.parametrize(
    ("day", "evaluation", "evidence", "why"),
    [
        (date(2026, 11, 20), ("2026-11-11", "2026-11-21"), ("2026-10-05", "2026-11-04"), "the example of the formats"),
        (date(2028, 3, 1), ("2028-02-21", "2028-03-02"), ("2028-01-15", "2028-02-14"), "across a leap day"),
        (date(2026, 10, 25), ("2026-10-16", "2026-10-26"), ("2026-09-09", "2026-10-09"), "night of a clock change"),
        (date(2027, 1, 5), ("2026-12-27", "2027-01-06"), ("2026-11-20", "2026-12-20"), "across a new year"),
    ],
)
def test_windows_of_a_night(day, evaluation, evidence, why):
    run = Run.night(day, lengths=DEFAULT)
    assert (run.evaluation.start.isoformat(), run.evaluation.end.isoformat()) == evaluation, why
    assert (run.evidence.start.isoformat(), run.evidence.end.isoformat()) == evidence, why
    assert run.cut == run.evaluation.start and run.as_of == day


def test_windows_of_a_launch():
    run = Run.launch("new-ranker", start=date(2026, 12, 1), lengths=DEFAULT)
    assert run.evidence == Window(date(2026, 10, 25), date(2026, 11, 24))
    assert run.evaluation is None and run.cut == date(2026, 12, 1) and run.key == "launch-new-ranker"


@given(day=DAYS, lengths=LENGTHS, offset=st.integers(-200, 200), late=st.integers(0, 60))
def test_no_row_is_evidence_and_truth_and_none_arrives_after_the_cut(day, lengths, offset, late):
    run = Run.night(day, lengths=lengths)
    event = day + timedelta(days=offset)
    arrival = event + timedelta(days=late)
    evidence, evaluation = run.evidence_sees(event, arrival), run.evaluation_sees(event, arrival)
    assert not (evidence and evaluation)
    if evidence:
        assert arrival < run.evaluation.start
        assert (run.evaluation.start - event).days > lengths.gap_days
    if evaluation:
        assert arrival <= day and event <= day


@given(day=DAYS, lengths=LENGTHS, offsets=st.lists(st.tuples(st.integers(-150, 30), st.integers(0, 40)), min_size=1))
def test_expressions_say_what_the_guards_say(day, lengths, offsets):
    run = Run.night(day, lengths=lengths)
    rows = [(day + timedelta(days=o), day + timedelta(days=o + late)) for o, late in offsets]
    frame = pl.DataFrame(rows, schema={"event_day": pl.Date, "arrival_day": pl.Date}, orient="row")
    got = frame.select(a=evidence_filter(run), b=evaluation_filter(run), c=composes_filter())
    assert got.get_column("a").to_list() == [run.evidence_sees(*r) for r in rows]
    assert got.get_column("b").to_list() == [run.evaluation_sees(*r) for r in rows]
    assert got.get_column("c").to_list() == [composes(r[0]) for r in rows]


@given(day=DAYS, lengths=LENGTHS)
def test_a_day_keeps_its_side_from_night_to_night(day, lengths):
    tonight, tomorrow = (Run.night(d, lengths=lengths) for d in (day, day + timedelta(days=1)))
    shared = set(tonight.evaluation.each_day()) & set(tomorrow.evaluation.each_day())
    assert len(shared) == lengths.evaluation_days - 1
    assert composes(day) != composes(day + timedelta(days=1))


def test_a_violated_guard_names_both_windows():
    run = Run.night(date(2026, 11, 20), lengths=DEFAULT)
    with pytest.raises(LeakageError) as caught:
        run.check_evidence(date(2026, 11, 3), date(2026, 11, 15))
    assert str(run.evidence) in str(caught.value) and str(run.evaluation) in str(caught.value)
    run.check_evidence(date(2026, 11, 3), date(2026, 11, 10))


def test_a_run_whose_evidence_touches_its_cut_cannot_be_made():
    with pytest.raises(LeakageError, match="less than the gap"):
        Run(
            key="night-2026-11-20",
            cut=date(2026, 11, 11),
            as_of=date(2026, 11, 20),
            gap_days=7,
            evidence=Window(date(2026, 10, 1), date(2026, 11, 5)),
            evaluation=Window(date(2026, 11, 11), date(2026, 11, 21)),
        )


@pytest.mark.parametrize(
    ("moment", "day", "why"),
    [
        (datetime(2026, 3, 29, 0, 30, tzinfo=timezone(timedelta(hours=2))), date(2026, 3, 28), "summer time begins"),
        (datetime(2026, 10, 25, 23, 59, tzinfo=UTC), date(2026, 10, 25), "the last minute of a long day"),
        (datetime(2028, 2, 29, 23, 30, tzinfo=timezone(timedelta(hours=-5))), date(2028, 3, 1), "leap day elsewhere"),
    ],
)
def test_days_are_utc_days(moment, day, why):
    assert utc_day(moment) == day, why


ZONES = st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"])
TURNS = [  # nights on which clocks change somewhere, and leap days
    datetime(2026, 3, 29), datetime(2026, 10, 25), datetime(2026, 3, 8), datetime(2026, 11, 1), datetime(2026, 4, 5),
    datetime(2026, 10, 4), datetime(2028, 2, 29), datetime(2100, 2, 28),
]  # fmt: skip


@given(zone=ZONES, turn=st.sampled_from(TURNS), minutes=st.integers(-3000, 3000), fold=st.integers(0, 1), late=DELAYS)
def test_no_clock_change_moves_a_row_into_a_window(zone, turn, minutes, fold, late):
    moment = (turn + timedelta(minutes=minutes)).replace(tzinfo=ZoneInfo(zone), fold=fold)
    seconds = moment.timestamp()
    arrived = datetime.fromtimestamp(seconds, UTC) + late
    day, arrival = utc_day(moment), utc_day(arrived.astimezone(ZoneInfo(zone)))
    assert day == date(1970, 1, 1) + timedelta(days=seconds // 86_400), "whole days of 86,400 s, whatever clocks show"
    for cut in (day + timedelta(days=n) for n in (-1, 0, 1, 8, 38, 47)):
        run = Run.launch("x", start=cut, lengths=DEFAULT)
        seen = pl.DataFrame({"event_day": [day], "arrival_day": [arrival]}).filter(evidence_filter(run)).height
        before = (datetime.combine(cut, datetime.min.time(), UTC)).timestamp()
        if seen:
            assert seconds < before - DEFAULT.gap_days * 86_400
            assert arrived.timestamp() < before


def test_a_time_without_offset_is_refused():
    with pytest.raises(UsageError, match="has no offset"):
        utc_day(datetime(2026, 1, 1))


def test_a_day_before_the_calendar_is_refused():
    with pytest.raises(UsageError, match="name a later day"):
        Run.night(date(1, 1, 20), lengths=DEFAULT)


@pytest.mark.parametrize("name", ["evaluation_days", "evidence_days", "min_evidence_days"])
def test_lengths_of_no_day_are_refused(name):
    with pytest.raises(UsageError, match=name):
        WindowLengths(**{name: 0})
