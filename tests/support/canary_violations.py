"""Ways to break the invariants of canaries, I26 and I27, by hand."""

from __future__ import annotations

from collections.abc import Mapping

from functory.engine.database import schema as t
from functory.engine.releases.canary_service import Canaries
from tests.support.invariant_violations import breaks, change
from tests.support.world import World


def _canary(world: World, *, used: bool = True) -> None:
    """A function with a canary, which has chosen the version of an execution if it was ``used``."""
    world.function("bird")
    world.functions.save("def bird():\n    return 2\n", activate=False)
    Canaries(world.database, world.functions).start("bird", 2)
    if used:
        world.claim(world.start("bird"))


@breaks("I26")
def _a_function_with_a_canary_that_has_ended(world: World, ids: Mapping[str, str]) -> None:
    _canary(world)
    change(world, t.canary, t.canary.c.state == "open", state="stopped")


@breaks("I26")
def _a_canary_that_its_function_does_not_have(world: World, ids: Mapping[str, str]) -> None:
    _canary(world)
    change(world, t.function, t.function.c.name == "bird", canary_id=None)


@breaks("I26")
def _a_canary_whose_base_is_not_active(world: World, ids: Mapping[str, str]) -> None:
    _canary(world, used=False)
    change(world, t.canary, t.canary.c.state == "open", base=7)


@breaks("I27")
def _an_execution_with_the_other_version(world: World, ids: Mapping[str, str]) -> None:
    _canary(world)
    row = world.rows(t.canary_execution)[0]
    change(
        world,
        t.canary_execution,
        t.canary_execution.c.execution_id == row["execution_id"],
        is_canary=not row["is_canary"],
    )


@breaks("I27")
def _a_choice_without_its_execution(world: World, ids: Mapping[str, str]) -> None:
    _canary(world)
    change(
        world,
        t.canary_execution,
        t.canary_execution.c.outcome.is_(None),
        execution_id=world.database.new_id(),
    )
