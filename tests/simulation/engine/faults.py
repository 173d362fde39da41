"""The faults of a simulated run: each seed draws a rate for each fault, and many rates are zero."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from functory.engine.errors import Unavailable, Uncertain
from tests.simulation.engine.worker import Worker
from tests.simulation.engine.world import (
    AFTER_COMMIT,
    BEFORE_COMMIT,
    Crash,
    Process,
    Steps,
    World,
)


@dataclass
class Plan:
    """The probability of each fault, while faults are on."""

    rng: Random
    on: bool = True
    dropped: float = 0.0
    doubled: float = 0.0
    wiped: float = 0.0
    failed_send: float = 0.0
    lost_wakeup: float = 0.0
    crash: float = 0.0  # a process crashes in a transaction
    error: float = 0.0  # the database refuses, or gives no answer after a commit
    # The faults that the chaos actor causes, in this order.
    deeds: list[str] = field(default_factory=list)

    def happens(self, chance: float) -> bool:
        """True when a fault with this probability happens now."""
        return self.on and chance > 0 and self.rng.random() < chance

    def fate(self) -> tuple[int, BaseException | None]:
        """The fault of the transaction that begins now: its place (a statement, or before or after the commit) and
        its kind."""
        if not self.on or not (self.crash or self.error):
            return 0, None
        draw = self.rng.random()
        if draw >= self.crash + self.error:
            return 0, None
        place = self.rng.choice((BEFORE_COMMIT, AFTER_COMMIT, AFTER_COMMIT, self.rng.randrange(1, 8)))
        where = {BEFORE_COMMIT: "before its commit", AFTER_COMMIT: "after its commit"}.get(
            place, f"before statement {place}"
        )
        if draw < self.crash:
            return place, Crash(where)
        unknown = place in (BEFORE_COMMIT, AFTER_COMMIT)
        return place, (Uncertain if unknown else Unavailable)(
            "the database cannot be used", where, "try again"
        )


def draw(rng: Random) -> Plan:
    """The fault rates that a seed draws."""
    plan = Plan(rng)
    if rng.random() < 0.08:
        return plan

    def rate(usual: float) -> float:
        # A seed sends few messages: a rate that suits thousands of messages would cause almost no fault here.
        return 0.0 if rng.random() < 0.35 else usual * rng.choice((1, 2, 4))

    plan.dropped, plan.doubled, plan.wiped = rate(0.05), rate(0.08), rate(0.004)
    plan.failed_send, plan.lost_wakeup = rate(0.03), rate(0.1)
    plan.crash, plan.error = rate(0.015), rate(0.015)
    kinds = ("kill worker", "kill", "pause worker", "pause worker", "pause", "outage", "broker", "drain")
    plan.deeds = [rng.choice(kinds) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    return plan


class Chaos(Process):
    """The actor that causes the planned faults of processes and of the broker."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "chaos")

    def actors(self):
        yield "deeds", self._deeds()

    def _workers(self) -> list[Worker]:
        return [one for one in self.world.processes if isinstance(one, Worker)]

    def _deeds(self) -> Steps:
        world, rng = self.world, self.world.rng
        lease = world.settings.lease_seconds
        for deed in world.plan.deeds:
            yield rng.random() * 3, None
            # A fault finds most defects while an execution runs.
            for _ in range(20):
                if any(one.running for one in self._workers()):
                    break
                yield 0.3, None
            if not world.plan.on:
                return
            long = lease * (0.5 + 2 * rng.random())
            if deed == "outage":
                world.note("outage", round(long, 1))
                world.record.outages += 1
                world.away_until = world.now + long
            elif deed == "broker":
                world.note("broker away", round(long, 1))
                world.broker.away_until = world.now + long
            else:
                workers = self._workers()
                others = [one for one in world.processes if one not in workers and one is not self]
                chosen = workers if deed.endswith("worker") or deed == "drain" else others
                if not chosen:
                    continue
                busy = [one for one in chosen if isinstance(one, Worker) and one.running]
                process = rng.choice(busy or chosen)
                if deed == "drain":
                    assert isinstance(process, Worker)
                    process.drain(rng.choice((0.0, 1.0, 5.0)))
                elif deed.startswith("pause"):
                    world.pause(process, long)
                else:
                    world.kill(process, "by chaos")
