"""The pure decisions of flow control: GCRA, overlap policies, a place in a line."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.database.clock import new_id
from functory.engine.flow_control.concurrency import queue_at
from functory.engine.flow_control.controls import MAX_BUFFERED, NO_KEY, OverlapPolicy, RateLimit
from functory.engine.flow_control.overlap import OpenExecution, decide
from functory.engine.flow_control.rate_limits import emission_interval, guard_limit, reserve

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def starts(limit: RateLimit, arrivals: list[float]) -> list[float]:
    """When runs that arrive at these seconds may start."""
    moment, found = None, []
    for arrival in arrivals:
        start, moment = reserve(moment, NOW + timedelta(seconds=arrival), limit)
        found.append((start - NOW).total_seconds())
    return found


@pytest.mark.parametrize(
    ("limit", "arrivals", "expected"),
    [
        (RateLimit(NO_KEY, 3, 60), [0, 0, 0, 0], [0, 20, 40, 60]),
        (RateLimit(NO_KEY, 3, 60, 2), [0, 0, 0, 0], [0, 0, 20, 40]),
        (RateLimit(NO_KEY, 3, 60), [0, 100, 100], [0, 100, 120]),
        (RateLimit(NO_KEY, 1, 5, 3), [0, 0, 0, 0, 1], [0, 0, 0, 5, 10]),
    ],
)
def test_a_throttle_gives_each_the_next_free_moment(
    limit: RateLimit, arrivals: list[float], expected: list[float]
) -> None:
    assert starts(limit, arrivals) == expected


@given(
    st.integers(1, 1000),
    st.floats(1, 100),
    st.integers(1, 20),
    st.lists(st.floats(0, 50), min_size=1, max_size=60),
)
def test_in_no_period_more_start_than_the_limit_and_the_burst_allow(
    limit: int, period: float, burst: int, gaps: list[float]
) -> None:
    rate_limit = RateLimit(NO_KEY, limit, period, burst)
    arrivals, at = [], 0.0
    for gap in gaps:
        at += gap
        arrivals.append(at)
    found = starts(rate_limit, arrivals)
    assert found == sorted(found) and all(a <= b + 1e-6 for a, b in zip(arrivals, found, strict=True))
    for first in found:
        # Starts are whole microseconds; their sums as floats are not exact.
        assert sum(first <= one < first + period - 1e-6 for one in found) <= limit + burst - 1


def test_a_step_is_never_shorter_than_its_share_of_the_period() -> None:
    assert emission_interval(RateLimit(NO_KEY, 3, 1)) == timedelta(microseconds=333_334)


@pytest.mark.parametrize(
    ("limit", "arrivals", "waits"),
    [
        (
            RateLimit(NO_KEY, 2, 10, 2),
            [0, 0, 0, 4, 5, 9, 10, 30, 30, 30],
            [0, 0, 5, 1, 0, 1, 0, 0, 0, 5],
        ),
        (guard_limit(None, 3), [0, 0, 0, 0, 19, 20, 20, 80, 80, 80], [0, 0, 0, 20, 1, 0, 20, 0, 0, 0]),
    ],
)
def test_what_is_refused_counts_for_nothing(
    limit: RateLimit, arrivals: list[float], waits: list[float]
) -> None:
    at, found = None, []
    for arrival in arrivals:
        now = NOW + timedelta(seconds=arrival)
        start, following = reserve(at, now, limit)
        found.append((start - now).total_seconds())
        at = following if start == now else at
    assert found == waits


def test_a_rate_guard_has_one_key_for_each_subject() -> None:
    assert guard_limit(None, 60).key == NO_KEY
    assert guard_limit("a", 60).key.hash not in {"", guard_limit("b", 60).key.hash}
    assert guard_limit("a", 60).key.hash == guard_limit("a", 1).key.hash


def others(runs: str, *, first: int = 1) -> list[OpenExecution]:
    """Open executions of events 1, 2 …: `r` runs, `w` waits."""
    return [OpenExecution(f"e{first + n}", f"{first + n:04}", letter == "r") for n, letter in enumerate(runs)]


@pytest.mark.parametrize(
    ("policy", "open_", "what", "cancel"),
    [
        ("skip", "", "now", 0),
        ("skip", "r", "drop", 0),
        ("skip", "w", "drop", 0),
        ("buffer_one", "", "wait", 0),
        ("buffer_one", "w", "wait", 0),
        ("buffer_one", "r", "wait", 0),
        ("buffer_one", "rw", "drop", 0),
        ("buffer_one", "ww", "drop", 0),
        ("buffer_one", "rr", "wait", 0),
        ("buffer_all", "", "wait", 0),
        ("buffer_all", "rww", "wait", 0),
        ("buffer_all", "r" + "w" * (MAX_BUFFERED - 1), "wait", 0),
        ("buffer_all", "r" + "w" * MAX_BUFFERED, "drop", 0),
        ("buffer_all", "w" * (MAX_BUFFERED + 1), "drop", 0),
        ("cancel_other", "", "wait", 0),
        ("cancel_other", "rw", "wait", 2),
        ("terminate_other", "", "now", 0),
        ("terminate_other", "rw", "now", 2),
        ("allow_all", "rrw", "now", 0),
    ],
)
def test_the_six_policies(policy: OverlapPolicy, open_: str, what: str, cancel: int) -> None:
    answer = decide(policy, "9999", others(open_))
    assert (answer.action, len(answer.cancel_ids)) == (what, cancel)
    assert bool(answer.detail) == (what == "drop")


@pytest.mark.parametrize("policy", ["cancel_other", "terminate_other"])
def test_what_cancels_never_cancels_what_is_newer(policy: OverlapPolicy) -> None:
    answer = decide(policy, "0003", others("r", first=5))
    assert answer.action == "drop" and answer.cancel_ids == () and "newer" in answer.detail


def test_the_line_is_in_the_order_of_events_moved_by_priority() -> None:
    ids = [new_id() for _ in range(100)]
    moments = [queue_at(id_, 0) for id_ in ids]
    assert moments == sorted(moments)
    assert queue_at(ids[0], 600) == moments[0] - timedelta(seconds=600)
    assert queue_at(ids[0], -600) == moments[0] + timedelta(seconds=600)
    assert queue_at("ffffffff-ffff-7fff-8fff-ffffffffffff", 1).year == 9999
