"""What becomes of times that are due: the catch-up policies and the window, and how late is late."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.triggers.sources.schedules import MISFIRE_GRACE, Calendar, CatchUp, TickDecision, decide_ticks

START = datetime(2026, 1, 1, tzinfo=UTC)
TEN = Calendar(every=timedelta(minutes=10))
YEAR = timedelta(days=365)


def planned(
    seconds: float,
    catch_up: CatchUp,
    window: timedelta = YEAR,
    limit: int = 100,
    calendar: Calendar = TEN,
) -> TickDecision:
    fire_at = calendar.next(START)
    assert fire_at is not None
    now = START + timedelta(seconds=seconds)
    return decide_ticks(calendar, "s", fire_at, now, catch_up=catch_up, window=window, limit=limit)


CASES = [
    # policy, window, seconds of downtime after 00:00 with a time every ten minutes, minutes fired, missed by
    ("all", "365d", 2100, [10, 20, 30], {}),
    ("latest", "365d", 2100, [30], {"policy": 2}),
    ("none", "365d", 2100, [], {"policy": 3}),
    # Up to ten seconds late is on time, whatever the policy says; then nothing older is the latest.
    ("all", "365d", 1810, [10, 20, 30], {}),
    ("latest", "365d", 1810, [30], {"policy": 2}),
    ("none", "365d", 1810, [30], {"policy": 2}),
    ("none", "365d", 1810.001, [], {"policy": 3}),
    ("none", "365d", 609, [10], {}),
    ("latest", "365d", 600, [10], {}),
    # The window comes before the policy.
    ("all", "16m", 2100, [20, 30], {"window": 1}),
    ("all", "10s", 2100, [], {"window": 3}),
    ("all", "10s", 1810, [30], {"window": 2}),
    ("latest", "4m", 2100, [], {"window": 3}),
    ("latest", "5m", 2100, [30], {"policy": 0, "window": 2}),
    ("none", "16m", 2100, [], {"policy": 2, "window": 1}),
    # Nothing is due.
    ("latest", "365d", 599.999, [], {}),
    ("all", "365d", -86400, [], {}),
]


@pytest.mark.parametrize(("policy", "window", "seconds", "fired", "missed"), CASES)
def test_what_is_fired_and_what_is_missed(
    policy: CatchUp, window: str, seconds: float, fired: list[int], missed: dict[str, int]
) -> None:
    from functory.engine.serialization.durations import parse as read

    plan = planned(seconds, policy, timedelta(seconds=read(window, "window")))
    assert [(tick.time - START).total_seconds() / 60 for tick in plan.ticks] == fired
    assert plan.missed == {"window": 0, "policy": 0} | missed
    assert (
        plan.next_time == plan.next_due == START + timedelta(minutes=10 * (max(0, int(seconds // 600)) + 1))
    )
    assert (plan.last is None) == (not fired and not any(missed.values()))


def test_with_seconds_between_the_times_all_that_is_on_time_is_fired() -> None:
    plan = planned(3600, "latest", calendar=Calendar(every=timedelta(seconds=4)), limit=1000)
    assert [tick.late.total_seconds() for tick in plan.ticks] == [8, 4, 0]
    assert plan.missed["policy"] == 897


def test_what_does_not_fit_is_left_to_the_next_round_and_is_not_taken_for_the_latest() -> None:
    plan = planned(3660, "latest", limit=4)
    assert plan.ticks == () and plan.missed["policy"] == 4
    assert plan.next_due == START + timedelta(minutes=50)
    assert [tick.time.minute for tick in planned(3660, "all", limit=4).ticks] == [10, 20, 30, 40]
    exact = planned(3660, "latest", limit=6)
    assert [tick.time for tick in exact.ticks] == [START + timedelta(hours=1)] and exact.missed["policy"] == 5


def test_the_last_time_of_all_ends_the_schedule() -> None:
    calendar = Calendar(at=[START + timedelta(minutes=1), START + timedelta(minutes=2)])
    plan = planned(86400, "latest", calendar=calendar)
    assert [tick.time.minute for tick in plan.ticks] == [2] and plan.missed["policy"] == 1
    assert plan.next_time is None and plan.next_due is None


def test_a_tick_is_due_with_its_jitter_and_its_lateness_counts_from_there() -> None:
    calendar = Calendar(every=timedelta(minutes=10), jitter=timedelta(minutes=5))
    time, due = next(calendar.due_times("s", START))
    before = planned((due - START).total_seconds() - 1, "none", calendar=calendar)
    assert before.ticks == () and (before.next_time, before.next_due) == (time, due)
    (tick,) = planned((due - START).total_seconds() + 9, "none", calendar=calendar).ticks
    assert (tick.time, tick.due, tick.late) == (time, due, timedelta(seconds=9)) and tick.on_time


@given(
    st.integers(1, 4000),
    st.integers(0, 20_000),
    st.sampled_from(["all", "latest", "none"]),
    st.integers(10, 10_000),
    st.integers(1, 30),
    st.integers(0, 3000),
)
def test_in_pieces_or_at_once_the_decision_is_the_same(
    every: int, now: int, policy: CatchUp, window: int, limit: int, jitter: int
) -> None:
    calendar = Calendar(every=timedelta(seconds=every), jitter=timedelta(seconds=jitter))
    end = START + timedelta(seconds=now)
    length = timedelta(seconds=window)

    def run(piece: int) -> tuple[list[datetime], int, datetime | None]:
        fired: list[datetime] = []
        missed = 0
        fire_at = calendar.next(START)
        while fire_at is not None:
            plan = decide_ticks(calendar, "s", fire_at, end, catch_up=policy, window=length, limit=piece)
            fired += [tick.time for tick in plan.ticks]
            missed += sum(plan.missed.values())
            if plan.next_due is None or plan.next_due > end:
                return fired, missed, plan.next_time
            assert plan.next_time != fire_at
            fire_at = plan.next_time
        raise AssertionError("an interval has no end")

    fired, missed, following = run(limit)
    assert (fired, missed, following) == run(100_000)
    due = [
        (time, end - due)
        for time, due in itertools.takewhile(lambda pair: pair[0] <= end, calendar.due_times("s", START))
        if due <= end
    ]
    assert len(fired) + missed == len(due)
    assert {time for time, late in due if late <= MISFIRE_GRACE} <= set(fired) <= {time for time, _ in due}
