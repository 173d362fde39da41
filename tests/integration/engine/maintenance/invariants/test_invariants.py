"""The invariants have teeth: each is broken by hand, and only it is counted; and nothing ordinary is ever counted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from functory.engine.database import migrations, schema
from functory.engine.database.clock import ManualClock
from functory.engine.database.connection import Database
from functory.engine.errors import Invalid, Refused
from functory.engine.events import routing_queue
from functory.engine.executions import root_budget
from functory.engine.maintenance import compensator, lease_recovery
from functory.engine.maintenance.invariants import CODES, InvariantResult, verify
from functory.engine.maintenance.invariants.verifier import Verifier
from functory.engine.maintenance.state_metrics import StateCollector
from functory.engine.triggers.kill_switch import TRIGGERS, Switches
from functory.schedules import Schedules
from functory.triggers import definition
from functory.triggers.analysis.routing_audit import audit_routing
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

t = schema
NOTHING: dict[str, int] = {}


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A world whose clock begins with the present: ids tell their time, and the queries believe them."""
    return make_world(clock=ManualClock(datetime.now(UTC)), verify_seconds=60)


def broken(world: World, **options: Any) -> dict[str, int]:
    """What is counted, by invariant."""
    return {one.code: one.count for one in verify(world.database, world.settings, **options) if one.count}


def drained(world: World) -> dict[str, int]:
    return broken(world, patience=0)


def settle(world: World) -> None:
    world.route()
    while world.turn.run_once():
        world.route()


def finish_all(world: World) -> None:
    """Route, take turns and succeed until nothing is left."""
    for _ in range(50):
        settle(world)
        if not world.work():
            return
    raise AssertionError("no end")


def ordinary(world: World) -> dict[str, str]:
    """Everything that may happen to an execution and to a match. Returns the ids of some of them, by what happened."""
    world.function("work", limits={"retries": 2, "retry_delay": 1, "max_attempts": 4})
    world.advance(1)
    world.function("work", limits={"retries": 3, "retry_delay": 1, "max_attempts": 4})
    world.function("short", limits={"expires": 5})
    ids: dict[str, str] = {}

    def start(name: str, function: str = "work", **options: Any) -> dict[str, Any]:
        row = world.start(function, **options)
        ids[name] = row["id"]
        return row

    world.finish(world.claim(start("succeeded")))
    retried = start("retried")
    world.finish(world.claim(retried), "failed")
    world.advance(60)
    world.finish(world.claim(retried))
    failed = start("failed")
    world.finish(world.claim(failed), "failed", retryable=False)
    timed = start("timed out")
    world.finish(world.claim(timed), "timed_out", retryable=False)
    dead = start("dead")
    for _ in range(4):
        world.finish(world.claim(dead), "crashed")
        world.advance(600)
    lost = start("lost")
    world.claim(lost)
    world.advance(31)
    lease_recovery.reap(world.database, cancel_grace=30)
    world.finish(world.claim(lost))
    gone = start("lost for good")
    for _ in range(4):
        world.claim(gone)
        world.advance(31)
        lease_recovery.reap(world.database, cancel_grace=30)
    released = start("released")
    claim = world.claim(released)
    world.worker.release([(claim.id, claim.fence)])
    claim = world.claim(released)
    world.worker.release([(claim.id, claim.fence)], started=False)
    world.finish(world.claim(released))
    world.executions.cancel(start("cancelled")["id"])
    running = start("cancelled while it ran")
    claim = world.claim(running)
    world.executions.cancel(running["id"])
    world.finish(claim, "cancelled")
    between = start("cancelled before its retry")
    claim = world.claim(between)
    world.executions.cancel(between["id"])
    world.finish(claim, "failed")
    waiting = start("cancelled while it waited for its retry")
    world.finish(world.claim(waiting), "failed")
    world.executions.cancel(waiting["id"])
    forced = start("cancelled by the reaper")
    world.claim(forced)
    world.executions.cancel(forced["id"])
    world.advance(31)
    lease_recovery.reap(world.database, cancel_grace=5)
    start("expired", "short")
    world.advance(10)
    lease_recovery.reap(world.database, cancel_grace=30)
    ids["replay"] = world.executions.replay(failed["id"])["id"]
    parent = start("parent")
    claim = world.claim(parent)
    child = start("child", parent=claim.cause)
    world.finish(world.claim(child))
    world.events.emit("inside", {}, cause=claim.cause)
    world.finish(claim)
    _matches(world, ids)
    _schedule(world)
    _saga(world)
    finish_all(world)
    return ids


