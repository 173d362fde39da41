"""Races under READ COMMITTED: two connections, one of which stands still just before its commit.

SQLite has one writer at a time, so these exist on PostgreSQL only. What stands still has done all but its commit; the
other one then passes it by, or waits for it: both are said here, and what comes of it in the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event as hooks

from functory.engine.database import schema
from functory.engine.database.clock import ManualClock
from functory.engine.errors import Conflict, Stale
from functory.engine.executions import detail, dispatch
from functory.engine.executions.claims import Claim
from functory.engine.executions.compensation.operator_commands import Compensations
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.engine.maintenance import compensator, lost_workers
from tests.support.patience import patient
from tests.support.queue_places import place_of
from tests.support.sending import send_due
from tests.support.world import LEASE, World

pytest_plugins = ["tests.support.world"]

WAIT = patient(60.0)


class Doing:
    """Work on a thread of its own; what it returns or raises."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act
        self._result: Any = None
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._result = self._act()
        except BaseException as error:
            self._error = error

    def end(self) -> Any:
        self.thread.join(WAIT)
        assert not self.thread.is_alive(), "it has not ended"
        if self._error is not None:
            raise self._error
        return self._result


class Killed(BaseException):
    """What stood still does not commit."""


class Still:
    """Work of one process that stands still before its commit."""

    def __init__(self, world: World, act: Callable[[], Any]) -> None:
        self._reached, self._go = threading.Event(), threading.Event()
        self._killed = False
        self._engine = world.database.engine
        hooks.listen(self._engine, "commit", self._stand)
        self._doing = Doing(act)
        assert self._reached.wait(WAIT), "it has not come to its commit"

    def _stand(self, connection: Any) -> None:
        if connection.get_execution_options().get("functory_write") and not self._reached.is_set():
            self._reached.set()
            assert self._go.wait(WAIT)
            if self._killed:
                raise Killed

    def commit(self) -> Any:
        """Let it go on; what came of it."""
        self._go.set()
        try:
            return self._doing.end()
        finally:
            hooks.remove(self._engine, "commit", self._stand)

    def die(self) -> None:
        """Let it end without its commit."""
        self._killed = True
        with pytest.raises(Killed):
            self.commit()


@pytest.fixture
def database_url(emptied_postgres: str) -> str:
    """An empty database on PostgreSQL."""
    return emptied_postgres


@pytest.fixture
def pair(make_world: Callable[..., World]) -> tuple[World, World]:
    """Two processes with one clock."""
    clock = ManualClock()
    return make_world(clock=clock), make_world(clock=clock, batch_size=2)


