"""The id of an event is its place in its subject's order: it grows in a process, along causes, and with the time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.database.clock import FOLLOW_SECONDS, ServerClock, ServerIds

# How wrong the clock of a process may be, in microseconds.
ERROR = 50_000
START = 1_900_000_000_000_000
processes = st.integers(0, 2)


class Time:
    """The server's time, in microseconds."""

    now = START


class WrongClock(ServerClock):
    """The server's clock as a process sees it that has measured it with an error of some microseconds."""

    def __init__(self, time: Time, error: int) -> None:
        super().__init__(lambda: (0.0, None))  # type: ignore[arg-type,return-value]
        self._time, self._error = time, error

    def cached_microseconds(self) -> int:
        return self._time.now + self._error


@dataclass(frozen=True)
class Stored:
    """An event of one subject: its emitter, when it was stored, its id, and the event that caused it."""

    process: int
    time: int
    id: str
    cause: Stored | None

    def follows(self, other: Stored) -> bool:
        """Return True when `other` is a cause of it, however far back."""
        return self.cause is not None and (self.cause is other or self.cause.follows(other))


@given(
    errors=st.lists(st.integers(-ERROR, ERROR), min_size=3, max_size=3),
    emits=st.lists(st.tuples(processes, st.integers(0, 2 * ERROR), st.booleans()), max_size=30),
)
def test_sorted_by_id_the_events_of_a_subject_have_the_order_in_which_they_were_stored(
    errors: list[int], emits: list[tuple[int, int, bool]]
) -> None:
    time = Time()
    ids = [ServerIds(WrongClock(time, error)) for error in errors]
    stored: list[Stored] = []
    for process, pause, caused in emits:
        time.now += pause
        cause = stored[-1] if caused and stored else None
        if cause is not None:
            ids[process].follow(cause.id)
        stored.append(Stored(process, time.now, ids[process](), cause))
    for first, second in combinations(stored, 2):
        if (
            first.process == second.process
            or second.follows(first)
            or second.time - first.time > 2 * ERROR + 1000
        ):
            assert first.id < second.id


def test_ids_do_not_follow_another_clock() -> None:
    time = Time()
    here, elsewhere = ServerIds(WrongClock(time, 0)), ServerIds(WrongClock(time, 3_600_000_000))
    here.follow(elsewhere())
    time.now += round(FOLLOW_SECONDS * 1_000_000)
    assert here() < ServerIds(WrongClock(time, 1000))()


@pytest.mark.parametrize("ahead", [1, 1000, 999_000])
def test_an_id_is_above_the_one_that_it_follows(ahead: int) -> None:
    time = Time()
    here, other = ServerIds(WrongClock(time, 0)), ServerIds(WrongClock(time, ahead))
    # In the canonical form, as all rows have it.
    cause = other()
    here.follow(cause)
    first, second = here(), here()
    assert cause < first < second
