"""Pure decisions about the backlog: who goes next, when a message is believed to be lost, when a worker is deaf."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functory.engine.executions import dispatch, ready_queue
from functory.workers.execution.slots import Slots
from functory.workers.processes.consumer_watchdog import StallDetector
from tests.support.patience import patient

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def rows(*texts: str) -> list[dict[str, Any]]:
    """`a`, `b5`: functions with a priority, in the order of their age; ids are the text and its place."""
    return [
        {
            "id": f"{text}#{place}",
            "function": text[0],
            "priority": int(text[1:] or 0),
            "queue_at": NOON + timedelta(seconds=place),
        }
        for place, text in enumerate(texts)
    ]


def order(*texts: str, **in_flight: int) -> list[str]:
    return [id_.split("#")[0] for id_ in ready_queue.interleave(rows(*texts), in_flight)]


@pytest.mark.parametrize(
    ("given", "in_flight", "wanted"),
    [
        ("a a a", {}, "a a a"),
        ("a a a a b", {}, "a b a a a"),
        ("a a a b b c", {}, "a b c a b a"),
        ("a a a b b", {"a": 2}, "b b a a a"),
        ("a a b b", {"a": 1, "b": 1}, "a b a b"),
        ("b a b a", {}, "b a b a"),
        ("a a a9 b9 b", {}, "a9 b9 a b a"),
        # What goes before counts as in flight: of priority 0, b is first.
        ("a a9 a9 b", {}, "a9 a9 b a"),
        ("a-1 b a", {}, "b a a-1"),
    ],
)
def test_priorities_go_first_and_inside_one_the_function_with_the_fewest_in_flight(
    given: str, in_flight: dict[str, int], wanted: str
) -> None:
    assert order(*given.split(), **in_flight) == wanted.split()


def test_inside_a_function_the_oldest_goes_first() -> None:
    assert ready_queue.interleave(reversed(rows("a", "b", "a", "a")), {}) == ["a#0", "b#1", "a#2", "a#3"]


@pytest.mark.parametrize(
    ("places", "in_flight", "wanted"),
    [
        (4, {}, {"a": 2, "b": 1, "c": 1}),
        (2, {}, {"a": 1, "b": 1}),
        (6, {"a": 4}, {"b": 3, "c": 3}),
        (7, {"a": 3, "b": 1}, {"a": 1, "b": 3, "c": 3}),
        (0, {}, {}),
    ],
)
def test_places_are_shared_as_if_each_had_enough(
    places: int, in_flight: dict[str, int], wanted: dict[str, int]
) -> None:
    assert ready_queue.fair_shares(places, {"a": 1, "b": 2, "c": 3}, in_flight) == wanted


@pytest.mark.parametrize(
    ("redispatch", "wait", "wanted"), [(60, 0, 60), (60, 19, 60), (60, 40, 120), (60, 1000, 900)]
)
def test_the_patience_follows_what_others_wait(redispatch: float, wait: float, wanted: float) -> None:
    assert dispatch.redispatch_timeout(redispatch, wait) == wanted


@pytest.mark.parametrize(
    ("waited", "count", "wanted"),
    [
        (60, 1, False),
        (61, 1, True),
        (180, 2, False),
        (181, 2, True),
        (421, 3, True),
        # 60, 120, 240, 480, then 900 each.
        (900, 4, False),
        (1801, 5, True),
        (2700, 6, False),
        (2701, 6, True),
    ],
)
def test_the_patience_doubles_with_each_sending_up_to_a_quarter_of_an_hour(
    waited: float, count: int, wanted: bool
) -> None:
    assert dispatch.is_overdue(waited, count, 60) is wanted


def test_slots_are_never_taken_twice() -> None:
    never = threading.Event()
    slots = Slots(2)
    assert slots.acquire(never)
    assert slots.acquire_free() == 1
    assert (slots.free, slots.free_seconds) == (0, 0.0)
    waiting = threading.Thread(target=slots.acquire, args=(never,))
    waiting.start()
    slots.release()
    waiting.join(patient(5))
    assert not waiting.is_alive()
    assert slots.free == 0
    given_up = threading.Event()
    given_up.set()
    assert not slots.acquire(given_up)


def suspicion(*facts: tuple[float, int]) -> StallDetector:
    found = StallDetector()
    for now, count in facts:
        found.add(now, count)
    return found


def test_a_worker_is_deaf_when_messages_stay_away_for_long_and_more_than_others_can_hold() -> None:
    facts = [(10.0 * n, 1) for n in range(8)]
    assert suspicion(*facts).is_stalled(60, alive=1)
    assert not suspicion(*facts).is_stalled(80, alive=1), "not for long enough"
    assert not suspicion(*facts).is_stalled(60, alive=4), "four workers may hold eight"
    assert not suspicion((0.0, 50), (5.0, 50)).is_stalled(60, alive=1), "a burst is no proof"
    assert not suspicion((0.0, 1), (1000.0, 1)).is_stalled(60, alive=1), "two are no proof"


def test_a_message_or_an_absent_broker_begins_it_anew() -> None:
    found = suspicion(*[(10.0 * n, 1) for n in range(8)])
    found.reset()
    found.add(100.0, 5)
    assert not found.is_stalled(60, alive=1)
