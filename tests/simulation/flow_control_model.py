"""Simulates flow control beside a plain model: two routers, two releases, any order, and faults of workers.

Workers fail or vanish, transactions are killed before their commit, and the clock is virtual. The model keeps the
list of all events. From the whole list it computes, slowly, the right decision about each event. Two routers may
route events in any order; the model follows the order of their commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event as hooks

from functory.engine.database import schema
from functory.engine.database.clock import ManualClock
from functory.engine.executions.claims import Claim
from functory.engine.maintenance import lost_workers
from functory.triggers.routing.release import Release
from functory.triggers.routing.router import Router
from tests.support.flow import TICK
from tests.support.queue_places import with_places
from tests.support.world import LEASE, World

START = datetime(2026, 1, 1, tzinfo=UTC)

LOOKED_AT = (
    "id",
    "trigger_id",
    "event_id",
    "state",
    "attempt",
    "run_at",
    "started_at",
    "created_at",
    "cancel_requested_at",
)

# Each entry is the flow control of one trigger, or of two triggers that start the same function.
FLOWS: dict[str, list[dict[str, Any]]] = {
    "throttle": [{"throttle": {"limit": 2, "period": "20s", "key": "data.k"}}],
    "throttle with a burst": [{"throttle": {"limit": 1, "period": "10s", "burst": 3}}],
    "rate limit": [{"rate_limit": {"limit": 2, "period": "20s", "key": "data.k"}}],
    "rate limit with a burst": [{"rate_limit": {"limit": 1, "period": "10s", "burst": 2}}],
    "idempotency": [{"idempotency": {"key": "data.k", "window": "30s"}}],
    "one at a time": [{"concurrency": {"limit": 1, "key": "data.k"}}],
    "two at a time": [{"concurrency": {"limit": 2}}],
    "two limits": [{"concurrency": [{"limit": 1, "key": "data.k"}, {"limit": 2, "key": "'all'", "scope": "global"}]}],
    "two narrow limits": [
        {"concurrency": [{"limit": 1, "key": "data.k"}, {"limit": 1, "key": "string(data.p)"}]}
    ],
    "a function's limit": [{"concurrency": {"limit": 2, "scope": "function"}}] * 2,
    "a shared limit": [
        {"concurrency": {"limit": 1, "scope": "global", "key": "data.k"}},
        {"concurrency": {"limit": 3, "scope": "global", "key": "data.k"}},
    ],
    "priority": [{"concurrency": {"limit": 1}, "priority": {"run": "data.p"}}],
    "throttle and one at a time": [
        {"throttle": {"limit": 2, "period": "20s", "key": "data.k"}, "concurrency": {"limit": 1}}
    ],
    "skip": [{"overlap": {"policy": "skip", "key": "data.k"}}],
    "buffer one": [{"overlap": {"policy": "buffer_one", "key": "data.k"}}],
    "buffer all": [{"overlap": {"policy": "buffer_all", "key": "data.k"}}],
    "cancel other": [{"overlap": {"policy": "cancel_other", "key": "data.k"}}],
    "terminate other": [{"overlap": {"policy": "terminate_other", "key": "data.k"}}],
    "singleton": [{"singleton": {"mode": "cancel", "key": "data.k"}}],
    "singleton, one at a time": [
        {"singleton": {"mode": "skip", "key": "data.k"}, "concurrency": {"limit": 1}}
    ],
}  # fmt: skip


class Killed(BaseException):
    """The process is killed before its commit."""


@dataclass
class Event:
    """One event of the model; ``at`` is the second of its write, ``routed`` the second in which its routing was
    committed."""

    id: str
    n: int
    k: str
    p: int
    at: float
    routed: float | None = None


@dataclass
class Model:
    """The model: all events, in the order in which they were routed."""

    events: list[Event] = field(default_factory=list)
    routed: list[Event] = field(default_factory=list)

    def starts(self, rate: dict[str, Any], step: float) -> dict[int, float]:
        """The start time that a throttle gives to each event: the closed form of GCRA over all arrivals of a key."""
        found: dict[int, float] = {}
        for one in self.routed:
            before = [other for other in self.routed if _same(rate, one, other)]
            before = before[: before.index(one) + 1]
            expected = max(_at(o) + (len(before) - 1 - i) * step for i, o in enumerate(before))
            found[one.n] = max(_at(one), expected - (rate.get("burst", 1) - 1) * step)
        return found

    def passed(self, rate: dict[str, Any], step: float) -> set[int]:
        """The events that a rate limit accepts."""
        found: list[Event] = []
        for one in self.routed:
            before = [other for other in found if _same(rate, one, other)]
            expected = max(
                (_at(o) + (len(before) - i) * step for i, o in enumerate(before)), default=_at(one)
            )
            if expected <= _at(one) + (rate.get("burst", 1) - 1) * step:
                found.append(one)
        return {one.n for one in found}

    def first_ones(self, window: float) -> set[int]:
        """The events that idempotency accepts: the first of each key within its window."""
        found: list[Event] = []
        for one in self.routed:
            if not any(other.k == one.k and _at(one) < _at(other) + window for other in found):
                found.append(one)
        return {one.n for one in found}


def _at(one: Event) -> float:
    assert one.routed is not None
    return one.routed


def _same(rate: dict[str, Any], one: Event, other: Event) -> bool:
    return "key" not in rate or one.k == other.k


def policy_says(policy: str, n: int, open_: list[tuple[int, bool]]) -> tuple[bool, set[int]]:
    """Whether a match starts, and what it cancels; ``open_`` are (event, runs)."""
    waiting = sum(1 for _, runs in open_ if not runs)
    if policy == "skip":
        return not open_, set()
    if policy == "buffer_one":
        return (waiting == 0 if any(runs for _, runs in open_) else waiting <= 1), set()
    if policy == "buffer_all":
        return True, set()
    if any(other > n for other, _ in open_):
        return False, set()
    return True, {other for other, _ in open_}


class Simulation:
    """One database, two processes of each role, and the model beside them."""

    def __init__(self, world: World, flows: list[dict[str, Any]]) -> None:
        self.world = world
        self.flows = flows
        self.flow = flows[0]
        self.model = Model()
        self.running: list[Claim] = []
        for table in reversed(schema.metadata.sorted_tables):
            with world.database.write() as tx:
                tx.execute(sa.delete(table))
        world.clock = world.database.clock = ManualClock(START)
        self.routers = [Router(world.database, world.settings) for _ in range(2)]
        self.turns = [Release(world.database, world.settings) for _ in range(2)]
        world.router = self.routers[0]
        world.function("work", limits={"retries": 1, "retry_delay": 5, "max_attempts": 3})
        self.numbers = {
            world.trigger(f"t{number}", "work", TICK, flow=flow)["id"]: number
            for number, flow in enumerate(flows)
        }
        world.route()

    @property
    def now(self) -> float:
        return (self.world.clock.now() - START).total_seconds()

    @contextmanager
    def killed(self, killed: bool) -> Iterator[None]:
        """Run a piece of work that ends before its commit, if ``killed``."""
        if not killed:
            yield
            return

        def die(_connection: Any) -> None:
            raise Killed

        engine = self.world.database.engine
        hooks.listen(engine, "commit", die)
        try:
            yield
        except Killed:
            pass
        finally:
            hooks.remove(engine, "commit", die)

    def pending(self) -> list[Event]:
        return [one for one in self.model.events if one.routed is None]

    def executions(self) -> list[dict[str, Any]]:
        """All executions with the number and key of their event."""
        by_id = {one.id: one for one in self.model.events}
        with self.world.database.read() as tx:
            rows = tx.rows(sa.select(*(schema.execution.c[name] for name in LOOKED_AT)))
        rows = with_places(self.world.database, rows)
        return [row | {"n": by_id[row["event_id"]].n, "k": by_id[row["event_id"]].k} for row in rows]

    def emit(self, k: str, p: int) -> None:
        n = len(self.model.events)
        self.model.events.append(
            Event(self.world.events.emit("tick", {"n": n, "k": k, "p": p}), n, k, p, self.now)
        )

    def route(self, one: Event, router: int, killed: bool = False) -> None:
        before = self.executions()
        with self.killed(killed):
            self.routers[router].route_one(one.id)
        if killed:
            assert self.executions() == before and not self._firings(one), "nothing of it is left"
            return
        one.routed = self.now
        self.model.routed.append(one)
        assert len(self._firings(one)) == len(self.flows), "one firing for each trigger"
        self._check_overlap(one, before)

    def _firings(self, one: Event) -> list[dict[str, Any]]:
        return self.world.rows(schema.firing, schema.firing.c.event_id == one.id)

    def _check_overlap(self, one: Event, before: list[dict[str, Any]]) -> None:
        if "overlap" in self.flow:
            policy = self.flow["overlap"]["policy"]
        elif "singleton" in self.flow:
            policy = {"skip": "skip", "cancel": "cancel_other"}[self.flow["singleton"]["mode"]]
        else:
            return
        open_ = [
            (row["n"], not row["waiting_for_slot"])
            for row in before
            if row["k"] == one.k and row["state"] in ("queued", "running")
        ]
        starts, cancelled = policy_says(policy, one.n, sorted(open_))
        (firing,) = self._firings(one)
        assert (firing["decision"] == "fired") == starts, (policy, one, open_)
        now_cancelled = {
            row["n"]
            for row in self.executions()
            if row["state"] == "cancelled" or row["cancel_requested_at"] is not None
        }
        already = {
            row["n"]
            for row in before
            if row["state"] == "cancelled" or row["cancel_requested_at"] is not None
        }
        assert now_cancelled == already | cancelled

    def turn(self, which: int, killed: bool = False) -> bool:
        before = {
            row["id"] for row in self.executions() if row["waiting_for_slot"] and row["state"] == "queued"
        }
        with self.killed(killed):
            more = self.turns[which].run_once()
            self._check_order(
                [row for row in self.executions() if row["id"] in before and not row["waiting_for_slot"]]
            )
            return more
        return False

    def _check_order(self, granted: list[dict[str, Any]]) -> None:
        """Check the order in a group of one: no execution starts before an earlier event is routed, or before a
        waiting execution that precedes it. The order is priority, then time, then event."""
        limits = self.flow.get("concurrency")
        limit = limits[0] if isinstance(limits, list) else limits
        policy = self.flow.get("overlap", {}).get("policy")
        if len(self.flows) > 1 or (policy != "buffer_all" and (limit is None or limit["limit"] != 1)):
            return
        keyed = "key" in limit if limit else True
        rows = {row["n"]: row for row in self.executions()}
        place = {
            one.n: (one.at - (one.p if "priority" in self.flow else 0), one.n) for one in self.model.events
        }
        for row in granted:
            for other in self.model.events:
                if keyed and other.k != row["k"]:
                    continue
                if other.n < row["n"]:
                    assert other.routed is not None, f"{row['n']} started before {other.n} was routed"
                waits = rows.get(other.n)
                if (
                    waits
                    and waits["state"] == "queued"
                    and waits["waiting_for_slot"]
                    and place[other.n] < place[row["n"]]
                ):
                    assert waits["run_at"] > self.world.clock.now(), f"{row['n']} overtook {other.n}"

    def claim(self, limit: int = 1) -> None:
        self.running += self.world.worker.claim_any(limit)

    def finish(self, index: int, outcome: str, killed: bool) -> None:
        one = self.running[index % len(self.running)]
        if self.world.worker.lease_status([(one.id, one.fence)]).cancel_requested:
            outcome = "cancelled"
        with self.killed(killed):
            self.world.finish(one, outcome)
        if not killed:
            self.running.remove(one)

    def lose_workers(self) -> None:
        """Let all workers vanish; the reaper ends their attempts."""
        self.world.advance(LEASE + 1)
        lost_workers.reap(self.world.database, cancel_grace=LEASE)
        self.running.clear()

    def check_limits(self) -> None:
        """Check that no more executions run, or can be claimed, than the limits allow."""
        active = [
            row
            for row in self.executions()
            if row["state"] == "running" or (row["state"] == "queued" and not row["waiting_for_slot"])
        ]
        for number, flow in enumerate(self.flows):
            limits = flow.get("concurrency", [])
            for limit in limits if isinstance(limits, list) else [limits]:
                mine = [
                    row for row in active if limit.get("scope") or self.numbers[row["trigger_id"]] == number
                ]
                keys = {row["k"] for row in mine} if limit.get("key") == "data.k" else {None}
                for key in keys:
                    group = [row for row in mine if key in (None, row["k"])]
                    # Another trigger of a shared concurrency group may have a higher limit.
                    widest = max(_limit(f) for f in self.flows) if limit.get("scope") else limit["limit"]
                    assert len(group) <= max(widest, limit["limit"])
        policy = self.flow.get("overlap", {}).get("policy") or self.flow.get("singleton", {}).get("mode")
        if policy not in (None, "terminate_other"):
            for key in "ab":
                assert sum(row["k"] == key for row in active) <= 1

    def check_starts(self, rate: dict[str, Any], step: float) -> None:
        """Check that the attempts of each key started no faster than the throttle allows."""
        keys = {row["id"]: row["k"] if "key" in rate else "" for row in self.executions()}
        times: dict[str, list[float]] = {}
        for row in self.world.rows(schema.attempt):
            started = (row["started_at"] - START).total_seconds()
            times.setdefault(keys[row["execution_id"]], []).append(started)
        for found in map(sorted, times.values()):
            for first, last in combinations(range(len(found)), 2):
                least = (last - first - rate.get("burst", 1) + 1) * step
                assert found[last] - found[first] >= least, f"{found} is faster than {rate}"

    def check_decisions(self) -> None:
        """Check that all decisions so far are those that the model computes."""
        rows = {row["n"]: row for row in self.executions()}
        started = {n: row["created_at"] for n, row in rows.items()}
        if rate := self.flow.get("throttle"):
            step = _seconds(rate["period"]) / rate["limit"]
            wanted = self.model.starts(rate, step)
            assert set(started) == set(wanted)
            self.check_starts(rate, step)
            for n, row in rows.items():
                if row["attempt"] == 0:
                    # Later when it was due and no token was left.
                    assert (row["run_at"] - START).total_seconds() >= wanted[n]
                if row["started_at"] is not None:
                    assert (row["started_at"] - START).total_seconds() >= wanted[n]
        if rate := self.flow.get("rate_limit"):
            assert set(started) == self.model.passed(rate, _seconds(rate["period"]) / rate["limit"])
        if once := self.flow.get("idempotency"):
            assert set(started) == self.model.first_ones(_seconds(once["window"]))

    def drain(self) -> None:
        """Finish all work, and check that nothing is left."""
        for key in "abbaab":
            self.emit(key, 0)
        for _ in range(2000):
            for one in self.pending():
                self.route(one, one.n % 2)
            self.world.route()
            while self.turn(0) or self.turn(1):
                pass
            self.check_limits()
            self._check_every_wait_has_a_reason()
            self.claim(100)
            while self.running:
                self.finish(0, "succeeded", False)
            rows = self.executions()
            if all(row["state"] not in ("queued", "running") for row in rows):
                break
            self.world.advance(10)
        assert all(row["state"] not in ("queued", "running") for row in self.executions())
        assert self.world.rows(schema.slot) == []
        fired = [row for row in self.world.rows(schema.firing) if row["decision"] == "fired"]
        assert len(self.world.rows(schema.firing)) == len(self.model.events) * len(self.flows)
        assert sorted(row["execution_id"] for row in fired) == sorted(row["id"] for row in self.executions())

    def _check_every_wait_has_a_reason(self) -> None:
        """Check that a due execution waits only for another one, when no event is pending and no release is due."""
        rows = self.executions()
        active = sum(
            row["state"] == "running" or (row["state"] == "queued" and not row["waiting_for_slot"])
            for row in rows
        )
        due = [
            row
            for row in rows
            if row["waiting_for_slot"]
            and row["state"] == "queued"
            and row["run_at"] <= self.world.clock.now()
        ]
        assert active or not due


def _seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def _limit(flow: dict[str, Any]) -> int:
    limits = flow.get("concurrency", {})
    return max(one["limit"] for one in (limits if isinstance(limits, list) else [limits]))
