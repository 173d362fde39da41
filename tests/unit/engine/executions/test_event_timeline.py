"""The steps of an event, from rows to milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functory.engine.database.clock import lowest_id
from functory.engine.executions.attempt_row import AttemptRow
from functory.engine.executions.event_timeline import (
    Queued,
    Rows,
    Sent,
    Step,
    TimelineEvent,
    TimelineExecution,
    Unrouted,
    timeline,
)

START = datetime(2026, 5, 4, 10, 0, 0, tzinfo=UTC)
EVENT = EXECUTION = lowest_id(START)


def at(milliseconds: float) -> datetime:
    return START + timedelta(milliseconds=milliseconds)


def event(*, made: float = 0, routed: float | None = 3, **other: Any) -> TimelineEvent:
    fields = {
        "id": lowest_id(at(made)),
        "type": "order.created",
        "time": START,
        "routed_at": None if routed is None else at(routed),
        "route_attempts": 0,
    }
    return TimelineEvent(**fields | other)


def execution(*, created: float = 3, finished: float | None = None, **other: Any) -> TimelineExecution:
    fields = {
        "id": EXECUTION,
        "function": "work",
        "version": 1,
        "state": "queued" if finished is None else "succeeded",
        "event_id": EVENT,
        "has_concurrency": False,
        "throttle": None,
        "run_at": at(created),
        "created_at": at(created),
        "finished_at": None if finished is None else at(finished),
        "trigger": "on-order",
    }
    return TimelineExecution(**fields | other)


def attempt(
    number: int = 1,
    *,
    claimed: float,
    queued: float | None,
    ended: float | None,
    ran: float | None,
    outcome: str = "succeeded",
) -> AttemptRow:
    return AttemptRow(
        execution_id=EXECUTION,
        fence=number,
        outcome=None if ended is None else outcome,
        duration_seconds=None if ran is None else ran / 1000,
        waited_seconds=0.0,
        number=number,
        queued_seconds=None if queued is None else queued / 1000,
        started_at=at(claimed),
        ended_at=None if ended is None else at(ended),
    )


def steps(rows: Rows, now: float = 1000) -> list[Step]:
    found = timeline(rows, at(now))
    return found.executions[0].steps if found.executions else found.steps


def shown(found: list[Step]) -> list[tuple[str, float | None, float | None]]:
    """Name, milliseconds since the event, milliseconds since the step before."""
    return [
        (
            step.name,
            None if step.since_event is None else round(step.since_event * 1000, 3),
            None if step.difference is None else round(step.difference * 1000, 3),
        )
        for step in found
    ]


def test_each_step_has_the_time_since_the_event_and_the_step_before():
    rows = Rows(
        event(),
        executions=[execution(finished=12)],
        attempts=[attempt(claimed=8, queued=3, ended=12, ran=1.5)],
    )
    assert shown(timeline(rows, at(50)).steps) == [
        ("emitted", 0, None),
        ("routed", 3, 3),
        ("published", None, None),
    ]
    assert shown(steps(rows)) == [
        ("created", 3, 0),
        ("sent", 5, 2),
        ("claimed", 8, 3),
        ("ran", None, 1.5),
        ("finished", 12, 2.5),
    ]


def test_the_differences_of_an_execution_add_up_to_its_time_since_the_event():
    rows = Rows(
        event(),
        executions=[execution(finished=12)],
        attempts=[attempt(claimed=8, queued=3, ended=12, ran=1.5)],
    )
    found = timeline(rows, at(50))
    both = [*found.steps, *found.executions[0].steps]
    assert sum(step.difference or 0 for step in both) == pytest.approx(0.012)
    assert both[-1].since_event == pytest.approx(0.012)


def test_clocks_that_differ_make_no_negative_time_and_are_named():
    # The dispatcher's clock is 4 ms behind the router's.
    rows = Rows(
        event(),
        executions=[execution(finished=12)],
        attempts=[attempt(claimed=2, queued=3, ended=12, ran=1.5)],
    )
    found = steps(rows)
    assert shown(found)[:3] == [("created", 3, 0), ("sent", 3, 0), ("claimed", 3, 0)]
    assert [round(step.clock_difference * 1000, 3) for step in found[:3]] == [0, 4, 1]
    assert all((step.difference or 0) >= 0 for step in found)


def test_a_run_that_is_longer_than_its_attempt_leaves_nothing_for_the_rest():
    rows = Rows(
        event(),
        executions=[execution(finished=12)],
        attempts=[attempt(claimed=8, queued=3, ended=12, ran=4.2)],
    )
    assert shown(steps(rows))[-2:] == [("ran", None, 4.2), ("finished", 12, 0)]


def test_the_time_until_an_outside_event_was_written_is_a_step():
    rows = Rows(event(made=250, routed=260))
    assert shown(timeline(rows, at(300)).steps)[:3] == [
        ("emitted", 0, None),
        ("written", 250, 250),
        ("routed", 260, 10),
    ]


def test_an_event_that_names_a_later_time_begins_when_it_was_written():
    found = timeline(Rows(event(time=at(60_000))), at(300)).steps
    assert shown(found)[:2] == [("emitted", 0, None), ("routed", 3, 3)]
    assert "later time" in found[0].waited_for


def test_an_id_of_another_clock_is_not_a_step():
    # Made after the router had it, by its time: that cannot be.
    assert [step.name for step in timeline(Rows(event(made=250, routed=3)), at(300)).steps][:2] == [
        "emitted",
        "routed",
    ]


@pytest.mark.parametrize(
    ("queue", "tries", "words"),
    [
        (Unrouted(quarantined=False, route_after=None), 0, "waits for a router"),
        (Unrouted(quarantined=False, route_after=at(900)), 1, "a try has failed"),
        (Unrouted(quarantined=False, route_after=at(900)), 0, "its source is paused"),
        (Unrouted(quarantined=True, route_after=None), 3, "quarantined"),
    ],
)
def test_an_event_that_is_not_routed_says_why(queue: Unrouted, tries: int, words: str):
    found = timeline(Rows(event(routed=None, route_attempts=tries), queue), at(300)).steps
    assert [step.name for step in found] == ["emitted", "routed"]
    assert words in found[-1].waited_for and found[-1].at is None


@pytest.mark.parametrize(
    ("queued", "words"),
    [
        ({"waiting_for_slot": True}, "slot of its concurrency limit"),
        ({"run_at": at(5000)}, "its due time"),
        ({"run_at": at(5000), "throttle_key": "k"}, "its throttle"),
        ({}, "a dispatcher"),
    ],
)
def test_an_execution_that_was_not_sent_says_what_it_waits_for(queued: dict[str, Any], words: str):
    fields = {"execution_id": EXECUTION, "waiting_for_slot": False, "run_at": at(3), "throttle_key": None}
    row = Queued(**fields | queued)
    found = steps(Rows(event(), executions=[execution()], queued={EXECUTION: row}))
    assert [step.name for step in found] == ["created", "sent"]
    assert words in found[-1].waited_for and found[-1].at is None


def test_an_execution_that_was_sent_waits_for_a_worker():
    sent = Sent(EXECUTION, claimed=False, dispatched_at=at(6))
    found = steps(Rows(event(), executions=[execution()], sent={EXECUTION: sent}))
    assert shown(found) == [("created", 3, 0), ("sent", 6, 3), ("claimed", None, None)]


def test_a_delay_is_a_step_of_its_own():
    rows = Rows(
        event(),
        executions=[execution(finished=2012, run_at=at(2003))],
        attempts=[attempt(claimed=2008, queued=3, ended=2012, ran=1)],
    )
    assert shown(steps(rows))[1:3] == [("due", 2003, 2000), ("sent", 2005, 2)]


def test_each_attempt_has_its_steps():
    first = attempt(1, claimed=8, queued=3, ended=12, ran=1, outcome="failed")
    second = attempt(2, claimed=1015, queued=None, ended=1020, ran=1)
    found = steps(Rows(event(), executions=[execution(finished=1020)], attempts=[first, second]))
    assert [step.name for step in found] == [
        "created",
        *(f"attempt 1: {name}" for name in ("sent", "claimed", "ran", "finished")),
        *(f"attempt 2: {name}" for name in ("claimed", "ran", "finished")),
    ]
    assert "delay of the retry" in found[5].waited_for and "without a message" in found[5].waited_for


def test_an_attempt_that_has_not_ended_says_so():
    running = attempt(claimed=8, queued=3, ended=None, ran=None)
    found = steps(Rows(event(), executions=[execution()], attempts=[running]))
    assert (found[-1].name, found[-1].at, found[-1].waited_for) == ("ran", None, "not ended yet")


def test_an_execution_that_ended_without_a_run_says_how():
    found = steps(Rows(event(), executions=[execution(finished=40, state="expired")]))
    assert shown(found) == [("created", 3, 0), ("finished", 40, 37)]
    assert "expired" in found[-1].waited_for


@pytest.mark.parametrize(("joint", "words"), [(True, "other events"), (False, "flow control")])
def test_an_execution_that_came_later_than_the_decision_says_what_held_it(joint: bool, words: str):
    found = steps(Rows(event(), executions=[execution(created=503, joint=joint)]))
    assert shown(found)[0] == ("created", 503, 500) and words in found[0].waited_for
