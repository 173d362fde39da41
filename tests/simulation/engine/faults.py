"""Which faults a seed draws, and how often each happens: every seed has rates of its own, many of them zero."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from functory.engine.errors import Unavailable, Uncertain
from tests.simulation.engine.actors import Worker
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
    """Chances of each fault while faults are on."""

    rng: Random
    on: bool = True
    dropped: float = 0.0
    doubled: float = 0.0
    wiped: float = 0.0
    failed_send: float = 0.0
    lost_wakeup: float = 0.0
    crash: float = 0.0  # of a process, at a transaction
    error: float = 0.0  # the database says no, or says nothing after a commit
    # What the chaos actor does, in its order.
    deeds: list[str] = field(default_factory=list)

    def happens(self, chance: float) -> bool:
        """Whether a fault of this chance happens now."""
        return self.on and chance > 0 and self.rng.random() < chance

    def fate(self) -> tuple[int, BaseException | None]:
        """Where the transaction that begins now fails, and how: before a statement, before or after its commit."""
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
    """The faults of a seed."""
    plan = Plan(rng)
    if rng.random() < 0.08:
        return plan

    def rate(usual: float) -> float:
        # A seed sends few messages: a rate that is right for thousands would hardly ever come to anything.
        return 0.0 if rng.random() < 0.35 else usual * rng.choice((1, 2, 4))

    plan.dropped, plan.doubled, plan.wiped = rate(0.05), rate(0.08), rate(0.004)
    plan.failed_send, plan.lost_wakeup = rate(0.03), rate(0.1)
    plan.crash, plan.error = rate(0.015), rate(0.015)
    kinds = ("kill worker", "kill", "pause worker", "pause worker", "pause", "outage", "broker", "drain")
    plan.deeds = [rng.choice(kinds) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    return plan


class Chaos(Process):
    """Carries out the deeds of the plan."""

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
            # Harm does most where something runs.
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
