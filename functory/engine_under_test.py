"""The engine of a test: an embedded one whose clock the test moves (:mod:`functory.pytest_plugin`).

The engine's time stands once the test has set it. Everything that waits for a time then waits for the test: delays,
retries, schedules, debounces. Real time goes on where a process could hang: how long a function may run, how long a
call waits for its result, and the pauses between two looks for work.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from functory.client.functory import Functory
from functory.engine.database.clock import ServerIds, StoppableClock
from functory.engine.database.wakeups import TOPICS
from functory.engine.errors import Invalid, WaitTimeout
from functory.engine.executions import due_work
from functory.engine.settings import Settings
from functory.triggers.sources.schedules.timestamps import LATEST, parse_timestamp

# Seconds of real time that a test waits for what is due at one time.
TIMEOUT_SECONDS = 60.0
# The most times between two at which the clock stops: a schedule of each minute has 1,440 in a day.
MAX_STOPS = 2000


class EngineUnderTest(Functory):
    """An embedded engine with a :attr:`clock`."""

    def __init__(self, settings: Settings, *, author: str = "") -> None:
        super().__init__(settings, author=author)
        made = StoppableClock()
        self.database.clock, self.database.new_id = made, (ids := ServerIds(made))
        self.clock = TestClock(self, made, ids)

    def settle(self, timeout: float = TIMEOUT_SECONDS, *, root_id: str | None = None) -> None:
        """Wait until nothing is pending, queued or running, anywhere or below one root. While the clock stands: until
        nothing is due now, anywhere. Raises :class:`WaitTimeout` after ``timeout`` seconds of real time.
        """
        if self.clock.stands:
            self.settle_due(timeout)
        else:
            super().settle(timeout, root_id=root_id)

    def settle_due(self, timeout: float) -> None:
        """Wait until all work that is due now is done, and each service has looked for more. Raises
        :class:`WaitTimeout` after ``timeout`` seconds.
        """
        self.start()
        deadline = time.monotonic() + timeout
        wakeup = self.database.wakeup
        while True:
            seen = wakeup.generation(*TOPICS)
            due = self._due()
            busy: list[str] = []
            if not due:
                busy = self._embedded.rest(deadline)
                # The only signals were those of `rest`: nothing has changed meanwhile.
                if not busy and wakeup.generation(*TOPICS) == seen + len(TOPICS) and not self._due():
                    return
            if time.monotonic() > deadline:
                what = [f"{number} {name}" for name, number in due.items()] + [f"the {name}" for name in busy]
                raise WaitTimeout(
                    f"there is still work at {self.clock.now().isoformat()}",
                    ", ".join(what) or "one piece of work leads to another",
                    "print(functory.executions.list()), or a longer timeout=",
                )
            if due:
                wakeup.wait(TOPICS, seen, 0.05)

    def _due(self) -> dict[str, int]:
        with self.database.read() as tx:
            return due_work.count(tx)


class TestClock:
    """The clock of an :class:`EngineUnderTest`. It runs as this machine's until it is set or advanced; then it stands,
    and each change returns when all work that has become due is done.
    """

    # pytest takes classes of this name for tests.
    __test__ = False

    def __init__(self, engine: EngineUnderTest, clock: StoppableClock, ids: ServerIds) -> None:
        self._engine = engine
        self._clock = clock
        self._ids = ids

    def __repr__(self) -> str:
        return f"<clock {'stands at' if self.stands else 'runs, it is'} {self.now().isoformat()}>"

    @property
    def stands(self) -> bool:
        """True once it was set or advanced."""
        return self._clock.stands

    def now(self) -> datetime:
        """Return the engine's time in UTC."""
        return self._clock.now()

    def set(self, to: datetime | str, *, timeout: float = TIMEOUT_SECONDS) -> None:
        """Set the clock: the engine finds that the time has jumped, as after a downtime.

        ``to`` has a time zone; a text is ISO 8601, in UTC when it has no offset. An earlier time than now can only be
        set before the test has written anything. Raises :class:`Invalid`, and :class:`WaitTimeout` when the work that
        is due then takes longer than ``timeout`` seconds of real time.
        """
        self._check_and_move(_time(to), timeout, through=False)

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """Let time pass: the clock stops at each time at which something becomes due, until that is done.

        So ticks of schedules, retries and delays happen one after another, each at its own time. Raises
        :class:`Invalid`, and :class:`WaitTimeout` when the work of one time takes longer than ``timeout`` seconds of
        real time; the clock then stands at that time.
        """
        given = {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds}
        try:
            to = self.now() + timedelta(**given)
        except (OverflowError, TypeError, ValueError) as error:
            raise Invalid("the clock cannot be advanced by that", str(error), "advance(minutes=5)") from None
        self._check_and_move(to, timeout, through=True)

    def _check_and_move(self, to: datetime, timeout: float, *, through: bool) -> None:
        if to < self.now() and self._ids.made_any:
            raise Invalid(
                f"the clock cannot go back to {to.isoformat()}",
                f"it is {self.now().isoformat()}, and rows of the test may have that time",
                "set the earlier time at the begin of the test",
            )
        if to >= LATEST:
            raise Invalid(f"{to.isoformat()} is out of range", f"times before {LATEST.year} are taken")
        if not self._ids.made_any:
            # Nothing waits for a time.
            self._clock.set(to)
            return
        if through:
            self._pass_until(to, timeout)
        self._clock.set(to)
        self._engine.settle_due(timeout)

    def _pass_until(self, to: datetime, timeout: float) -> None:
        if not self.stands:
            self._clock.set(self.now())
        self._engine.settle_due(timeout)
        stops = 0
        while (stop := self._next_time()) is not None and stop < to:
            if stops == MAX_STOPS:
                raise WaitTimeout(
                    f"the clock stands at {self.now().isoformat()}, and not yet at {to.isoformat()}",
                    f"something was due at {MAX_STOPS:,} times on the way",
                    "advance again, or set() the clock: then the schedules' catch-up decides about the time between",
                )
            self._clock.set(stop)
            self._engine.settle_due(timeout)
            stops += 1

    def _next_time(self) -> datetime | None:
        with self._engine.database.read() as tx:
            return due_work.next_time(tx)


def _time(given: datetime | str) -> datetime:
    if isinstance(given, str):
        try:
            return parse_timestamp(given, UTC)
        except ValueError as error:
            raise Invalid("wrong time of the clock", str(error)) from None
    if not isinstance(given, datetime) or given.tzinfo is None:
        raise Invalid(
            f"wrong time of the clock {given!r}",
            "it must be a datetime with a time zone, or a text",
            'functory.clock.set("2026-03-29T00:59:00+01:00")',
        )
    return given.astimezone(UTC)
