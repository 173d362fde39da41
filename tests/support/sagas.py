"""Executions whose steps are undone, played by hand."""

from typing import Any

from msgspec.structs import asdict

from functory.engine.executions.compensation.operator_commands import Compensations
from functory.engine.maintenance import compensator
from tests.support.world import World


def begun(world: World, function: str = "order", **options: Any) -> Any:
    """A claimed execution."""
    row = world.executions.start(function, {"order": 7}, **options)
    world.advance(1)
    return world.claim(row)


def step(world: World, parent: Any, function: str, result: Any = None, outcome: str = "succeeded") -> str:
    """A child execution that ends."""
    claim = begun(world, function, parent=parent.cause)
    world.advance(1)
    world.finish(claim, outcome, result=result)
    world.advance(1)
    return claim.id


def plan(world: World, id_: str) -> list[tuple[str, str]]:
    """The plan of an execution: (function of the step, state)."""
    return [(row["function"], row["state"]) for row in Compensations(world.database).plan(id_)]


def undone(world: World, outcome: str = "succeeded", rounds: int = 100) -> list[dict[str, Any]]:
    """Advance and run compensations until nothing moves; the executions in their order, with their input."""
    ran: list[dict[str, Any]] = []
    for _ in range(rounds):
        moved = compensator.advance(world.database, world.settings)
        world.advance(1)
        claims = world.worker.claim_any(100)
        for claim in claims:
            world.finish(claim, outcome)
            ran.append(asdict(claim.row))
        if not moved and not claims:
            return ran
    raise AssertionError(f"no end after {rounds} rounds")
