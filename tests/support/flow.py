"""Steps of flow-control tests: numbered events, releases until nothing is left to decide, and the executions that
ran."""

from collections.abc import Mapping
from typing import Any

from functory.engine.database import schema
from functory.engine.executions.claims import Claim
from functory.engine.executions.execution_row import ExecutionRow
from tests.support.world import World

TICK = {"type": ["tick"]}


def trigger(world: World, *, name: str = "t", function: str = "work", **flow: Any) -> dict[str, Any]:
    """Save a trigger on `tick` events with this flow control."""
    return world.trigger(name, function, TICK, flow=flow)


def emit(world: World, *numbers: int, type_: str = "tick", **data: Any) -> list[str]:
    """Write one event for each number; the event's data has it as `n`."""
    return [world.events.emit(type_, {"n": number} | data) for number in numbers]


def turn(world: World, rounds: int = 200) -> None:
    """Release what waits until nothing is left to decide."""
    for _ in range(rounds):
        if not world.turn.run_once():
            return
    raise AssertionError(f"no end after {rounds} turns")


def settle(world: World) -> list[tuple[str, str | None]]:
    """Route and release. Returns the new firings."""
    firings = world.route()
    turn(world)
    return firings


def number(row: Mapping[str, Any] | ExecutionRow) -> int:
    """The `n` of the event that started an execution."""
    given = row.input if isinstance(row, ExecutionRow) else row["input"]
    return next(iter(given.values()))[0]["data"]["n"]


def claim(world: World, limit: int = 1000) -> list[Claim]:
    """Claim all ready executions."""
    return world.worker.claim_any(limit)


def numbers(claims: list[Claim]) -> list[int]:
    """The `n` of each claim's event."""
    return [number(one.row) for one in claims]


def states(world: World) -> dict[int, str]:
    """The state of each event's execution."""
    return {number(row): row["state"] for row in world.rows(schema.execution)}


def waves(world: World) -> list[list[int]]:
    """Claim, finish and release until no execution is ready. Returns the `n` of the executions that ran together."""
    found: list[list[int]] = []
    while claims := claim(world):
        found.append(numbers(claims))
        for one in claims:
            world.finish(one)
        turn(world)
    return found
