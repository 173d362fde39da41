"""Compares the guards with a plain model on random graphs of triggers, with cycles and fan-out.

Triggers are changed and paused meanwhile. The model keeps the provenance of each event itself. It computes the guard
that each match must meet: pause, own event, revisit, depth, the budget of the root, the breaker or the rate. For the
budget it knows only the number of refused matches. In the end nothing runs any more, and no tree is larger than its
budget.

``GUARD_EXAMPLES=500`` in the environment makes it longer, and random.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from functory.engine.database import schema
from functory.engine.database.clock import ManualClock
from functory.engine.events.store import Events
from functory.engine.executions.claims import Claim
from functory.engine.maintenance import invariants
from functory.triggers.routing.router import Router
from tests.simulation.engine.mutants import Edit, Mutant
from tests.support.world import World

START = datetime(2026, 1, 1, tzinfo=UTC)
EXAMPLES = int(os.environ.get("GUARD_EXAMPLES", "4"))

DEPTH, BUDGET = 6, 12
TYPES = "abc"
SUBJECTS = ("x", "y", None)
# A breaker opens at the fifth trip within 300 s, for 300 s.
TRIPS, WINDOW, COOL_DOWN = 5, 300.0, 300.0

GUARDS = st.fixed_dictionaries(
    {"allow_self": st.booleans(), "max_revisits": st.sampled_from([0, 0, 1, 2])},
    optional={"rate": st.sampled_from([0, 2, 3]), "max_depth": st.sampled_from([1, 3])},
)


@dataclass(frozen=True)
class Where:
    """The provenance of an event: its root, its depth, and the triggers and subjects that led to it."""

    root: str
    depth: int = 0
    chain: tuple[tuple[str, str | None], ...] = ()


@dataclass
class Rule:
    """A trigger as the model knows it."""

    id: str
    on: str
    emits: str
    guards: dict[str, Any]
    paused: bool = False
    next_at: dict[str | None, float] = field(default_factory=dict)
    trips: int = 0
    since: float = 0.0
    open_until: float = -1.0


class Model:
    """One database beside the model of its contents."""

    def __init__(self, world: World) -> None:
        self.world = world
        for table in reversed(schema.metadata.sorted_tables):
            with world.database.write() as tx:
                tx.execute(sa.delete(table))
        world.clock = world.database.clock = ManualClock(START)
        world.settings = world.settings.model_copy(
            update={"max_depth": DEPTH, "root_budget": BUDGET, "batch_size": 1}
        )
        self.routers = [Router(world.database, world.settings) for _ in range(2)]
        self.emitter = Events(world.database)
        self.rules: dict[str, Rule] = {}
        self.events: dict[str, tuple[str, str | None, Where]] = {}  # type, subject and provenance
        self.used: dict[str, int] = {}
        self.fired = 0
        self.refused: dict[str, int] = {}
        self.off = False
        for emits in ("", "a", "b", "c", "ab", "bc", "aab"):
            world.function(f"emits_{emits}")
        self._pass_other_events()

    @property
    def now(self) -> float:
        return (self.world.clock.now() - START).total_seconds()

    def save(self, name: str, on: str, emits: str, guards: dict[str, Any]) -> None:
        row = self.world.trigger(name, f"emits_{emits}", {"type": [on]}, guards={"rate": 0} | guards)
        known = self.rules.get(name)
        changed = Rule(row["id"], on, emits, guards, row["state"] == "paused")
        if known is not None:
            # Rates and breakers are the trigger's, whatever its version.
            changed.next_at, changed.trips = known.next_at, known.trips
            changed.since, changed.open_until = known.since, known.open_until
        self.rules[name] = changed

    def emit(self, type_: str, subject: str | None, claim: Claim | None = None) -> None:
        cause = claim.cause if claim else None
        id_ = self.emitter.emit(type_, subject=subject, cause=cause)
        if claim is None:
            where = Where(id_)
        else:
            link = tuple((one["trigger"], one["subject"]) for one in claim.row.chain)
            where = Where(claim.row.root_id, claim.row.depth, link)
            if claim.row.trigger_id:
                # The execution itself has the provenance that the model computes.
                source = self.events[claim.row.event_id]
                expected = (*source[2].chain, (claim.row.trigger_id, source[1]))
                assert where == Where(source[2].root, source[2].depth + 1, expected)
        self.events[id_] = type_, subject, where

    def _pass_other_events(self) -> None:
        """Route the engine's own events, which match no trigger here."""
        mine = sa.tuple_(schema.event.c.type).in_([(t,) for t in TYPES])
        others = sa.select(schema.event.c.id).where(sa.not_(mine))
        with self.world.database.write() as tx:
            tx.execute(sa.update(schema.event).where(sa.not_(mine)).values(state="routed", routed_at=tx.now))
            queue = schema.routing_queue
            tx.execute(sa.delete(queue).where(queue.c.event_id.in_(others)))

    def route(self, which: int) -> bool:
        """Route one event, and compare the decisions with the model's."""
        self._pass_other_events()
        with self.world.database.read() as tx:
            id_ = tx.scalar(
                sa.select(sa.func.min(schema.event.c.id)).where(schema.event.c.state == "pending")
            )
        done = self.routers[which].route_batch()
        if self.off:
            assert done.events == 0
            return False
        assert done.events == (id_ is not None)
        if id_ is not None:
            self._check(id_)
        return id_ is not None

    def _check(self, id_: str) -> None:
        type_, subject, where = self.events[id_]
        found = {
            row["trigger_id"]: row for row in self.world.rows(schema.firing, schema.firing.c.event_id == id_)
        }
        matching = [one for one in self.rules.values() if one.on == type_]
        assert set(found) == {one.id for one in matching}
        ready: list[Rule] = []
        for one in matching:
            reason = self._pure(one, subject, where)
            if reason is None:
                ready.append(one)
            else:
                self._refused(found[one.id], reason)
        room = max(0, BUDGET - self.used.get(where.root, 0))
        over = [one for one in ready if found[one.id]["reason"] == "budget"]
        assert len(over) == max(0, len(ready) - room), "the budget is exact"
        for one in over:
            self._refused(found[one.id], "budget")
        for one in ready:
            if one in over:
                continue
            reason = self._rate(one, subject)
            if reason is not None:
                self._refused(found[one.id], reason)
                continue
            assert found[one.id]["decision"] == "fired", found[one.id]
            self.fired += 1
            self.used[where.root] = self.used.get(where.root, 0) + 1

    def _refused(self, row: dict[str, Any], reason: str) -> None:
        assert (row["decision"], row["reason"], row["execution_id"]) == ("suppressed", reason, None)
        self.refused[reason] = self.refused.get(reason, 0) + 1

    @staticmethod
    def _pure(one: Rule, subject: str | None, where: Where) -> str | None:
        if one.paused:
            return "trigger_paused"
        if where.chain and where.chain[-1][0] == one.id and not one.guards["allow_self"]:
            return "own_event"
        revisits = one.guards["max_revisits"]
        if revisits and where.chain.count((one.id, subject)) >= revisits:
            return "cycle"
        if where.depth + 1 > min(DEPTH, one.guards.get("max_depth", DEPTH)):
            return "depth"
        return None

    def _rate(self, one: Rule, subject: str | None) -> str | None:
        limit = one.guards.get("rate", 0)
        if not limit:
            return None
        if one.open_until > self.now:
            return "breaker_open"
        step = 60.0 / limit
        moment = max(one.next_at.get(subject, self.now), self.now)
        if moment - self.now <= step * (limit - 1) + 1e-6:
            one.next_at[subject] = moment + step
            return None
        fresh = not one.trips or self.now - one.since > WINDOW
        one.trips, one.since = (1, self.now) if fresh else (one.trips + 1, one.since)
        if one.trips == TRIPS:
            one.open_until = self.now + COOL_DOWN
        return "rate"

    def work(self, limit: int) -> int:
        """Run all due executions: each emits the type in its name, on the subject of its event and on another."""
        claims = self.world.worker.claim_any(limit)
        for claim in claims:
            subject = claim.row.chain[-1]["subject"] if claim.row.chain else None
            for number, type_ in enumerate(claim.row.function.removeprefix("emits_")):
                self.emit(type_, subject if number != 1 else SUBJECTS[0], claim)
            self.world.finish(claim)
        return len(claims)

    def drain(self) -> None:
        """Finish all work, and check that the totals are the sums of the single decisions."""
        if self.off:
            self.switch()
        for _ in range(2000):
            if not self.route(0) and not self.work(100):
                break
        else:
            raise AssertionError("it goes on for ever")
        rows = self.world.rows(schema.execution)
        assert {row["state"] for row in rows} <= {"succeeded"}
        fired = [row for row in rows if row["cause"] == "trigger"]
        assert len(fired) == self.fired
        for row in self.world.rows(schema.budget):
            tree = sum(one["root_id"] == row["root_id"] for one in fired)
            assert tree == row["used"] == self.used.get(row["root_id"], 0) <= BUDGET
        counted: dict[str, int] = {}
        for row in self.world.rows(schema.suppression):
            counted[row["reason"]] = counted.get(row["reason"], 0) + row["count"]
        assert counted == self.refused
        broken = [
            one
            for one in invariants.verify(self.world.database, self.world.settings, patience=0)
            if one.count
        ]
        # The test itself skips the engine's own events.
        assert not broken, broken

    def switch(self) -> None:
        if self.off:
            self.world.database.wakeup.signal(["events"])
            self.switches.release("triggers")
        else:
            self.switches.throw("triggers")
        self.off = not self.off

    @property
    def switches(self) -> Any:
        from functory.engine.firings.kill_switch import Switches

        return Switches(self.world.database)


