"""How fast an endpoint is asked: adaptive concurrency, a pace per minute, and a breaker that pauses on an outage."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable

DECREASE = 0.7  # of the slots are kept after "too many requests"; 0.5 as in TCP halves throughput for one slow reply
DECREASE_EVERY_S = 1.0  # calls refused together count once
FAILURES_TO_OPEN = 10  # in a row: at 20% random failures a chance of 1e-7 per call, in an outage a moment
PAUSES_S = (1.0, 60.0)  # first and longest pause of an open breaker, doubling


class Gate:
    """At most `limit` calls at once: starts at `slots`, cut by a factor when the endpoint is busy, grown by one slot
    per `limit` successes (additive increase, multiplicative decrease)."""

    def __init__(self, *, slots: int, clock: Callable[[], float] = time.monotonic):
        self.slots = slots
        self.limit = float(slots)
        self._clock = clock
        self._in_use = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._decreased_at = float("-inf")

    async def enter(self) -> None:
        """Wait for a free slot and take it."""
        while self._in_use >= int(self.limit):
            place = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            await place
        self._in_use += 1

    def leave(self) -> None:
        """Give the slot back."""
        self._in_use -= 1
        self._wake()

    def succeeded(self) -> None:
        """An answer came: grow slowly."""
        self.limit = min(self.slots, self.limit + 1 / self.limit)

    def was_busy(self) -> None:
        """The endpoint refused for load: shrink, at most once in DECREASE_EVERY_S."""
        now = self._clock()
        if now - self._decreased_at >= DECREASE_EVERY_S:
            self._decreased_at = now
            self.limit = max(1.0, self.limit * DECREASE)

    def _wake(self) -> None:
        free = int(self.limit) - self._in_use
        while free > 0 and self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                free -= 1


class Pace:
    """At most `per_minute` units on average, with bursts of up to a second's worth (0: no limit)."""

    def __init__(self, *, per_minute: float, clock: Callable[[], float] = time.monotonic):
        self._per_s = per_minute / 60
        self._clock = clock
        self._paid_until = 0.0

    def delay(self, units: float) -> float:
        """Book `units` and return the seconds to wait before using them."""
        if self._per_s <= 0:
            return 0.0
        now = self._clock()
        self._paid_until = max(self._paid_until, now - 1.0) + units / self._per_s
        return max(0.0, self._paid_until - now)


class Breaker:
    """Closed in good times. After FAILURES_TO_OPEN failures in a row every call waits, and one trial at a time asks
    whether the outage is over; pauses double up to a minute."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._failures = 0
        self._pause = PAUSES_S[0]
        self._until = 0.0
        self._trial = False
        self.opened_at: float | None = None

    @property
    def open(self) -> bool:
        """True while calls wait for an outage to end."""
        return self.opened_at is not None

    @property
    def outage_s(self) -> float:
        """Seconds since the breaker opened; 0 while it is closed."""
        return 0.0 if self.opened_at is None else self._clock() - self.opened_at

    async def ready(self, *, until: float) -> None:
        """Return when a call may be sent: at once while closed, as the one trial while open; or at `until`."""
        while self.open and self._clock() < until:
            wait = self._until - self._clock()
            if wait <= 0 and not self._trial:
                self._trial = True
                return
            await asyncio.sleep(min(max(wait, 0.05), 1.0) * random.uniform(1.0, 1.2))

    def succeeded(self) -> None:
        """Any answer of the endpoint, even a refusal for load, ends the outage."""
        self._failures, self._pause, self._trial, self.opened_at = 0, PAUSES_S[0], False, None

    def failed(self) -> None:
        """A call found the endpoint down."""
        self._failures += 1
        if self.open and self._trial:
            self._trial = False
            self._pause = min(self._pause * 2, PAUSES_S[1])
            self._until = self._clock() + self._pause
        elif not self.open and self._failures >= FAILURES_TO_OPEN:
            self.opened_at = self._clock()
            self._until = self.opened_at + self._pause
