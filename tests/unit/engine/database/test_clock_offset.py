"""The engine's time does not go back with the server's clock, in any process, and becomes the server's time again."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from functory.engine.database import clock as clocks
from functory.engine.database.clock import REFRESH_SECONDS, ServerClock
from functory.engine.database.clock_offset import (
    CATCH_UP,
    REACHED_SECONDS,
    TOLERANCE,
    Offset,
    StoredOffset,
    corrected,
)

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


class Row(StoredOffset):
    """The stored row, in memory: ``rows`` is shared by the processes."""

    def __init__(self, rows: list[tuple[Offset, datetime]]) -> None:
        self.rows = rows

    def read(self, connection=None):
        self._stored, self._reached = self.rows[0] if self.rows else (Offset(), None)

    def _write(self, reached, offset):
        self.rows[:] = [(offset, reached)]


class Machines:
    """A server and its processes, on one monotonic clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 1000.0
        self.wrong = timedelta(0)
        self.rows: list[tuple[Offset, datetime]] = []
        monkeypatch.setattr(clocks.time, "monotonic", lambda: self.seconds)

    @property
    def server(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds) + self.wrong

    def process(self) -> ServerClock:
        row = Row(self.rows)

        def ask() -> tuple[float, datetime]:
            row.read()
            return self.seconds, self.server

        return ServerClock(ask, offset=row)

    def later(self, seconds: float, *processes: ServerClock) -> None:
        """Let time pass, with processes that look at the clock each second."""
        for _ in range(round(seconds)):
            self.seconds += 1
            for one in processes:
                one.now()


def test_time_goes_on_when_the_clock_is_set_back_and_comes_back_at_half_speed(monkeypatch) -> None:
    machines = Machines(monkeypatch)
    one = machines.process()
    machines.later(30, one)
    before = one.now()
    machines.wrong = -HOUR
    machines.later(20, one)
    assert timedelta(seconds=9) <= one.now() - before <= timedelta(seconds=21)
    assert machines.rows[0][0].ahead >= HOUR - 2 * SECOND
    assert abs(one.wall() - machines.server) < SECOND
    machines.later(HOUR.total_seconds() / CATCH_UP, one)
    assert one.now() == machines.server


def test_a_process_that_starts_after_the_jump_has_the_same_time(monkeypatch) -> None:
    machines = Machines(monkeypatch)
    one = machines.process()
    machines.later(60, one)
    machines.wrong = -HOUR
    assert abs(one.now() - machines.process().now()) <= timedelta(seconds=REACHED_SECONDS + REFRESH_SECONDS)
    machines.later(2 * REFRESH_SECONDS, one)
    assert abs(one.now() - machines.process().now()) <= SECOND


def test_a_deployment_that_was_stopped_during_the_jump_goes_on_where_it_was(monkeypatch) -> None:
    machines = Machines(monkeypatch)
    one = machines.process()
    machines.later(60, one)
    reached = one.now()
    machines.wrong = -HOUR
    machines.later(600)
    assert machines.process().now() >= reached - timedelta(seconds=REACHED_SECONDS + REFRESH_SECONDS)


def test_a_jump_forward_is_followed(monkeypatch) -> None:
    machines = Machines(monkeypatch)
    one = machines.process()
    machines.later(30, one)
    machines.wrong = HOUR
    machines.later(2 * REFRESH_SECONDS, one)
    assert one.now() == machines.server


def test_a_small_step_back_is_followed() -> None:
    assert corrected(NOON, Offset(), NOON + TOLERANCE, None) is None
    assert corrected(NOON, Offset(), NOON + 2 * TOLERANCE, None) == Offset(2 * TOLERANCE, NOON)
    assert corrected(NOON, Offset(), None, None) is None


def test_a_clock_that_is_put_right_again_takes_no_time_forward(monkeypatch) -> None:
    machines = Machines(monkeypatch)
    one, two = machines.process(), machines.process()
    machines.later(30, one, two)
    machines.wrong = -HOUR
    machines.later(60, one, two)
    before = one.now()
    machines.wrong = timedelta(0)
    machines.later(30, one, two)
    # The half minute, and what it had lost of the hour before.
    assert one.now() - before <= timedelta(seconds=61)
    assert one.now() == two.now() == machines.server


@pytest.mark.parametrize("seed", range(20))
def test_no_process_ever_sees_time_go_back(monkeypatch, seed: int) -> None:
    rng = random.Random(seed)
    machines = Machines(monkeypatch)
    processes = [machines.process() for _ in range(3)]
    seen = [one.now() for one in processes]
    for _ in range(300):
        machines.seconds += rng.choice((0.1, 1, 5, 15, 40))
        if rng.random() < 0.05:
            machines.wrong = rng.choice((-2, -1, 0, 0.01, 1)) * HOUR
        number = rng.randrange(3)
        now = processes[number].now()
        assert now >= seen[number] - TOLERANCE, seed
        seen[number] = now
    machines.wrong = timedelta(0)
    machines.later(3 * REFRESH_SECONDS, *processes)
    # What the clock went wrong by in all, at half speed.
    machines.seconds += 20 * HOUR.total_seconds()
    machines.later(3 * REFRESH_SECONDS, *processes)
    assert {one.now() for one in processes} == {machines.server}