def _matches(world: World, ids: dict[str, str]) -> None:
    world.function("several", "events")
    world.function("emits", output_patterns={"any": {"ok": [True]}})
    world.trigger("plain", "work", {"type": ["plain"]})
    world.trigger(
        "next",
        "emits",
        {"type": ["execution.succeeded"], "subject": ["work"], "data": {"trigger_id": [{"exists": True}]}},
    )
    world.trigger("matched", "work", {"type": ["output.matched"]}, guards={"max_depth": 2})
    world.trigger("batched", "several", {"type": ["many"]}, flow={"batch": {"max_size": 3, "timeout": "10m"}})
    world.trigger("still", "work", {"type": ["restless"]}, flow={"debounce": {"period": "10s"}})
    world.trigger("single", "work", {"type": ["queue"]}, flow={"concurrency": {"limit": 1}})
    world.trigger("newest", "work", {"type": ["over"]}, flow={"overlap": {"policy": "cancel_other"}})
    world.trigger("few", "work", {"type": ["rush"]}, flow={"rate_limit": {"limit": 1, "period": "1h"}})
    world.trigger("ended", "work", {"type": ["plain"]}, flow={"cancel_on": [{"on": {"type": ["stop"]}}]})
    parts = [{"name": name, "on": {"type": [name]}} for name in ("a", "b")]
    world.triggers.save(
        "both", definition.define(function="several", composite={"within": "1h", "all": parts})
    )
    world.triggers.save("seen", definition.define(on={"type": ["plain"]}, function="work"), shadow=True)
    world.triggers.save("held", definition.define(on={"type": ["plain"]}, function="work"))
    world.triggers.pause("held", note="test")
    world.function("gone")
    world.trigger("nowhere", "gone", {"type": ["plain"]})
    world.functions.disable("gone")
    settle(world)
    world.advance(60)
    ids["plain"] = world.events.emit("plain", {}, subject="s")
    settle(world)
    world.events.emit("stop", {})
    settle(world)
    claims = world.worker.claim_any(100)
    for claim in claims:
        world.finish(claim, "cancelled" if claim.row["cancel_requested_at"] else "succeeded", {"ok": True})
    finish_all_with(world, {"ok": True})
    for number in range(4):
        world.events.emit("many", {"n": number})
        world.events.emit("restless", {"n": number})
        world.events.emit("queue", {"n": number})
        world.events.emit("over", {"n": number})
        world.events.emit("rush", {"n": number})
    for name in ("a", "b"):
        world.events.emit(name, {})
    settle(world)
    for claim in world.worker.claim_any(100):
        world.finish(claim, "failed" if claim.row["has_concurrency"] else "succeeded")
    world.advance(3700)
    finish_all(world)
    world.replay_suppressed("held", ids["plain"], author="ada")
    ids["quarantined"] = world.events.emit("strange", {})
    for _ in range(5):
        with world.database.write() as tx:
            routing_queue.mark_failed(tx, ids["quarantined"], "no")


def finish_all_with(world: World, result: Any) -> None:
    for _ in range(50):
        settle(world)
        if not world.work(lambda _: result):
            return
    raise AssertionError("no end")


def _schedule(world: World) -> None:
    def register(name: str, **fields: Any) -> dict[str, Any]:
        return world.triggers.save(name, definition.parse(fields))

    service = Schedules(
        SimpleNamespace(  # type: ignore[arg-type]
            database=world.database,
            sources=world.sources,
            triggers=world.triggers,
            register_trigger=register,
            author="ada",
        )
    )
    service.save("hourly", every="1h")
    world.ticker.run_once()
    # Just after a tick, whatever time of the day it is: what a test lets pass does not reach the next one.
    with world.database.read() as tx:
        due = tx.scalar(sa.select(t.schedule.c.next_at))
    world.advance((due - world.clock.now()).total_seconds() + 1)
    while world.ticker.run_once():
        pass


