"""Direct dispatch: the router sends what it has just started, while nothing else waits and there is room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.errors import Unavailable
from functory.engine.executions import worker_registry
from functory.engine.executions.dispatch_window import MIN_WINDOW, PER_SLOT, DispatchWindow
from functory.engine.settings import load_settings
from functory.roles.services import services
from functory.triggers.routing.router import Router
from functory.workers.sending.sending import MAX_PAUSE_SECONDS, PAUSE_SECONDS, Sending
from tests.support.queue_places import with_places
from tests.support.sending import send_due
from tests.support.state_rules import LEASE
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


class Workers:
    """Takes messages in the place of a broker. ``away``: it cannot be reached."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sent: list[str] = []
        self.away = False
        self.tries = 0
        # Called with the ids before they are taken.
        self.before: Callable[[Sequence[str]], Any] = lambda ids: None

    def send(self, ids: Sequence[str]) -> None:
        self.tries += 1
        self.before(ids)
        if self.away:
            raise Unavailable("the broker cannot be used", "it is away", "wait")
        self.sent += ids

    def close(self) -> None:
        """Nothing is open."""


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def window() -> DispatchWindow:
    return DispatchWindow(0.0)


@pytest.fixture
def workers(world: World, window: DispatchWindow) -> Workers:
    """The workers to which the world's router sends."""
    found = Workers(world)
    world.function()
    world.trigger("t", "work", {"type": ["tick"]})
    direct = Sending(world.database, window, found, monotonic=lambda: world.database.clock.now().timestamp())
    world.router.send_with(direct)
    # The first batch reads the triggers.
    world.route()
    return found


def emit(world: World, count: int = 1) -> None:
    for _ in range(count):
        world.events.emit("tick", {})


def queues(world: World) -> list[str | None]:
    """Where the executions stand, in the order of their creation."""
    return [row["queue"] for row in with_places(world.database, world.rows(schema.execution))]


def started(world: World) -> list[str]:
    return [row["id"] for row in world.rows(schema.execution)]


def run_dispatcher(world: World, window: DispatchWindow, sent: list[str]) -> int:
    return send_due(world.database, sent.extend, redispatch=60, worker_ttl=LEASE, window=window, limit=500)


def wakeups(world: World) -> int:
    return world.database.wakeup.generation("executions")


def test_what_the_router_starts_is_sent_right_after_its_commit(world: World, workers: Workers) -> None:
    stored: list[str] = []
    workers.before = lambda ids: stored.extend(started(world))
    emit(world, 3)
    before = wakeups(world)
    world.router.route_batch()
    assert workers.sent == stored == started(world) and len(stored) == 3
    assert queues(world) == ["in_flight"] * 3
    assert wakeups(world) == before, "no dispatcher has anything to do"


def test_the_dispatcher_does_not_send_it_again(
    world: World, workers: Workers, window: DispatchWindow
) -> None:
    emit(world)
    world.router.route_batch()
    assert run_dispatcher(world, window, workers.sent) == 0
    assert world.worker.claim_any(10, waited=1.0) == [], "it waits for its message"
    assert [claim.id for claim in world.worker.claim(workers.sent)] == started(world)


def test_nothing_overtakes_what_is_due_in_the_backlog(
    world: World, workers: Workers, window: DispatchWindow
) -> None:
    first = world.start()
    before = wakeups(world)
    emit(world)
    world.router.route_batch()
    assert workers.sent == [] and queues(world) == ["backlog"] * 2
    assert wakeups(world) > before
    assert run_dispatcher(world, window, workers.sent) == 2
    assert workers.sent[0] == first["id"]
    emit(world)
    world.router.route_batch()
    assert workers.sent == started(world)


def test_what_is_due_later_is_not_waited_for(world: World, workers: Workers) -> None:
    later = world.start(delay=3600)
    emit(world)
    world.router.route_batch()
    assert workers.sent == [id_ for id_ in started(world) if id_ != later["id"]]


def test_only_what_fits_into_the_dispatch_window_is_sent_directly(
    world: World, workers: Workers, window: DispatchWindow
) -> None:
    emit(world, MIN_WINDOW - 1)
    world.router.route_batch()
    assert len(workers.sent) == MIN_WINDOW - 1
    emit(world, 2)
    before = wakeups(world)
    world.router.route_batch()
    assert queues(world)[-2:] == ["backlog"] * 2 and wakeups(world) > before
    assert len(workers.sent) == MIN_WINDOW - 1


def test_the_window_of_the_dispatcher_counts(world: World, workers: Workers, window: DispatchWindow) -> None:
    worker_registry.record_heartbeat(world.database, "worker", 2, "none")
    run_dispatcher(world, window, workers.sent)
    emit(world, 2 * PER_SLOT + 1)
    world.router.route_batch()
    assert workers.sent == []