def machine(world: World) -> type[RuleBasedStateMachine]:
    """The state machine over one database."""

    class Machine(RuleBasedStateMachine):
        @initialize(
            graph=st.lists(
                st.tuples(
                    st.sampled_from(TYPES), st.sampled_from(["", "a", "b", "c", "ab", "bc", "aab"]), GUARDS
                ),
                min_size=1,
                max_size=4,
            )
        )
        def begin(self, graph: list[Any]) -> None:
            self.model = Model(world)
            for number, (on, emits, guards) in enumerate(graph):
                self.model.save(f"t{number}", on, emits, guards)

        @rule(
            type_=st.sampled_from(TYPES), subject=st.sampled_from(SUBJECTS), count=st.sampled_from([1, 1, 4])
        )
        def emit(self, type_: str, subject: str | None, count: int) -> None:
            for _ in range(count):
                self.model.emit(type_, subject)

        @rule(which=st.integers(0, 1), count=st.sampled_from([1, 5, 20]))
        def route(self, which: int, count: int) -> None:
            for _ in range(count):
                self.model.route(which)

        @rule(limit=st.sampled_from([1, 3, 10]))
        def work(self, limit: int) -> None:
            self.model.work(limit)

        @rule(seconds=st.sampled_from([1, 10, 31, 61, 301]))
        def advance(self, seconds: int) -> None:
            self.model.world.advance(seconds)

        @rule(
            number=st.integers(0, 4),
            on=st.sampled_from(TYPES),
            emits=st.sampled_from(["a", "b", "ab"]),
            guards=GUARDS,
        )
        def change(self, number: int, on: str, emits: str, guards: dict[str, Any]) -> None:
            self.model.save(f"t{number}", on, emits, guards)

        @rule(number=st.integers(0, 3))
        def pause_or_resume(self, number: int) -> None:
            one = self.model.rules.get(f"t{number}")
            if one is None:
                return
            if one.paused:
                self.model.world.triggers.resume(f"t{number}")
                # Resuming a trigger closes its breaker.
                one.trips, one.open_until = 0, -1.0
            else:
                self.model.world.triggers.pause(f"t{number}")
            one.paused = not one.paused

        @precondition(
            lambda self: self.model.world.rows(schema.execution, schema.execution.c.state == "succeeded")
        )
        @rule(index=st.integers(0, 5))
        def replay(self, index: int) -> None:
            rows = self.model.world.rows(schema.execution, schema.execution.c.state == "succeeded")
            self.model.world.executions.replay(rows[index % len(rows)]["id"])

        @rule()
        def kill_switch(self) -> None:
            self.model.switch()

        def teardown(self) -> None:
            if hasattr(self, "model"):
                self.model.drain()

    return Machine