def _saga(world: World) -> None:
    world.function("undo")
    world.function("step", compensate="undo")
    claim = world.claim(world.start())
    done = world.claim(world.start("step", parent=claim.cause))
    world.finish(done)
    world.finish(claim, "failed", retryable=False)
    for _ in range(10):
        compensator.advance(world.database, world.settings)
        world.work()


def test_nothing_ordinary_is_counted(world: World) -> None:
    ordinary(world)
    reasons = {row["reason"] for row in world.rows(t.firing)}
    assert {None, "shadow", "trigger_paused", "function_unavailable", "rate_limited", "depth"} <= reasons
    assert any(row["joint"] for row in world.rows(t.firing))
    states = {row["state"] for row in world.rows(t.execution)}
    assert states == {"succeeded", "failed", "timed_out", "cancelled", "dead", "expired"}
    assert drained(world) == NOTHING
    assert broken(world) == NOTHING
    assert broken(world, since=world.clock.now() - timedelta(minutes=10)) == NOTHING


def test_what_is_open_is_counted_only_when_nothing_should_be(world: World) -> None:
    world.function()
    world.trigger("plain", "work", {"type": ["plain"]})
    settle(world)
    world.work()
    world.start()
    world.claim(world.start())
    world.events.emit("plain")
    assert broken(world) == NOTHING
    # The start of the one that runs is an event as well.
    assert drained(world) == {"I1": 2, "I5": 2}


def test_every_invariant_is_asked_in_its_order_and_tells_how_long_it_took(world: World) -> None:
    found = verify(world.database, world.settings)
    assert [one.code for one in found] == [f"I{n}" for n in range(1, 16)] == list(CODES)
    assert all(one.seconds > 0 and one.title for one in found)
    (one,) = verify(world.database, world.settings, only=["I7"])
    assert one == InvariantResult("I7", one.title, 0, (), one.seconds)
    with pytest.raises(Invalid, match="no invariant I16"):
        verify(world.database, world.settings, only=["I16"])


def test_a_budget_that_is_lowered_below_what_was_spent_is_spent(world: World) -> None:
    world.function()
    world.trigger("plain", "work", {"type": ["plain"]})
    world.route()
    claim = world.claim(world.start())
    for _ in range(3):
        world.start(parent=claim.cause)
    with world.database.write() as tx:
        root_budget.set_maximum(tx, claim.row["root_id"], 1)
    with pytest.raises(Refused, match="budget"):
        world.start(parent=claim.cause)
    assert broken(world) == NOTHING


def test_examples_are_as_many_as_are_asked_for_and_the_count_is_of_all(world: World) -> None:
    world.function()
    ids = [world.start()["id"] for _ in range(7)]
    (one,) = verify(world.database, world.settings, only=["I5"], patience=0, examples=2)
    assert (one.count, len(one.examples)) == (7, 2)
    assert one.examples[0] == f"execution {min(ids)} of work is still queued"
    (one,) = verify(world.database, world.settings, only=["I5"], patience=0, examples=0)
    assert (one.count, one.examples) == (7, ())


def test_braces_in_names_are_told_as_they_are(world: World) -> None:
    world.function()
    world.events.emit("plain", subject="{id}")
    with world.database.write() as tx:
        tx.execute(sa.update(t.execution).values(function="{name} {x}"))
    world.start()
    with world.database.write() as tx:
        tx.execute(sa.update(t.execution).values(function="{name} {x}"))
    (one,) = verify(world.database, world.settings, only=["I5"], patience=0)
    assert "{name} {x}" in one.examples[0]


Break = Callable[[World, Mapping[str, str]], Any]
BREAKS: list[tuple[str, str, Break]] = []


