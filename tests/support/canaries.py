"""Canaries in a world: two versions of one function, events that start it, and a scheduler that the test plays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from functory.engine.database import schema
from functory.engine.database.clock import lowest_id
from functory.engine.executions.claims import Claim
from functory.engine.functions import canary_assignment
from functory.engine.maintenance.canary_watch import CanaryWatch
from functory.engine.releases import canaries
from functory.engine.releases.canary_service import Canaries
from tests.support.world import World

FUNCTION = "work"
SALT = "000102030405060708090a0b0c0d0e0f"

Plays = Callable[[Claim], str]
"""What an attempt of an execution ends with."""


class CanaryWorld:
    """`work` v1 is active and v2 waits; trigger `on-order` starts it for each event `order`."""

    def __init__(self, world: World, *, parameters: str = "**named", **declared: Any) -> None:
        self.world = world
        numbers = itertools.count(1)
        # The same in each run, so that the same units get the version of the canary.
        world.database.new_id = lambda: str(UUID(int=UUID(lowest_id(world.clock.now())).int + next(numbers)))
        self.canaries = Canaries(world.database, world.functions)
        self.watch = CanaryWatch(world.database, world.settings)
        world.function(FUNCTION, "**named", **declared)
        self.save_next(parameters, **declared)
        world.trigger("on-order", FUNCTION, {"type": ["order"]}, input={"n": "{{ event.data.n }}"})

    def save_next(self, parameters: str = "**named", **declared: Any) -> int:
        """Save another version, which is not activated. Returns its number."""
        number = len(self.world.functions.versions(FUNCTION)) + 1
        source = f"def {FUNCTION}({parameters}):\n    return {number}\n"
        return self.world.functions.save(source, activate=False, **declared)["number"]

    def start(self, version: int = 2, share: float = 0.5, **options: Any) -> dict[str, Any]:
        with self.world.database.write() as tx:
            given: dict[str, Any] = {"author": "ada", "salt": SALT} | options
            return canaries.start(tx, FUNCTION, version, share=share, **given)

    def emit(self, count: int, subjects: Iterable[str] | None = None) -> None:
        """Emit events, and route them."""
        of = list(subjects or ())
        for number in range(count):
            subject = of[number % len(of)] if of else None
            self.world.events.emit("order", {"n": number}, subject=subject)
        self.world.route()

    def work(
        self, plays: Plays = lambda claim: "succeeded", takes: Callable[[Claim], float] = lambda claim: 1.0
    ) -> int:
        """End an attempt of each execution that is due. Returns their number."""
        claims = self.world.worker.claim_any(1000)
        for claim in claims:
            self.world.finish(claim, plays(claim), duration_seconds=takes(claim))
        return len(claims)

    def look(self) -> None:
        """A scheduler looks until nothing more is to be counted."""
        while self.watch.run_once():
            pass

    @property
    def row(self) -> dict[str, Any]:
        """The newest canary."""
        return self.canaries.get(FUNCTION)

    def executions(self) -> list[dict[str, Any]]:
        return self.world.rows(schema.execution)

    def arms(self) -> list[dict[str, Any]]:
        """What was recorded of assigned executions."""
        return self.world.rows(schema.canary_execution)

    def events(self, type_: str) -> list[dict[str, Any]]:
        return [row["data"] for row in self.world.rows(schema.event, schema.event.c.type == type_)]

    def version_of(self, unit: str, row: Mapping[str, Any] | None = None) -> int:
        """The version that the hash of a unit gives, computed again."""
        row = row or self.world.rows(schema.canary)[-1]
        arm = canary_assignment.assign(unit, row["salt"], row["share"])
        return row["version"] if arm.is_canary else row["base"]


def fails(*versions: int) -> Plays:
    """Every attempt of these versions fails."""
    return lambda claim: "failed" if claim.version.number in versions else "succeeded"