def waiting(world: World) -> bool:
    """Whether somebody waits for a lock that another holds."""
    with world.database.read() as tx:
        found = tx.scalar(
            sa.text(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
        )
    return bool(found)


@contextmanager
def blocked(world: World, act: Callable[[], Any]) -> Iterator[Doing]:
    """``act`` waits for the one that stands still, until that goes on inside the block."""
    doing = Doing(act)
    pause = threading.Event()
    for _ in range(int(WAIT / 0.02)):
        if waiting(world):
            break
        assert doing.thread.is_alive(), f"it did not wait: {doing.end()}"
        pause.wait(0.02)
    else:
        raise AssertionError("it did not wait")
    yield doing


def running(world: World, **limits: Any) -> Claim:
    world.function(limits={"max_attempts": 3} | limits)
    return world.claim(world.start())


def outcomes(world: World) -> list[str | None]:
    return [row["outcome"] for row in world.rows(schema.attempt)]


def finish(world: World, claim: Claim) -> Any:
    return world.worker.finish(claim, AttemptResult("succeeded", result=1))


def reap(world: World) -> dict[str, int]:
    return lost_workers.reap(world.database, cancel_grace=LEASE)


def test_two_routers_take_an_event_once(pair: tuple[World, World]) -> None:
    one, two = pair
    one.function()
    one.trigger("t", "work", {"type": ["tick"]})
    one.route()
    one.events.emit("tick")
    still = Still(one, one.router.route_batch)
    assert two.router.route_batch().events == 0
    assert still.commit().events == 1
    assert two.router.route_batch().events == 0
    assert len(one.rows(schema.firing)) == len(one.rows(schema.execution)) == 1


def test_an_event_of_a_router_that_died_is_the_others(pair: tuple[World, World]) -> None:
    one, two = pair
    one.function()
    one.trigger("t", "work", {"type": ["tick"]})
    one.route()
    one.events.emit("tick")
    still = Still(one, one.router.route_batch)
    assert two.router.route_batch().events == 0
    still.die()
    assert two.router.route_batch().events == 1
    assert len(one.rows(schema.firing)) == len(one.rows(schema.execution)) == 1


def test_two_claims_of_one_execution(pair: tuple[World, World]) -> None:
    one, two = pair
    one.function()
    row = one.start()
    still = Still(one, lambda: one.worker.claim([row["id"]]))
    with blocked(one, lambda: two.worker.claim([row["id"]])) as other:
        assert len(still.commit()) == 1
    assert other.end() == []
    assert one.executions.get(row["id"])["attempt"] == 1


def test_a_cancel_that_meets_a_claim_asks_the_worker(pair: tuple[World, World]) -> None:
    one, two = pair
    one.function()
    row = one.start()
    still = Still(one, lambda: one.worker.claim([row["id"]]))
    with blocked(one, lambda: two.executions.cancel(row["id"])) as other:
        (claim,) = still.commit()
    assert other.end()["state"] == "running"
    assert one.worker.lease_status([(claim.id, claim.fence)]).cancel_requested == {(claim.id, claim.fence)}


def test_a_claim_that_meets_a_cancel_gets_nothing(pair: tuple[World, World]) -> None:
    one, two = pair
    one.function()
    row = one.start()
    still = Still(one, lambda: one.executions.cancel(row["id"]))
    with blocked(one, lambda: two.worker.claim([row["id"]])) as other:
        assert still.commit()["state"] == "cancelled"
    assert other.end() == []
    assert outcomes(one) == []


def test_the_reaper_passes_by_what_is_being_finished(pair: tuple[World, World]) -> None:
    one, two = pair
    claim = running(one)
    one.advance(LEASE + 1)
    still = Still(one, lambda: finish(one, claim))
    assert reap(two)["lost"] == 0
    assert still.commit().state == "succeeded"
    assert reap(two)["lost"] == 0
    assert outcomes(one) == ["succeeded"]


def test_a_finish_that_meets_the_reaper_is_a_zombies(pair: tuple[World, World]) -> None:
    one, two = pair
    claim = running(one)
    one.advance(LEASE + 1)
    still = Still(two, lambda: reap(two))
    with blocked(one, lambda: finish(one, claim)) as other:
        assert still.commit()["lost"] == 1
    with pytest.raises(Stale):
        other.end()
    assert outcomes(one) == ["lost"]
    assert one.types("execution.") == ["execution.started", "execution.attempt_failed"]


def test_the_reaper_passes_by_a_heartbeat(pair: tuple[World, World]) -> None:
    one, two = pair
    claim = running(one)
    one.advance(LEASE + 1)
    still = Still(one, lambda: one.worker.heartbeat([(claim.id, claim.fence)]))
    assert reap(two)["lost"] == 0
    assert still.commit().lost == set()
    assert reap(two)["lost"] == 0
    assert finish(one, claim).state == "succeeded"


def test_a_heartbeat_that_meets_the_reaper_learns_of_the_loss(pair: tuple[World, World]) -> None:
    one, two = pair
    claim = running(one)
    one.advance(LEASE + 1)
    still = Still(two, lambda: reap(two))
    with blocked(one, lambda: one.worker.heartbeat([(claim.id, claim.fence)])) as other:
        assert still.commit()["lost"] == 1
    assert other.end().lost == {(claim.id, claim.fence)}


def test_two_reapers_end_it_once(pair: tuple[World, World]) -> None:
    one, two = pair
    running(one)
    one.advance(LEASE + 1)
    still = Still(one, lambda: reap(one))
    assert reap(two)["lost"] == 0
    assert still.commit()["lost"] == 1
    assert one.types("execution.attempt_failed") == ["execution.attempt_failed"]


def test_a_release_and_the_reaper(pair: tuple[World, World]) -> None:
    one, two = pair
    claim = running(one)
    one.advance(LEASE + 1)
    still = Still(one, lambda: one.worker.release([(claim.id, claim.fence)]))
    assert reap(two)["lost"] == 0
    assert still.commit() == 1
    assert outcomes(one) == ["released"]

    (claim,) = one.worker.claim([claim.id])
    one.advance(LEASE + 1)
    still = Still(two, lambda: reap(two))
    with blocked(one, lambda: one.worker.release([(claim.id, claim.fence)])) as other:
        assert still.commit()["lost"] == 1
    assert other.end() == 0
    assert outcomes(one) == ["released", "lost"]


def sent(world: World, into: list[str]) -> int:
    return send_due(world.database, into.extend, redispatch=60, worker_ttl=LEASE, window=DispatchWindow())


def test_a_failed_sending_leaves_an_execution_that_is_being_claimed(pair: tuple[World, World]) -> None:
    one, two = pair
    one.function()
    row = one.start()
    assert sent(one, []) == 1
    still = Still(two, lambda: two.worker.claim([row["id"]]))
    with blocked(two, lambda: dispatch.redispatch_now(one.database, [row["id"]])) as other:
        (claim,) = still.commit()
    assert other.end() == 0
    assert one.executions.get(claim.id)["state"] == "running"
    one.advance(3600)
    assert sent(two, []) == 0


def test_two_dispatchers_send_it_once_and_a_claimed_one_never(pair: tuple[World, World]) -> None:
    one, two = pair
    one.function()
    row = one.start()
    messages: list[str] = []
    still = Still(one, lambda: sent(one, messages))
    assert sent(two, messages) == 0
    assert still.commit() == 1
    assert messages == [row["id"]]

    other = one.start()
    still = Still(one, lambda: one.worker.claim([other["id"]]))
    assert sent(two, messages) == 0
    assert len(still.commit()) == 1
    assert place_of(one.database, other["id"])["dispatch_count"] == 0


def test_the_budget_of_one_root_is_exact_with_two_routers(make_world: Callable[..., World]) -> None:
    clock = ManualClock()
    one, two = (make_world(clock=clock, batch_size=2, root_budget=3) for _ in range(2))
    cause = running(one).cause
    one.trigger("t", "work", {"type": ["tick"]})
    one.route()
    for number in range(4):
        one.events.emit("tick", {"n": number}, cause=cause)
    still = Still(one, one.router.route_batch)
    with blocked(one, two.router.route_batch) as other:
        assert still.commit().fired == ["t", "t"]
    done = other.end()
    assert (done.fired, done.suppressed) == (["t"], [("t", "budget")])
    (row,) = one.rows(schema.budget)
    assert (row["used"], row["maximum"]) == (3, 3)


def test_a_replay_that_meets_the_end_of_a_saga_does_not_get_in_its_way(pair: tuple[World, World]) -> None:
    one, two = pair
    one.function("undo", "input, result, execution_id, error")
    one.function("undone", "*given", compensate="undo")
    saga = running(one)
    child = one.claim(one.executions.start("undone", {"given": []}, parent=saga.cause))
    assert one.finish(child).state == "succeeded"
    failed = AttemptResult("failed", error={"type": "ValueError", "message": "no"}, retryable=False)
    still = Still(one, lambda: one.worker.finish(saga, failed))
    with pytest.raises(Conflict, match="only a finished one"):
        two.executions.replay(saga.id)
    assert still.commit().state == "failed"
    assert [row["state"] for row in Compensations(one.database).plan(saga.id)] == ["pending"]

    still = Still(one, lambda: compensator.advance(one.database, one.settings))
    again = two.executions.replay(saga.id)
    assert compensator.advance(two.database, two.settings) == 0
    assert still.commit() == 1
    assert compensator.advance(two.database, two.settings) == 0
    (compensation,) = one.rows(schema.execution, schema.execution.c.cause == "compensation")
    assert compensation["parent_id"] == saga.id
    assert one.executions.get(again["id"])["state"] == "queued"
    assert Compensations(one.database).plan(again["id"]) == []


def test_an_execution_that_ends_while_it_is_read_is_read_as_of_one_instant(
    pair: tuple[World, World],
) -> None:
    one, two = pair
    claim = running(one, max_attempts=1)
    ended: list[str] = []

    def end(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if not ended and "FROM execution" in statement:
            ended.append(statement)
            one.worker.finish(claim, AttemptResult("failed", error={"type": "Boom", "message": "no"}))

    hooks.listen(two.database.engine, "after_cursor_execute", end)
    try:
        found = detail.read(two.database, claim.row.id)
    finally:
        hooks.remove(two.database.engine, "after_cursor_execute", end)
    assert ended
    assert (found["state"], found["error"]) == ("running", None)
    found = detail.read(two.database, claim.row.id)
    assert (found["state"], found["error"]["type"]) == ("failed", "Boom")
