"""One way or more to break each invariant by hand, so that it and no other is broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.events import outbox
from functory.engine.executions import queue_rows
from functory.engine.firings.kill_switch import TRIGGERS, Switches
from tests.support.ordinary_history import settle
from tests.support.world import World

t = schema


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


def event_of(ids: Mapping[str, str], name: str, type_: str) -> list[Any]:
    return [t.event.c.cause_execution_id == ids[name], t.event.c.type == f"execution.{type_}"]


@breaks("I1")
def _an_event_is_left_behind(world, ids):
    world.events.emit("lonely")
    world.advance(600)


@breaks("I1")
def _a_pending_event_is_in_no_queue(world, ids):
    world.events.emit("lonely")
    remove(world, t.routing_queue, t.routing_queue.c.quarantined.is_(False))


@breaks("I1")
def _a_quarantined_event_is_in_no_queue(world, ids):
    remove(world, t.routing_queue, t.routing_queue.c.event_id == ids["quarantined"])


@breaks("I1")
def _a_quarantined_event_waits_for_a_router(world, ids):
    change(world, t.routing_queue, t.routing_queue.c.event_id == ids["quarantined"], quarantined=False)


@breaks("I1")
def _a_routed_event_is_in_the_queue(world, ids):
    add(world, t.routing_queue, event_id=ids["plain"])


@breaks("I1")
def _the_queue_has_an_event_that_does_not_exist(world, ids):
    add(world, t.routing_queue, event_id=world.database.new_id())


@breaks("I1")
def _the_outbox_has_an_event_that_does_not_exist(world, ids):
    with world.database.write() as tx:
        outbox.put(tx, [ids["plain"], tx.new_id()])


@breaks("I2")
def _a_decided_event_is_pending_again(world, ids):
    # Its firings are written in the transaction that routes it; the switch keeps I1 out of it.
    Switches(world.database).throw(TRIGGERS)
    change(world, t.event, t.event.c.id == ids["plain"], state="pending")
    add(world, t.routing_queue, event_id=ids["plain"])


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
def _an_attempt_without_an_event(world, ids):
    remove(world, t.outbox)
    remove(world, t.event, *event_of(ids, "succeeded", "started"))


@breaks("I4")
def _a_failed_attempt_without_an_event(world, ids):
    remove(world, t.outbox)
    remove(world, t.event, *event_of(ids, "retried", "attempt_failed"))


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
def _a_queue_without_a_worker(world, ids):
    _open(world, claimed=False)
    world.advance(600)


@breaks("I5")
def _a_message_that_is_not_sent_again(world, ids):
    id_ = _open(world, claimed=False)
    with world.database.write() as tx:
        queue_rows.mark_sent(tx, [id_])
    world.advance(1200)
    # Others are claimed: it is this one that was forgotten.
    world.finish(world.claim(world.start()))
    settle(world)


@breaks("I5")
def _held_without_a_line(world, ids):
    change(world, t.backlog, t.backlog.c.execution_id == _open(world, claimed=False), waiting_for_slot=True)


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


@breaks("I17")
def _an_open_execution_that_no_queue_has(world, ids):
    remove(world, t.backlog, t.backlog.c.execution_id == _open(world, claimed=False))


@breaks("I17")
def _a_running_execution_that_is_not_in_flight(world, ids):
    remove(world, t.in_flight, t.in_flight.c.execution_id == _open(world))


@breaks("I17")
def _an_execution_in_both_queues(world, ids):
    id_ = _open(world, claimed=False)
    row = first(world, t.backlog, t.backlog.c.execution_id == id_)
    with world.database.write() as tx:
        queue_rows.mark_sent(tx, [id_])
        tx.insert(t.backlog, [row])


@breaks("I17")
def _a_running_execution_that_looks_unclaimed(world, ids):
    change(world, t.in_flight, t.in_flight.c.execution_id == _open(world), claimed=False)


@breaks("I17")
def _what_has_ended_is_still_queued(world, ids):
    add(world, t.backlog, **queue_rows.backlog_row(world.executions.get(ids["succeeded"])))


@breaks("I17")
def _what_has_ended_is_still_in_flight(world, ids):
    row = world.executions.get(ids["failed"])
    add(world, t.in_flight, **queue_rows.in_flight_row(row, world.clock.now()))


@breaks("I18")
def _an_execution_without_its_version(world, ids):
    change(world, t.execution, of(ids, "succeeded"), version_id=world.database.new_id())


@breaks("I19")
def _a_failure_that_is_not_listed(world, ids):
    remove(world, t.bad_end, t.bad_end.c.execution_id == ids["failed"])


@breaks("I19")
def _a_success_that_is_listed_as_dead(world, ids):
    add(world, t.bad_end, state="dead", execution_id=ids["succeeded"])


@breaks("I19")
def _a_failure_that_is_listed_as_another_one(world, ids):
    change(world, t.bad_end, t.bad_end.c.execution_id == ids["failed"], state="timed_out")


@breaks("I30")
def _a_child_that_no_cancel_reaches(world, ids):
    function = world.executions.get(ids["succeeded"])["function"]
    parent = world.claim(world.start(function))
    world.start(function, parent=parent.cause)
    world.finish(parent, "failed", retryable=False)
    remove(world, t.open_cancel, t.open_cancel.c.execution_id == parent.id)


@breaks("I8")
def _a_fence_above_the_execution_s(world, ids):
    change(world, t.attempt, t.attempt.c.execution_id == ids["cancelled while it ran"], fence=7)


@breaks("I8")
def _a_success_that_an_older_attempt_has_written(world, ids):
    change(world, t.execution, of(ids, "succeeded"), fence=9)


@breaks("I9")
def _an_end_without_event(world, ids):
    remove(world, t.outbox)
    remove(world, t.event, *event_of(ids, "timed out", "timed_out"))


@breaks("I9")
def _an_end_that_is_told_twice(world, ids):
    row = first(world, t.event, *event_of(ids, "succeeded", "succeeded"))
    id_ = world.database.new_id()
    add(world, t.event, **{**row, "id": id_})


@breaks("I9")
def _another_end_than_the_state(world, ids):
    change(world, t.event, *event_of(ids, "cancelled", "cancelled"), type="execution.expired")


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
    remove(world, t.event, *event_of(ids, "retried", "attempt_failed"))


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
    change(world, t.event, *event_of(ids, "succeeded", "succeeded"), root_id=ids["failed"])


@breaks("I11")
def _an_event_whose_cause_is_gone(world, ids):
    row = first(world, t.event, t.event.c.type == "inside")
    change(world, t.event, t.event.c.id == row["id"], cause_execution_id=world.database.new_id())


@breaks("I11")
def _a_root_that_is_none(world, ids):
    change(world, t.execution, of(ids, "expired"), root_id=ids["succeeded"])
    change(world, t.event, *event_of(ids, "expired", "expired"), root_id=ids["succeeded"])


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


@breaks("I16")
def _a_version_is_active_without_an_activation(world, ids):
    remove(world, t.activation, t.activation.c.function == "work")


@breaks("I16")
def _an_activation_of_another_version_is_open(world, ids):
    change(world, t.activation, t.activation.c.function == "work", version=7)


@breaks("I16")
def _a_version_that_is_marked_bad_is_active(world, ids):
    row = first(world, t.function, t.function.c.name == "work")
    add(
        world,
        t.version_mark,
        function_id=row["id"],
        version=row["active"],
        mark="bad",
        reason="",
        by="",
        at=row["updated_at"],
    )
