"""An ordinary history of an engine, in which each kind of row occurs, and what the invariants count in it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.events import routing_queue
from functory.engine.maintenance import compensator, lost_workers
from functory.engine.maintenance.invariants import verify
from functory.triggers import definition
from tests.support.model_history import ordinary_calls
from tests.support.schedule_world import service
from tests.support.world import World

t = schema


NOTHING: dict[str, int] = {}


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
    lost_workers.reap(world.database, cancel_grace=30)
    world.finish(world.claim(lost))
    gone = start("lost for good")
    for _ in range(4):
        world.claim(gone)
        world.advance(31)
        lost_workers.reap(world.database, cancel_grace=30)
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
    lost_workers.reap(world.database, cancel_grace=5)
    start("expired", "short")
    world.advance(10)
    lost_workers.reap(world.database, cancel_grace=30)
    ids["replay"] = world.executions.replay(failed["id"])["id"]
    parent = start("parent")
    claim = world.claim(parent)
    child = start("child", parent=claim.cause)
    world.finish(world.claim(child))
    world.events.emit("inside", {}, cause=claim.cause)
    world.finish(claim)
    ids |= {f"call {what}": id_ for what, id_ in ordinary_calls(world).items()}
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
        world.finish(claim, "cancelled" if claim.row.cancel_requested_at else "succeeded", {"ok": True})
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
        world.finish(claim, "failed" if claim.row.has_concurrency else "succeeded")
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
    service(world).save("hourly", every="1h")
    world.ticker.run_once()
    # Just after a tick, whatever time of the day it is: what a test lets pass does not reach the next one.
    with world.database.read() as tx:
        due = tx.scalar(sa.select(t.schedule.c.next_at))
    world.advance((due - world.clock.now()).total_seconds() + 1)
    while world.ticker.run_once():
        pass


def _saga(world: World) -> None:
    world.function("undo")
    world.function("part", compensate="undo")
    claim = world.claim(world.start())
    done = world.claim(world.start("part", parent=claim.cause))
    world.finish(done)
    world.finish(claim, "failed", retryable=False)
    for _ in range(10):
        compensator.advance(world.database, world.settings)
        world.work()