def breaks(code: str) -> Callable[[Break], Break]:
    """One way in which the invariant ``code``, and no other, comes to be broken."""

    def add(act: Break) -> Break:
        BREAKS.append((code, act.__name__.strip("_").replace("_", " "), act))
        return act

    return add


def change(world: World, table: sa.Table, *where: Any, **values: Any) -> None:
    with world.database.write() as tx:
        count = tx.execute(sa.update(table).where(*where).values(**values)).rowcount
    assert count >= 1, "the test has changed nothing"


def remove(world: World, table: sa.Table, *where: Any) -> None:
    with world.database.write() as tx:
        count = tx.execute(sa.delete(table).where(*where)).rowcount
    assert count >= 1, "the test has deleted nothing"


def first(world: World, table: sa.Table, *where: Any) -> dict[str, Any]:
    return world.rows(table, *where)[0]


def add(world: World, table: sa.Table, **values: Any) -> None:
    with world.database.write() as tx:
        tx.insert(table, [values])


def of(ids: Mapping[str, str], name: str) -> Any:
    return t.execution.c.id == ids[name]


def told(ids: Mapping[str, str], name: str, type_: str) -> list[Any]:
    return [t.event.c.cause_execution_id == ids[name], t.event.c.type == f"execution.{type_}"]


@breaks("I1")
def _an_event_is_left_behind(world, ids):
    world.events.emit("lonely")
    world.advance(600)


@breaks("I2")
def _a_decided_event_is_pending_again(world, ids):
    # Its firings are written in the transaction that routes it; the switch keeps I1 out of it.
    Switches(world.database).throw(TRIGGERS)
    change(world, t.event, t.event.c.id == ids["plain"], state="pending")


@breaks("I2")
def _a_firing_is_of_an_unknown_version(world, ids):
    change(
        world,
        t.firing,
        t.firing.c.event_id == ids["plain"],
        t.firing.c.decision == "suppressed",
        trigger_version=99,
    )


@breaks("I2")
def _a_match_waits_that_was_decided(world, ids):
    row = first(world, t.firing, t.firing.c.event_id == ids["plain"])
    add(
        world, t.buffered_match, trigger_id=row["trigger_id"], event_id=row["event_id"], part=0, parts=1, key="",
        trigger_version=1, event_time=world.clock.now(), bytes=0, round=0, root_id=row["root_id"],
        time=world.clock.now(),
    )  # fmt: skip


@breaks("I2")
def _a_match_waits_for_an_event_that_is_not_routed(world, ids):
    row = first(world, t.firing, t.firing.c.event_id == ids["plain"])
    id_ = ids["quarantined"]
    add(
        world, t.buffered_match, trigger_id=row["trigger_id"], event_id=id_, part=0, parts=1, key="", trigger_version=1,
        event_time=world.clock.now(), bytes=0, round=0, root_id=id_, time=world.clock.now(),
    )  # fmt: skip


@breaks("I3")
def _a_firing_without_execution(world, ids):
    change(
        world, t.firing, t.firing.c.decision == "suppressed", t.firing.c.reason == "shadow", decision="fired"
    )


@breaks("I3")
def _a_suppressed_match_with_an_execution(world, ids):
    change(world, t.firing, t.firing.c.reason == "shadow", execution_id=ids["succeeded"])


@breaks("I3")
def _an_execution_without_firing(world, ids):
    row = first(world, t.firing, t.firing.c.event_id == ids["plain"], t.firing.c.decision == "fired")
    remove(world, t.firing, t.firing.c.event_id == ids["plain"], t.firing.c.trigger_id == row["trigger_id"])


@breaks("I3")
def _a_firing_of_another_trigger_s_execution(world, ids):
    fired = world.rows(t.firing, t.firing.c.event_id == ids["plain"], t.firing.c.decision == "fired")
    a, b = fired[0], fired[1]
    change(
        world,
        t.firing,
        t.firing.c.trigger_id == a["trigger_id"],
        t.firing.c.event_id == ids["plain"],
        execution_id=b["execution_id"],
    )


@breaks("I4")
def _a_version_without_event(world, ids):
    remove(world, t.outbox)
    remove(world, t.event, t.event.c.type == "function.updated", t.event.c.subject == "work")


