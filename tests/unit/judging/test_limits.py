"""Concurrency, pace and breaker, on a clock that the test moves."""

import asyncio

import pytest

from jobs.judging.limits import DECREASE, FAILURES_TO_OPEN, Breaker, Gate, Pace


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_the_gate_starts_open_shrinks_once_a_second_and_grows_slowly():
    clock = Clock()
    gate = Gate(slots=64, clock=clock)
    assert gate.limit == 64
    gate.was_busy()
    gate.was_busy()  # refused together: one sign, not two
    assert gate.limit == pytest.approx(64 * DECREASE)
    clock.now += 1.5
    gate.was_busy()
    assert gate.limit == pytest.approx(64 * DECREASE**2)
    before = gate.limit
    for _ in range(round(before)):
        gate.succeeded()
    assert before + 0.9 < gate.limit < before + 1.1  # one slot more a round of successes
    for _ in range(100_000):
        gate.succeeded()
    assert gate.limit == 64


def test_the_gate_never_closes():
    clock = Clock()
    gate = Gate(slots=4, clock=clock)
    for _ in range(100):
        clock.now += 2
        gate.was_busy()
    assert gate.limit == 1


def test_no_more_than_the_limit_are_inside():
    async def run():
        gate, inside, most = Gate(slots=3), 0, 0

        async def one():
            nonlocal inside, most
            await gate.enter()
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1
            gate.leave()

        await asyncio.gather(*(one() for _ in range(50)))
        return most

    assert asyncio.run(run()) == 3


@pytest.mark.parametrize(("per_minute", "calls", "seconds"), [(60, 10, 9.0), (600, 31, 2.1), (0, 100, 0.0)])
def test_the_pace_holds_on_average(per_minute, calls, seconds):
    """After a burst of one second's worth, calls are spaced evenly."""
    pace = Pace(per_minute=per_minute, clock=Clock())
    delays = [pace.delay(1) for _ in range(calls)]
    assert delays[-1] == pytest.approx(seconds, abs=0.01)
    assert delays == sorted(delays)


def test_the_breaker_opens_after_failures_in_a_row_only():
    breaker = Breaker(clock=Clock())
    for _ in range(FAILURES_TO_OPEN - 1):
        breaker.failed()
    breaker.succeeded()
    for _ in range(FAILURES_TO_OPEN - 1):
        breaker.failed()
    assert not breaker.open
    breaker.failed()
    assert breaker.open


def test_one_trial_at_a_time_and_pauses_double():
    clock = Clock()
    breaker = Breaker(clock=clock)
    for _ in range(FAILURES_TO_OPEN):
        breaker.failed()
    clock.now += 1.01
    asyncio.run(breaker.ready(until=clock.now + 60))  # the trial
    breaker.failed()
    assert breaker.open
    assert breaker.outage_s == pytest.approx(1.01)
    clock.now += 1.5  # shorter than the doubled pause: nobody is let through before `until`
    asyncio.run(asyncio.wait_for(breaker.ready(until=clock.now), timeout=1))
    clock.now += 0.6
    asyncio.run(breaker.ready(until=clock.now + 60))
    breaker.succeeded()
    assert not breaker.open
    assert breaker.outage_s == 0
