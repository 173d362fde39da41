"""What tests of flow control share: events that are numbered, turns until nothing moves, and who ran."""

from collections.abc import Mapping
from typing import Any

from functory.engine.database import schema
from functory.engine.executions.claims import Claim
from tests.support.world import World

TICK = {"type": ["tick"]}


def trigger(world: World, *, name: str = "t", function: str = "work", **flow: Any) -> dict[str, Any]:
    """A trigger on `tick` with this flow control."""
    return world.trigger(name, function, TICK, flow=flow)


def emit(world: World, *numbers: int, type_: str = "tick", **data: Any) -> list[str]:
    """One event for each number, which is its data's `n`."""
    return [world.events.emit(type_, {"n": number} | data) for number in numbers]


def turn(world: World, rounds: int = 200) -> None:
    """Take turns until nothing is left to decide."""
    for _ in range(rounds):
        if not world.turn.run_once():
            return
    raise AssertionError(f"no end after {rounds} turns")


def settle(world: World) -> list[tuple[str, str | None]]:
    """Route and take turns; the new firings."""
    firings = world.route()
    turn(world)
    return firings


def number(row: Mapping[str, Any]) -> int:
    """The `n` of the event that an execution was started by."""
    return next(iter(row["input"].values()))[0]["data"]["n"]


def claim(world: World, limit: int = 1000) -> list[Claim]:
    """Claim everything that is ready."""
    return world.worker.claim_any(limit)


def numbers(claims: list[Claim]) -> list[int]:
    """Which events the claims are for."""
    return [number(one.row) for one in claims]


def states(world: World) -> dict[int, str]:
    """The state of each event's execution."""
    return {number(row): row["state"] for row in world.rows(schema.execution)}


def waves(world: World) -> list[list[int]]:
    """Claim, finish and take turns until nothing is ready: who ran together."""
    found: list[list[int]] = []
    while claims := claim(world):
        found.append(numbers(claims))
        for one in claims:
            world.finish(one)
        turn(world)
    return found