@breaks("I4")
def _a_trigger_is_paused_in_silence(world, ids):
    world.advance(1)
    change(world, t.trigger, t.trigger.c.name == "plain", state="paused", updated_at=world.clock.now())


@breaks("I4")
def _a_schedule_is_changed_in_silence(world, ids):
    world.advance(1)
    change(world, t.source, t.source.c.name == "hourly", updated_at=world.clock.now())


@breaks("I4")
def _an_attempt_that_nobody_told_of(world, ids):
    remove(world, t.outbox)
    remove(world, t.event, *told(ids, "succeeded", "started"))


@breaks("I4")
def _a_failed_attempt_that_nobody_told_of(world, ids):
    remove(world, t.outbox)
    remove(world, t.event, *told(ids, "retried", "attempt_failed"))


def _open(world: World, claimed: bool = True) -> str:
    row = world.start()
    if claimed:
        world.claim(row)
    settle(world)
    return row["id"]


@breaks("I5")
def _a_lost_lease_that_no_reaper_takes(world, ids):
    _open(world)
    world.advance(600)


@breaks("I5")
def _a_queue_that_nobody_works_on(world, ids):
    _open(world, claimed=False)
    world.advance(600)


@breaks("I5")
def _a_message_that_is_not_sent_again(world, ids):
    id_ = _open(world, claimed=False)
    change(world, t.execution, t.execution.c.id == id_, dispatched_at=world.clock.now())
    world.advance(1200)
    # Others are claimed: it is this one that was forgotten.
    world.finish(world.claim(world.start()))
    settle(world)


@breaks("I5")
def _held_without_a_line(world, ids):
    change(world, t.execution, t.execution.c.id == _open(world, claimed=False), waiting_for_slot=True)


@breaks("I5")
def _past_its_time(world, ids):
    id_ = world.start("short", delay=3600)["id"]
    world.advance(600)
    assert world.executions.get(id_)["state"] == "queued"


@breaks("I5")
def _a_cancel_that_nothing_comes_of(world, ids):
    id_ = _open(world)
    change(world, t.execution, t.execution.c.id == id_, cancel_requested_at=world.clock.now())
    world.advance(600)
    change(world, t.execution, t.execution.c.id == id_, lease_until=world.clock.now() + timedelta(seconds=9))


@breaks("I5")
def _matches_that_are_due(world, ids):
    world.events.emit("restless", {})
    world.route()
    world.advance(600)


@breaks("I6")
def _an_attempt_too_many(world, ids):
    change(world, t.execution, of(ids, "succeeded"), max_attempts=0)


@breaks("I7")
def _a_counter_that_is_wrong(world, ids):
    change(world, t.execution, of(ids, "succeeded"), attempt=2)


@breaks("I7")
def _an_attempt_that_stays_open(world, ids):
    change(world, t.attempt, t.attempt.c.execution_id == ids["failed"], ended_at=None)


@breaks("I7")
def _a_release_that_was_none(world, ids):
    change(world, t.execution, of(ids, "succeeded"), released=1)


@breaks("I7")
def _a_place_of_what_has_ended(world, ids):
    add(
        world, t.slot, group_key="x", execution_id=ids["succeeded"], rule=0, capacity=5, position=ids["succeeded"],
        queue_at=world.clock.now(), taken_at=world.clock.now(),
    )  # fmt: skip


@breaks("I8")
def _a_fence_above_the_execution_s(world, ids):
    change(world, t.attempt, t.attempt.c.execution_id == ids["cancelled while it ran"], fence=7)


@breaks("I8")
def _a_success_that_an_older_attempt_has_written(world, ids):
    change(world, t.execution, of(ids, "succeeded"), fence=9)


@breaks("I9")
def _an_end_without_event(world, ids):
    remove(world, t.outbox)
    remove(world, t.event, *told(ids, "timed out", "timed_out"))


@breaks("I9")
def _an_end_that_is_told_twice(world, ids):
    row = first(world, t.event, *told(ids, "succeeded", "succeeded"))
    id_ = world.database.new_id()
    add(world, t.event, **{**row, "id": id_})