@pytest.mark.parametrize(
    ("declared", "flow"),
    [
        ({"limits": {"priority": 5}}, {}),
        ({"limits": {"priority": -5}}, {}),
        ({"limits": {"expires": 3600}}, {}),
        ({}, {"throttle": {"limit": 100, "period": "1m"}}),
        ({}, {"concurrency": {"limit": 100}}),
        ({}, {"priority": {"run": "60"}}),
    ],
    ids=["high priority", "low priority", "expiry", "throttle", "concurrency", "priority of the trigger"],
)
def test_what_has_an_order_or_a_limit_of_its_own_is_left_to_the_dispatcher(
    world: World, workers: Workers, declared: dict[str, Any], flow: dict[str, Any]
) -> None:
    world.function("other", **declared)
    world.trigger("o", "other", {"type": ["tock"]}, flow=flow)
    emit(world)
    world.events.emit("tock", {})
    before = wakeups(world)
    world.router.route_batch()
    assert workers.sent == [] and queues(world) == ["backlog"] * 2
    assert wakeups(world) > before


def test_what_could_not_be_sent_is_left_to_the_dispatcher(
    world: World, workers: Workers, window: DispatchWindow
) -> None:
    workers.away = True
    emit(world)
    before = wakeups(world)
    assert world.router.route_batch().fired == ["t"]
    assert queues(world) == ["backlog"] and wakeups(world) > before
    assert run_dispatcher(world, window, workers.sent) == 1


def test_a_failure_pauses_direct_dispatch_for_longer_and_longer(
    world: World, workers: Workers, window: DispatchWindow
) -> None:
    workers.away = True
    pause, tries = PAUSE_SECONDS, 0
    while pause <= MAX_PAUSE_SECONDS:
        emit(world)
        world.router.route_batch()
        tries += 1
        run_dispatcher(world, window, [])
        world.advance(pause * 0.9)
        emit(world)
        world.router.route_batch()
        assert workers.tries == tries
        run_dispatcher(world, window, [])
        world.advance(pause * 0.2)
        pause *= 2
    workers.away = False
    world.advance(MAX_PAUSE_SECONDS)
    for _ in range(2):
        emit(world)
        world.router.route_batch()
    assert len(workers.sent) == 2


def test_a_failed_transaction_sends_nothing(
    world: World, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise Unavailable("the database cannot be used", "it is away", "wait")

    emit(world)
    with monkeypatch.context() as patch, pytest.raises(Unavailable):
        patch.setattr("functory.engine.events.routing_queue.mark_routed", fail)
        world.router.route_batch()
    assert workers.sent == []
    world.router.route_batch()
    assert workers.sent == started(world) and len(workers.sent) == 1


def test_a_batch_that_fails_is_sent_event_by_event(
    world: World, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = Router.decide

    def refuse(self: Router, row: Any, now: Any) -> Any:
        if row.data.get("bad"):
            raise RuntimeError("a decision that raises")
        return decide(self, row, now)

    monkeypatch.setattr(Router, "decide", refuse)
    emit(world)
    world.events.emit("tick", {"bad": True})
    emit(world)
    world.router.route_batch()
    assert workers.sent == started(world) and len(workers.sent) == 2


def test_after_a_crash_before_the_sending_it_is_sent_as_a_lost_message_is(
    world: World, workers: Workers, window: DispatchWindow
) -> None:
    def die(_: Sequence[str]) -> None:
        raise Killed

    workers.before = die
    emit(world)
    with pytest.raises(Killed):
        world.router.route_batch()
    assert queues(world) == ["in_flight"]
    world.advance(59)
    assert run_dispatcher(world, window, workers.sent) == 0
    world.advance(2)
    assert run_dispatcher(world, window, workers.sent) == 1
    assert [claim.id for claim in world.worker.claim(workers.sent)] == started(world)


def test_after_a_crash_before_the_sending_a_free_worker_claims_it_by_polling(
    world: World, workers: Workers
) -> None:
    def die(_: Sequence[str]) -> None:
        raise Killed

    workers.before = die
    emit(world)
    with pytest.raises(Killed):
        world.router.route_batch()
    assert world.worker.claim_any(10, waited=2.0) == []
    world.advance(3)
    assert [claim.id for claim in world.worker.claim_any(10, waited=2.0)] == started(world)


def test_a_router_without_a_broker_leaves_all_to_polling_workers(world: World) -> None:
    settings = load_settings(home=world.home, broker_url="none://")
    world.function()
    world.trigger("t", "work", {"type": ["tick"]})
    router = next(one for one in services(world.database, settings, "router") if isinstance(one, Router))
    emit(world)
    before = wakeups(world)
    assert router.run_once() is False
    assert queues(world) == ["backlog"] and wakeups(world) > before
    assert world.work() == 1


def test_events_that_start_nothing_ask_for_no_room(world: World, workers: Workers) -> None:
    world.events.emit("other", {})
    with world.statements() as statements:
        world.router.route_batch()
    assert statements and not [one for one in statements if "in_flight" in one or "backlog" in one]
