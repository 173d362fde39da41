"""Every state against everything that may be asked of it: what is no arrow of the state machines is refused, and
changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database import migrations, schema
from functory.engine.errors import Conflict, NotFound, Stale
from functory.engine.events import routing_queue
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.claims import Claim
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.engine.maintenance import lost_workers
from functory.engine.maintenance.invariants import verify
from functory.engine.maintenance.reaper import Reaper
from tests.services.installation import Missing, find
from tests.services.postgres import Postgres
from tests.support.sending import send_due
from tests.support.waiting import wait_for
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

LEASE = 30.0


@dataclass
class One:
    """An execution in some state, and the claim of its last attempt; None when it never had one."""

    world: World
    row: dict[str, Any]
    claim: Claim | None

    @property
    def state(self) -> str:
        return self.world.executions.get(self.row["id"])["state"]


def queued(world: World) -> One:
    return One(world, world.start(), None)


def waiting(world: World) -> One:
    """Queued for its second try: an attempt of before may come back."""
    one = running(world)
    assert one.claim is not None
    world.finish(one.claim, "failed")
    return one


def running(world: World) -> One:
    row = world.start()
    return One(world, row, world.claim(row))


def ended(outcome: str) -> Callable[[World], One]:
    def make(world: World) -> One:
        one = running(world)
        assert one.claim is not None
        world.finish(one.claim, outcome, retryable=False)
        return one

    return make


def cancelled(world: World) -> One:
    one = queued(world)
    world.executions.cancel(one.row["id"])
    return one


def expired(world: World) -> One:
    world.function("short", limits={"expires": 5})
    one = One(world, world.start("short"), None)
    world.advance(6)
    lost_workers.reap(world.database, cancel_grace=LEASE)
    return one


STATES: dict[str, tuple[str, Callable[[World], One]]] = {
    "queued": ("queued", queued),
    "queued again": ("queued", waiting),
    "running": ("running", running),
    "succeeded": ("succeeded", ended("succeeded")),
    "failed": ("failed", ended("failed")),
    "timed_out": ("timed_out", ended("timed_out")),
    "dead": ("dead", ended("crashed")),
    "cancelled": ("cancelled", cancelled),
    "expired": ("expired", expired),
}


def claim(one: One) -> Any:
    return [found.id for found in one.world.worker.claim([one.row["id"]])]


def claim_any(one: One) -> Any:
    return [found.id for found in one.world.worker.claim_any(10)]


def finish(one: One) -> Any:
    if one.claim is None:
        return None
    try:
        # Another ending than the one that may be there: the same one again would be a commit that is tried once more.
        return one.world.worker.finish(
            one.claim, AttemptResult("succeeded", result=1, duration_seconds=0.5)
        ).state
    except Stale:
        return None


def release(one: One) -> Any:
    return one.claim and one.world.worker.release([(one.claim.id, one.claim.fence)])


def release_unbegun(one: One) -> Any:
    return one.claim and one.world.worker.release([(one.claim.id, one.claim.fence)], started=False)


def heartbeat(one: One) -> Any:
    if one.claim is None:
        return None
    mine = one.claim.id, one.claim.fence
    return mine not in one.world.worker.heartbeat([mine]).lost


def reap(one: One) -> Any:
    one.world.advance(LEASE + 1)
    return any(lost_workers.reap(one.world.database, cancel_grace=LEASE).values())


def cancel(one: One) -> Any:
    try:
        return one.world.executions.cancel(one.row["id"])["state"]
    except Conflict:
        return None


def replay(one: One) -> Any:
    try:
        return one.world.executions.replay(one.row["id"])["state"]
    except Conflict:
        return None


def send(one: One) -> Any:
    window = DispatchWindow()
    return send_due(one.world.database, lambda ids: None, redispatch=60, worker_ttl=30, window=window)


DEEDS = (claim, claim_any, finish, release, release_unbegun, heartbeat, reap, cancel, replay, send)

# The arrows: from a state by a deed to a state. All else is refused.
ARROWS = {
    ("queued", "claim"): "running",
    ("queued", "claim_any"): "running",
    ("queued", "cancel"): "cancelled",
    ("queued", "send"): "queued",
    ("queued again", "cancel"): "cancelled",
    ("running", "finish"): "succeeded",
    ("running", "release"): "queued",
    ("running", "release_unbegun"): "queued",
    ("running", "heartbeat"): "running",
    ("running", "reap"): "queued",
    ("running", "cancel"): "running",
    **{(name, "replay"): state for name, (state, _) in STATES.items() if state not in ("queued", "running")},
}


def everything(world: World) -> dict[str, Any]:
    """All that a refused deed could have changed."""
    looked = (
        schema.execution,
        schema.attempt,
        schema.event,
        schema.span,
        schema.log,
        schema.slot,
        schema.budget,
    )
    return {table.name: world.rows(table) for table in looked}


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
@pytest.mark.parametrize("state", STATES)
def test_an_execution_goes_along_the_arrows_and_nowhere_else(
    world: World, state: str, deed: Callable[[One], Any]
) -> None:
    # The wait before a second try is longer than all that the deeds let pass.
    world.function("work", limits={"retries": 1, "retry_delay": 600, "max_attempts": 2})
    begins, make = STATES[state]
    one = make(world)
    assert one.state == begins
    before = everything(world)
    done = deed(one)
    arrow = ARROWS.get((state, deed.__name__))
    assert bool(done) is (arrow is not None)
    assert one.state == (arrow or begins)
    if arrow is None:
        assert everything(world) == before
        return
    if deed is replay:
        # The old one stays as it is, and a new one is there.
        old = [row for row in world.rows(schema.execution) if row["id"] == one.row["id"]]
        assert old == [row for row in before["execution"] if row["id"] == one.row["id"]]
        (new,) = [row for row in world.rows(schema.execution) if row["id"] != one.row["id"]]
        assert (new["state"], new["replay_of"], new["cause"]) == ("queued", one.row["id"], "replay")
    broken = [found for found in verify(world.database, world.settings, patience=1e6) if found.count]
    assert broken == []


def routed(world: World) -> str:
    id_ = world.events.emit("tick", {})
    world.route()
    return id_


def pending(world: World) -> str:
    return world.events.emit("tick", {})


def quarantined(world: World) -> str:
    id_ = pending(world)
    for _ in range(routing_queue.MAX_ROUTE_ATTEMPTS):
        with world.database.write() as tx:
            routing_queue.mark_failed(tx, id_, "no")
    return id_


def let_out(world: World, id_: str) -> bool:
    try:
        world.events.release(id_, author="ada")
    except NotFound:
        return False
    return True


def let_all_out(world: World, id_: str) -> bool:
    return bool(world.events.release_all(author="ada"))


def route(world: World, id_: str) -> bool:
    return bool(world.router.route_batch().events)


def fail(world: World, id_: str) -> bool:
    before = world.events.get(id_)
    with world.database.write() as tx:
        routing_queue.mark_failed(tx, id_, "no")
    return world.events.get(id_) != before


@pytest.mark.parametrize("deed", (let_out, let_all_out, route, fail), ids=lambda deed: deed.__name__)
@pytest.mark.parametrize("make", (pending, routed, quarantined), ids=lambda make: make.__name__)
def test_an_event_goes_along_the_arrows_and_nowhere_else(world: World, make: Any, deed: Any) -> None:
    arrows = {
        ("pending", "route"): "routed",
        ("pending", "fail"): "pending",
        ("quarantined", "let_out"): "pending",
        ("quarantined", "let_all_out"): "pending",
    }
    world.function()
    world.trigger("t", "work", {"type": ["tick"]})
    world.route()
    id_ = make(world)
    before = everything(world) | {"firing": world.rows(schema.firing)}
    arrow = arrows.get((make.__name__, deed.__name__))
    assert deed(world, id_) is (arrow is not None)
    assert world.events.get(id_)["state"] == (arrow or make.__name__)
    if arrow is None:
        assert everything(world) | {"firing": world.rows(schema.firing)} == before


def test_a_released_event_is_routed_as_if_nothing_had_been_and_the_audit_names_the_operator(
    world: World,
) -> None:
    world.function()
    world.trigger("t", "work", {"type": ["tick"]})
    world.route()
    ids = [quarantined(world) for _ in range(3)]
    other = world.events.emit("tock", {})
    for _ in range(routing_queue.MAX_ROUTE_ATTEMPTS):
        with world.database.write() as tx:
            routing_queue.mark_failed(tx, other, "no")
    assert [row["id"] for row in world.events.list(state="quarantined")] == [other, *reversed(ids)]
    world.events.release(ids[0], author="ada")
    assert world.events.release_all("tick", author="bob") == 2
    assert world.events.release_all("tick") == 0
    assert [row["id"] for row in world.events.list(state="quarantined")] == [other]
    assert world.route() == [("t", None)] * 3
    noted = world.rows(schema.audit, schema.audit.c.action == "event.release")
    assert {(row["subject"], row["author"]) for row in noted} == {
        (ids[0], "ada"),
        (ids[1], "bob"),
        (ids[2], "bob"),
    }
    assert all(row["data"] == {"type": "tick"} for row in noted)


def test_a_decision_stays_what_it_is_and_an_operator_may_run_a_suppressed_match_once(world: World) -> None:
    world.function()
    world.trigger("on", "work", {"type": ["tick"]})
    world.trigger("off", "work", {"type": ["tick"]})
    world.triggers.pause("off")
    id_ = world.events.emit("tick", {})
    world.route()
    decided = world.rows(schema.firing)
    with pytest.raises(Conflict, match="has fired"):
        world.replay_suppressed("on", id_)
    new = world.replay_suppressed("off", id_, author="ada")
    assert (new["cause"], new["event_id"], new["root_id"], new["depth"]) == ("replay", id_, id_, 1)
    with pytest.raises(Conflict, match="already"):
        world.replay_suppressed("off", id_)
    assert world.rows(schema.firing) == decided
    (noted,) = world.rows(schema.audit, schema.audit.c.action == "firing.replay")
    assert (noted["author"], noted["subject"], noted["data"]["execution_id"]) == ("ada", "off", new["id"])


def test_another_worker_s_claim_is_no_claim(world: World) -> None:
    world.function()
    one = running(world)
    other: Attempts = world.attempts("other")
    assert other.claim([one.row["id"]]) == []
    assert one.claim is not None
    assert other.release([(one.claim.id, one.claim.fence + 1)]) == 0
    assert one.state == "running"


@pytest.mark.postgres
def test_a_reaper_waits_for_a_lease_after_the_database_server_was_started_again(tmp_path: Path) -> None:
    found = find("postgres")
    if isinstance(found, Missing):
        pytest.skip("PostgreSQL is not installed")
    with Postgres(found.programs) as server, server.database() as url:
        world = World(url, tmp_path)
        migrations.upgrade(world.database)
        # The server's own time, and a lease that is longer than the test.
        world.database.clock = world.database._server_clock()
        world.settings = world.settings.model_copy(update={"lease_seconds": 600.0})
        world.function()
        one = world.start()
        world.claim(one)
        with world.database.write() as tx:
            tx.execute(sa.update(schema.execution).values(lease_until=tx.now))
        before = lost_workers.server_uptime(world.database)
        world.close()
        server.restart()
        age = lost_workers.server_uptime(world.database)
        assert before is not None and age is not None and age < 600
        # As a reaper that has been at work all the time, and has not missed a round.
        reaper = Reaper(world.database, world.settings, trust_at_once=True)
        assert reaper.reap() == {}, "heartbeats may have failed while it was away"
        assert world.executions.get(one["id"])["state"] == "running"
        # It is found as soon as leases are trusted. (The first use of the statement is slow.)
        assert lost_workers.find_lost(world.database, cancel_grace=600, unseen=600)[0]

        def reaped() -> bool:
            # A round that takes a quarter of a lease is not trusted, so a slow machine needs a longer one.
            shorter = {"lease_seconds": (lost_workers.server_uptime(world.database) or 0.0) / 2}
            settings = world.settings.model_copy(update=shorter)
            return any(Reaper(world.database, settings, trust_at_once=True).reap().values())

        wait_for(reaped, "the lost execution is found")
        world.close()


def test_a_database_without_a_server_has_no_age(world: World) -> None:
    # Nor has one whose time is not the server's own.
    assert lost_workers.server_uptime(world.database) is None