@breaks("I9")
def _another_end_than_the_state(world, ids):
    change(world, t.event, *told(ids, "cancelled", "cancelled"), type="execution.expired")


@breaks("I10")
def _two_attempts_that_succeeded(world, ids):
    # A complete forgery: the failed attempt has won, and its event and its failure are gone.
    remove(world, t.outbox)
    change(
        world,
        t.attempt,
        t.attempt.c.execution_id == ids["retried"],
        t.attempt.c.outcome == "failed",
        outcome="succeeded",
    )
    remove(world, t.event, *told(ids, "retried", "attempt_failed"))


@breaks("I10")
def _a_zombie_s_log(world, ids):
    row = first(world, t.attempt, t.attempt.c.execution_id == ids["lost"], t.attempt.c.outcome == "lost")
    add(
        world, t.log, execution_id=ids["lost"], fence=row["fence"], seq=1, stream="stdout", level="info", text="boo",
        offset_seconds=0.0,
    )  # fmt: skip


@breaks("I10")
def _output_of_a_failure(world, ids):
    row = first(world, t.execution, of(ids, "failed"))
    event = first(world, t.event, t.event.c.type == "output.matched")
    id_ = world.database.new_id()
    lineage = {"root_id": row["root_id"], "depth": row["depth"], "cause_execution_id": row["id"]}
    add(world, t.event, **{**event, "id": id_, **lineage})


@breaks("I10")
def _a_step_is_undone_by_what_failed(world, ids):
    change(world, t.compensation, t.compensation.c.state == "done", execution_id=ids["failed"])


@breaks("I11")
def _an_event_of_another_tree(world, ids):
    change(world, t.event, *told(ids, "succeeded", "succeeded"), root_id=ids["failed"])


@breaks("I11")
def _an_event_whose_cause_is_gone(world, ids):
    row = first(world, t.event, t.event.c.type == "inside")
    change(world, t.event, t.event.c.id == row["id"], cause_execution_id=world.database.new_id())


@breaks("I11")
def _a_root_that_is_none(world, ids):
    change(world, t.execution, of(ids, "expired"), root_id=ids["succeeded"])
    change(world, t.event, *told(ids, "expired", "expired"), root_id=ids["succeeded"])


@breaks("I11")
def _a_child_of_nobody(world, ids):
    change(world, t.execution, of(ids, "child"), parent_id=world.database.new_id())


@breaks("I12")
def _an_event_that_is_too_deep(world, ids):
    change(world, t.event, t.event.c.type == "inside", depth=5)


@breaks("I12")
def _a_child_beside_its_parent(world, ids):
    change(world, t.execution, of(ids, "child"), depth=0)
    change(world, t.event, t.event.c.cause_execution_id == ids["child"], depth=0)


@breaks("I12")
def _a_chain_that_is_too_long(world, ids):
    world.settings = world.settings.model_copy(update={"max_depth": 1})


@breaks("I13")
def _a_budget_that_is_exceeded(world, ids):
    change(world, t.budget, t.budget.c.used > 1, maximum=1)


@breaks("I13")
def _an_execution_that_was_not_charged(world, ids):
    change(world, t.budget, t.budget.c.used > 1, used=t.budget.c.used - 1)


@breaks("I13")
def _a_crowded_concurrency_group(world, ids):
    world.function("slow")
    rows = [world.start("slow") for _ in range(2)]
    for row in rows:
        add(
            world, t.slot, group_key="x", execution_id=row["id"], rule=0, capacity=1, position=row["id"],
            queue_at=world.clock.now(), taken_at=world.clock.now(),
        )  # fmt: skip


@breaks("I14")
def _a_tick_without_event(world, ids):
    change(world, t.schedule_tick, t.schedule_tick.c.origin == "calendar", event_id=world.database.new_id())
    # Its event has no tick now, which is the same fault seen from the other side.
    remove(world, t.outbox)
    change(world, t.event, t.event.c.type == "schedule.due", type="forgotten")


