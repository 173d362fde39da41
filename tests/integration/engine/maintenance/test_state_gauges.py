"""The gauge of activations: it has the functions that changed last, each with when."""

from __future__ import annotations

from functory.engine.maintenance import state_gauges
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

NAME = "functory_function_activated_timestamp_seconds"


def shown(world: World) -> dict[str, float]:
    (family,) = [one for one in state_gauges.read(world.database, world.settings) if one.name == NAME]
    return {sample.labels["function"]: sample.value for sample in family.samples}


def test_a_function_is_shown_with_the_time_of_its_newest_activation(world: World) -> None:
    assert shown(world) == {}
    world.function("work", "a")
    first = world.clock.now().timestamp()
    assert shown(world) == {"work": first}
    world.advance(60)
    world.function("work", "b")
    world.function("other")
    assert shown(world) == {"work": first + 60, "other": first + 60}
    world.advance(60)
    world.functions.save("def other():\n    return 3\n", activate=False)
    world.functions.rollback("work")
    assert shown(world) == {"work": first + 120, "other": first + 60}


def test_only_the_newest_activations_are_shown(world: World) -> None:
    for number in range(state_gauges.ACTIVATIONS + 5):
        world.function(f"work_{number}")
        world.advance(1)
    assert set(shown(world)) == {f"work_{number}" for number in range(5, state_gauges.ACTIVATIONS + 5)}
