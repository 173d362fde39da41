"""Overlap policies as Temporal names them, singletons, cancel-on, and the order of events with two routers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from functory.client.functory import Functory
from functory.engine.database import schema
from functory.engine.errors import Invalid, Stale, Unavailable
from tests.support.flow import TICK, claim, emit, number, numbers, settle, states, trigger, turn, waves
from tests.support.patience import patient
from tests.support.queue_places import with_places
from tests.support.waiting import wait_for
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def firings(world: World) -> list[str | None]:
    """The reasons of all firings, in the order of their events."""
    return [row["reason"] for row in sorted(world.rows(schema.firing), key=lambda row: row["event_id"])]


# The six policies


def test_skip_starts_nothing_while_one_is_open(world: World) -> None:
    world.function()
    trigger(world, overlap="skip")
    emit(world, 1, 2)
    settle(world)
    (running,) = claim(world)
    emit(world, 3)
    settle(world)
    assert firings(world) == [None, "overlap", "overlap"]
    assert world.rows(schema.firing)[-1]["detail"] == f"execution {running.id} is open"
    world.finish(running)
    emit(world, 4)
    settle(world)
    assert waves(world) == [[4]]


def test_buffer_one_starts_one_right_after_the_end_and_at_most_one_waits(world: World) -> None:
    world.function()
    trigger(world, overlap="buffer_one")
    emit(world, 1)
    settle(world)
    (running,) = claim(world)
    emit(world, 2, 3)
    settle(world)
    assert firings(world) == [None, None, "overlap"]
    assert claim(world) == []
    world.finish(running)
    turn(world)
    assert waves(world) == [[2]]


def test_buffer_all_runs_them_one_after_the_other(world: World) -> None:
    world.function()
    trigger(world, overlap="buffer_all")
    emit(world, *range(5))
    settle(world)
    assert waves(world) == [[0], [1], [2], [3], [4]]


def test_at_most_a_thousand_wait_in_a_buffer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functory.engine.flow_control.overlap.MAX_BUFFERED", 3)
    world.function()
    trigger(world, overlap="buffer_all")
    emit(world, *range(6))
    settle(world)
    assert firings(world) == [None] * 4 + ["overlap"] * 2, "one that is about to start, and three"
    assert waves(world) == [[0], [1], [2], [3]]


def test_cancel_other_starts_after_what_it_cancelled_has_ended(world: World) -> None:
    world.function()
    trigger(world, overlap="cancel_other")
    emit(world, 1)
    settle(world)
    (running,) = claim(world)
    emit(world, 2)
    settle(world)
    assert claim(world) == [] and states(world) == {1: "running", 2: "queued"}
    assert world.worker.lease_status([(running.id, running.fence)]).cancel_requested == {
        (running.id, running.fence)
    }
    emit(world, 3)
    settle(world)
    assert states(world) == {1: "running", 2: "cancelled", 3: "queued"}, "what waits is cancelled at once"
    world.finish(running, "cancelled")
    turn(world)
    assert waves(world) == [[3]]
    assert firings(world) == [None, None, None]


def test_terminate_other_starts_at_once(world: World) -> None:
    world.function()
    trigger(world, overlap="terminate_other")
    emit(world, 1)
    settle(world)
    (running,) = claim(world)
    emit(world, 2)
    settle(world)
    assert numbers(claim(world)) == [2]
    assert world.worker.lease_status([(running.id, running.fence)]).cancel_requested == {
        (running.id, running.fence)
    }


def test_allow_all_lets_any_number_run(world: World) -> None:
    world.function()
    trigger(world, overlap="allow_all")
    emit(world, 1, 2, 3)
    settle(world)
    assert waves(world) == [[1, 2, 3]]
    assert not any(row["has_concurrency"] for row in world.rows(schema.execution))


def test_a_key_overlaps_with_itself_only(world: World) -> None:
    world.function()
    trigger(world, overlap={"policy": "skip", "key": "data.k"})
    emit(world, 1, 2, k="a")
    emit(world, 3, k="b")
    settle(world)
    assert firings(world) == [None, "overlap", None]


def test_the_event_of_a_schedule_brings_its_policy(world: World) -> None:
    world.function()
    trigger(world, overlap="schedule")
    emit(world, 1, 2, overlap="allow_all")
    emit(world, 3, overlap="skip")
    emit(world, 4)
    settle(world)
    assert firings(world) == [None, None, "overlap", None], (
        "one that anything may run beside is open all the same"
    )
    assert waves(world) == [[1, 2, 4]]


@pytest.mark.parametrize("outcome", ["failed", "timed_out"])
def test_what_waits_for_its_next_try_is_open(world: World, outcome: str) -> None:
    world.function("work", limits={"retries": 1, "retry_delay": 10})
    trigger(world, overlap="buffer_all")
    emit(world, 1, 2)
    settle(world)
    (first,) = claim(world)
    world.finish(first, outcome)
    turn(world)
    assert claim(world) == []
    world.advance(60)
    turn(world)
    assert waves(world) == [[1], [2]]


def test_a_removed_policy_holds_no_execution_back(world: World) -> None:
    world.function()
    trigger(world, overlap="buffer_all")
    emit(world, 1, 2, 3)
    settle(world)
    trigger(world, expires="1h")
    turn(world)
    assert waves(world) == [[1, 2, 3]]


def test_what_was_dropped_costs_its_root_no_budget(world: World) -> None:
    world.function()
    trigger(world, overlap="skip")
    (first, second) = emit(world, 1, 2)
    settle(world)
    assert {row["root_id"]: row["used"] for row in world.rows(schema.budget)} == {first: 1, second: 0}


# Singletons


def test_a_singleton_skips_or_cancels(world: World) -> None:
    world.function()
    trigger(world, name="skip", singleton={"mode": "skip", "key": "data.k"})
    emit(world, 1, 2, k="a")
    settle(world)
    assert firings(world) == [None, "singleton"]
    trigger(world, name="skip", singleton={"mode": "cancel", "key": "data.k"})
    emit(world, 3, 4, k="a")
    settle(world)
    assert states(world) == {1: "cancelled", 3: "cancelled", 4: "queued"}
    assert waves(world) == [[4]]
    finished = [row["type"] for row in world.events.list(limit=1000) if row["type"] == "execution.cancelled"]
    assert len(finished) == 2, "each has its one last event"


# Cancel-on


def cancelling(world: World, **more: Any) -> None:
    rule = {"on": {"type": ["stop"]}, "when": "data.id == started.data.id", **more}
    trigger(world, cancel_on=[rule])


def test_an_event_cancels_what_was_started_before_it_and_nothing_else(world: World) -> None:
    world.function()
    cancelling(world)
    emit(world, 1, id="a")
    emit(world, 2, id="b")
    emit(world, 3, type_="stop", id="a")
    emit(world, 4, id="a")
    settle(world)
    assert states(world) == {1: "cancelled", 2: "queued", 4: "queued"}
    assert world.rows(schema.cancellation) == []
    row = world.rows(schema.execution, schema.execution.c.state == "cancelled")[0]
    assert row["error"]["message"].startswith("cancelled by trigger t, by event ")


def test_what_runs_is_asked_to_stop(world: World) -> None:
    world.function()
    cancelling(world)
    emit(world, 1, id="a")
    settle(world)
    (running,) = claim(world)
    emit(world, 2, type_="stop", id="a")
    settle(world)
    assert world.worker.lease_status([(running.id, running.fence)]).cancel_requested == {
        (running.id, running.fence)
    }


def test_it_cancels_only_within_its_timeout(world: World) -> None:
    world.function()
    cancelling(world, timeout="1h")
    emit(world, 1, id="a")
    settle(world)
    world.advance(3000)
    emit(world, 2, id="a")
    settle(world)
    world.advance(601)
    emit(world, 3, type_="stop", id="a")
    settle(world)
    assert states(world) == {1: "queued", 2: "cancelled"}


def test_a_condition_that_fails_cancels_nothing(world: World) -> None:
    world.function()
    trigger(world, cancel_on=[{"on": {"type": ["stop"]}, "when": "data.missing == started.data.id"}])
    emit(world, 1, id="a")
    emit(world, 2, type_="stop", id="a")
    settle(world)
    assert states(world) == {1: "queued"}
    assert world.rows(schema.cancellation) == []


def test_an_event_may_start_one_and_cancel_those_before(world: World) -> None:
    world.function()
    trigger(world, cancel_on=[{"on": TICK}])
    emit(world, 1, 2, 3)
    settle(world)
    assert states(world) == {1: "cancelled", 2: "cancelled", 3: "queued"}


def test_a_match_that_waits_in_a_debounce_is_cancelled(world: World) -> None:
    world.function()
    trigger(
        world,
        debounce={"period": "10s", "key": "data.id"},
        cancel_on=[{"on": {"type": ["stop"]}, "when": "data.id == started.data.id"}],
    )
    emit(world, 1, id="a")
    emit(world, 2, id="b")
    emit(world, 3, type_="stop", id="a")
    settle(world)
    world.advance(20)
    turn(world)
    assert states(world) == {2: "queued"}
    assert firings(world) == ["cancelled", None]
    assert world.rows(schema.buffered_match) == world.rows(schema.match_buffer) == []


def test_a_deleted_trigger_cancels_nothing_more(world: World) -> None:
    world.function()
    cancelling(world)
    emit(world, 1, id="a")
    world.route()
    emit(world, 2, type_="stop", id="a")
    world.route()
    world.triggers.delete("t")
    turn(world)
    assert states(world) == {1: "queued"}
    assert world.rows(schema.cancellation) == []


# Two routers


@pytest.mark.parametrize("flow", [{"concurrency": {"limit": 1}}, {"overlap": "buffer_all"}])
def test_executions_of_a_key_start_in_the_order_of_their_events_with_two_routers(
    world: World, flow: dict[str, Any]
) -> None:
    world.function()
    trigger(world, **flow)
    settle(world)
    first, second, third = emit(world, 1, 2, 3)
    world.router.route_one(third)
    turn(world)
    assert claim(world) == [], "an event before it is not routed yet"
    world.router.route_one(second)
    turn(world)
    assert claim(world) == []
    world.router.route_one(first)
    turn(world)
    assert waves(world) == [[1], [2], [3]]


def test_an_event_that_cannot_be_routed_does_not_hold_up_the_line_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.function()
    trigger(world, concurrency={"limit": 1})
    world.events.emit("broken", {"n": 1})
    emit(world, 2)
    decide = world.router.decide

    def fail(row: Any, now: Any) -> Any:
        if row.type == "broken":
            raise Invalid("broken")
        return decide(row, now)

    monkeypatch.setattr(world.router, "decide", fail)
    settle(world)
    assert waves(world) == [[2]]


def test_a_cancellation_waits_for_the_events_before_it(world: World) -> None:
    world.function()
    cancelling(world)
    settle(world)
    (first,) = emit(world, 1, id="a")
    (stop,) = emit(world, 2, type_="stop", id="a")
    world.router.route_one(stop)
    turn(world)
    assert len(world.rows(schema.cancellation)) == 1
    world.router.route_one(first)
    turn(world)
    assert states(world) == {1: "cancelled"}


@pytest.mark.parametrize("mode", ["cancel_other", "terminate_other"])
def test_the_newest_stays_whatever_is_routed_first(world: World, mode: str) -> None:
    world.function()
    trigger(world, overlap=mode)
    first, second = emit(world, 1, 2)
    world.router.route_one(second)
    world.router.route_one(first)
    turn(world)
    assert states(world) == {2: "queued"} and firings(world) == ["overlap", None]


@pytest.mark.parametrize(
    "flow",
    [
        {"concurrency": {"limit": 2}},
        {"throttle": {"limit": 2, "period": "1m"}},
        {"rate_limit": {"limit": 2, "period": "1m"}},
        {"idempotency": {"key": "'same'"}},
        {"overlap": "skip"},
        {"singleton": {"mode": "cancel"}},
        {"overlap": "buffer_all"},
    ],
)
def test_limits_are_exact_with_routers_and_turns_side_by_side(
    make_world: Callable[..., World], flow: dict[str, Any]
) -> None:
    worlds = [make_world(batch_size=3) for _ in range(2)]
    world = worlds[0]
    world.function()
    trigger(world, **flow)
    emit(world, *range(24))

    def play(one: World) -> None:
        while one.router.route_batch().events:
            one.turn.run_once()

    threads = [threading.Thread(target=play, args=(one,)) for one in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patient(60))
    settle(world)
    assert len(firings(world)) == 24, "each match has its one firing"
    queued = world.rows(schema.execution, schema.execution.c.state == "queued")
    open_ = with_places(world.database, queued)
    ready = [row for row in open_ if not row["waiting_for_slot"] and row["run_at"] <= world.clock.now()]
    expected = {
        "concurrency": (24, 2),
        "throttle": (24, 1),
        "rate_limit": (1, 1),
        "idempotency": (1, 1),
        "singleton": (1, 1),
        "overlap": (1, 1) if flow.get("overlap") == "skip" else (24, 1),
    }[next(iter(flow))]
    assert (len(open_), len(ready)) == expected
    if "singleton" in flow:
        assert number(open_[0]) == 23
    if "throttle" in flow:
        at = sorted(row["run_at"] for row in open_)
        assert [round((moment - at[0]).total_seconds()) for moment in at] == [30 * n for n in range(24)]


def test_real_roles_run_a_line_in_the_order_of_its_events(engine: Functory) -> None:
    engine.functions.save("def work(event):\n    return event['data']['n']\n")
    engine.register_trigger("line", on=TICK, function="work", flow={"concurrency": {"limit": 1}})
    for n in range(8):
        engine.emit("tick", {"n": n})
    wait_for(lambda: len(engine.executions.list(state="succeeded")) == 8, "all eight", seconds=60)
    done = engine.executions.list(state="succeeded", payloads=True)
    rows = sorted(done, key=lambda row: row["started_at"])
    assert [row["result"] for row in rows] == list(range(8))
    assert all(a["finished_at"] <= b["started_at"] for a, b in pairwise(rows))


def test_workers_that_end_and_routers_that_cancel_side_by_side_wait_for_each_other_in_a_line(
    make_world: Callable[..., World],
) -> None:
    worlds = [make_world(batch_size=4) for _ in range(3)]
    world = worlds[0]
    world.function()
    trigger(world, singleton={"mode": "cancel", "key": "data.k"}, concurrency={"limit": 3})
    settle(world)
    stop = threading.Event()

    def play(one: World, work: Callable[[], Any]) -> None:
        while not stop.is_set():
            with contextlib.suppress(Unavailable, Stale):
                work()

    def run(one: World) -> None:
        for found in one.worker.claim_any(5):
            wanted = one.worker.lease_status([(found.id, found.fence)]).cancel_requested
            one.finish(found, "cancelled" if wanted else "succeeded")

    def decide(one: World) -> None:
        one.router.route_batch()
        one.turn.run_once()

    works = [(worlds[1], lambda: decide(worlds[1])), (worlds[2], lambda: decide(worlds[2]))]
    works += [(worlds[0], lambda: run(worlds[0])), (worlds[2], lambda: run(worlds[2]))]
    threads = [threading.Thread(target=play, args=work) for work in works]
    for thread in threads:
        thread.start()
    for n in range(60):
        emit(world, n, k=n % 3)
    deadline = time.monotonic() + patient(60)
    while (open_ := world.lineage.open_work())["pending events"] or open_["queued executions"]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join(patient(60))
    assert set(states(world).values()) <= {"succeeded", "cancelled"}, open_
    assert world.rows(schema.slot) == []
    assert len(firings(world)) == 60