# Up to the limit of each guard, and one step beyond it.
EDGES: dict[str, tuple[list[tuple[str, str, dict[str, Any]]], str]] = {
    "own_event": ([("a", "a", {"allow_self": False, "max_revisits": 0})], "a"),
    "cycle": ([("a", "a", {"allow_self": True, "max_revisits": 2})], "a"),
    "depth": ([("a", "a", {"allow_self": True, "max_revisits": 0})], "a"),
    "budget": ([("a", "aab", {"allow_self": True, "max_revisits": 0})], "a"),
    "rate": ([("a", "", {"allow_self": False, "max_revisits": 1, "rate": 2})], "aaa"),
    "breaker_open": ([("a", "", {"allow_self": False, "max_revisits": 1, "rate": 2})], "a" * 8),
    "trigger_paused": ([("a", "", {"allow_self": False, "max_revisits": 1})], "a"),
}


def walk_along(world: World, reason: str) -> None:
    """Run a story that ends at one guard, beside the model."""
    model = Model(world)
    rules, events = EDGES[reason]
    for number, (on, emits, guards) in enumerate(rules):
        model.save(f"t{number}", on, emits, guards)
    if reason == "trigger_paused":
        world.triggers.pause("t0")
        model.rules["t0"].paused = True
    for type_ in events:
        model.emit(type_, "x")
    model.drain()
    assert model.refused.get(reason), model.refused