@breaks("I14")
def _a_time_that_came_twice(world, ids):
    row = first(world, t.event, t.event.c.type == "schedule.due")
    id_ = world.database.new_id()
    add(world, t.event, **{**row, "id": id_, "root_id": id_})


@breaks("I14")
def _a_schedule_that_does_not_tick(world, ids):
    world.advance(2 * 3600)
    settle(world)


@breaks("I14")
def _a_schedule_that_was_not_planned(world, ids):
    change(world, t.source, t.source.c.name == "hourly", version=7)


@breaks("I15")
def _a_lease_without_end(world, ids):
    id_ = _open(world)
    change(world, t.execution, t.execution.c.id == id_, lease_until=world.clock.now() + timedelta(seconds=90))


@breaks("I15")
def _a_lease_of_what_has_ended(world, ids):
    change(world, t.execution, of(ids, "failed"), lease_until=world.clock.now())


@breaks("I15")
def _a_source_that_is_held_for_ever(world, ids):
    change(world, t.source, t.source.c.name == "hourly", lease_until=world.clock.now() + timedelta(days=1))


def test_each_invariant_is_broken_somewhere() -> None:
    assert {code for code, _, _ in BREAKS} == set(CODES)


@dataclass(frozen=True)
class Story:
    """An ordinary history that is made once; `again` gives a world of its own over a copy of it."""

    ids: Mapping[str, str]
    now: datetime
    again: Callable[[], AbstractContextManager[str]]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("story")
    if request.param == "sqlite":
        whole, one = folder / "whole.db", folder / "one.db"
        shutil.copy(request.getfixturevalue("migrated_file"), whole)

        @contextmanager
        def again() -> Iterator[str]:
            for suffix in ("-wal", "-shm"):
                Path(f"{one}{suffix}").unlink(missing_ok=True)
            shutil.copy(whole, one)
            yield f"sqlite:///{one}"

        yield _told(f"sqlite:///{whole}", folder, again)
        return
    server = request.getfixturevalue("postgres_server")
    with server.database() as url:
        name = sa.make_url(url).database

        @contextmanager
        def again() -> Iterator[str]:
            with server.start().connect() as connection:
                connection.execute(f'CREATE DATABASE "{name}_copy" TEMPLATE "{name}"')
            yield url + "_copy"
            with server.start().connect() as connection:
                connection.execute(f'DROP DATABASE "{name}_copy" WITH (FORCE)')

        database = Database(url)
        migrations.upgrade(database)
        database.close()
        yield _told(url, folder, again)


def _told(url: str, home: Path, again: Callable[[], AbstractContextManager[str]]) -> Story:
    world = World(url, home, clock=ManualClock(datetime.now(UTC)))
    ids = ordinary(world)
    world.close()
    return Story(ids, world.clock.now(), again)


@pytest.mark.parametrize(
    ("code", "act"),
    [pytest.param(code, act, id=f"{code}-{name}".replace(" ", "-")) for code, name, act in BREAKS],
)
def test_what_is_broken_is_counted_and_nothing_else(
    story: Story, tmp_path: Path, code: str, act: Break
) -> None:
    with story.again() as url:
        world = World(url, tmp_path, clock=ManualClock(story.now))
        try:
            act(world, story.ids)
            found = {one.code: one for one in verify(world.database, world.settings) if one.count}
        finally:
            world.close()
    assert set(found) == {code}, {key: one.examples for key, one in found.items()}
    assert found[code].examples and all("{" not in words for words in found[code].examples)


def test_the_scheduler_looks_when_it_is_due_and_only_one_of_two_does(
    make_world: Callable[..., World],
) -> None:
    world = make_world(clock=ManualClock(datetime.now(UTC)), verify_seconds=60)
    one, two = Verifier(world.database, world.settings), Verifier(world.database, world.settings)
    assert one.verify_if_due() == []  # it has just started
    world.advance(60)
    assert [found.code for found in one.verify_if_due()] == list(CODES)
    assert two.verify_if_due() == []
    world.advance(60)
    assert sorted(found.code for found in two.verify_if_due()) == sorted(CODES)
    assert one.verify_if_due() == []


def test_no_scheduler_looks_when_nobody_wants_it(make_world: Callable[..., World]) -> None:
    world = make_world(verify_seconds=0)
    watch = Verifier(world.database, world.settings)
    world.advance(10_000)
    with world.statements() as sent:
        assert watch.verify_if_due() == []
    assert sent == []


def test_a_look_that_nothing_is_due_for_is_not_even_a_statement(make_world: Callable[..., World]) -> None:
    world = make_world(clock=ManualClock(datetime.now(UTC)), verify_seconds=300)
    watch = Verifier(world.database, world.settings)
    world.advance(60)
    assert watch.verify_if_due()
    with world.statements() as sent:
        watch.verify_if_due()
    assert sent == []
    world.advance(30)
    with world.statements() as sent:
        assert watch.verify_if_due() == []
    assert len(sent) == 2


def gauge(name: str, world: World, **labels: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(StateCollector(world.database))
    return registry.get_sample_value(name, labels)


def test_what_was_found_stays_in_the_metrics_until_everything_is_well_again(
    make_world: Callable[..., World],
) -> None:
    world = make_world(clock=ManualClock(datetime.now(UTC)), verify_seconds=60)
    assert gauge("functory_invariants_checked_timestamp_seconds", world) == 0
    world.function()
    row = world.start()
    world.finish(world.claim(row))
    settle(world)
    watch = Verifier(world.database, world.settings)
    world.advance(60)
    watch.verify_if_due()
    assert gauge("functory_invariant_violations", world, invariant="I6") == 0
    change(world, t.execution, t.execution.c.id == row["id"], max_attempts=0)
    world.advance(60)
    with capture_logs() as logs:
        found = {one.code: one for one in watch.verify_if_due()}
    assert found["I6"].count == 1
    (entry,) = [entry for entry in logs if entry["log_level"] == "error"]
    assert (entry["invariant"], entry["count"]) == ("I6", 1) and row["id"] in entry["examples"][0]
    assert gauge("functory_invariant_violations", world, invariant="I6") == 1
    # Hours later it is not among what was made lately; it is broken all the same.
    world.advance(3 * 3600)
    assert {one.code for one in watch.verify_if_due() if one.count} == set()
    assert gauge("functory_invariant_violations", world, invariant="I6") == 1
    change(world, t.execution, t.execution.c.id == row["id"], max_attempts=1)
    world.advance(86_400)
    watch.verify_if_due()
    assert gauge("functory_invariant_violations", world, invariant="I6") == 0
    assert gauge("functory_invariants_checked_timestamp_seconds", world) == pytest.approx(
        world.clock.now().timestamp(), abs=1
    )


def test_quarantined_events_are_in_the_metrics(world: World) -> None:
    assert gauge("functory_events_quarantined", world) == 0
    id_ = world.events.emit("strange")
    for _ in range(5):
        with world.database.write() as tx:
            routing_queue.mark_failed(tx, id_, "no")
    assert gauge("functory_events_quarantined", world) == 1


def test_deciding_again_finds_a_match_that_has_left_nothing(story: Story, tmp_path: Path) -> None:
    with story.again() as url:
        world = World(url, tmp_path, clock=ManualClock(story.now))
        try:
            since = story.now - timedelta(days=2)
            found = audit_routing(world.database, world.settings, since)
            assert (found.missing, found.examples) == (0, []) and found.matches > 20
            event = first(world, t.event, t.event.c.type == "b")
            remove(world, t.firing, t.firing.c.event_id == event["id"])
            # This trigger was changed after the event: its earlier definition is unknown.
            change(world, t.trigger, t.trigger.c.name == "plain", updated_at=story.now)
            remove(world, t.firing, t.firing.c.event_id == story.ids["plain"], t.firing.c.reason == "shadow")
            found = audit_routing(world.database, world.settings, since)
        finally:
            world.close()
    assert found.missing == 2 and found.skipped > 0
    assert any(f"event {event['id']} (b) matches trigger both" in words for words in found.examples)