@pytest.mark.parametrize("reason", EDGES)
def test_each_guard_holds_at_its_edge(memory: World, reason: str) -> None:
    walk_along(memory, reason)


TRIP, ALSO = (
    ("functory.triggers.routing.guards", "check_guards"),
    ["functory.triggers.routing.decision"],
)
OFF_BY_ONE = {
    "own_event": Edit(*TRIP, "and not guards.allow_self", "and guards.allow_self", ALSO),
    "cycle": Edit(*TRIP, "visits >= guards.max_revisits", "visits > guards.max_revisits", ALSO),
    "depth": Edit(*TRIP, "event.depth + 1 > limit", "event.depth > limit", ALSO),
    "budget": Edit(
        "functory.engine.firings.admission",
        "RootBudgets.refusal",
        "spent >= limit",
        "spent > limit",
    ),
    "rate": Edit(
        "functory.engine.flow_control.rate_limits",
        "reserve",
        "limit.burst - 1",
        "limit.burst",
    ),
    "breaker_open": Edit(
        "functory.engine.flow_control.circuit_breaker",
        "count_violation",
        "trips == VIOLATIONS_TO_OPEN",
        "trips == VIOLATIONS_TO_OPEN + 1",
    ),
}


@pytest.mark.parametrize("reason", OFF_BY_ONE)
def test_the_model_sees_a_guard_that_is_off_by_one(memory: World, reason: str) -> None:
    with Mutant(reason, [OFF_BY_ONE[reason]]).applied(), pytest.raises(AssertionError):
        walk_along(memory, reason)


@pytest.mark.timeout(600)
def test_the_guards_do_what_the_plain_model_says(memory: World) -> None:
    run_state_machine_as_test(
        machine(memory),
        settings=settings(
            max_examples=EXAMPLES,
            # The short run uses the same examples everywhere; a long run uses new ones each time.
            derandomize="GUARD_EXAMPLES" not in os.environ,
            phases=(Phase.generate, Phase.shrink),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
