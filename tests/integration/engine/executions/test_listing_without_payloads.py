"""Lists stay small: they leave out what users give and get, which may be a megabyte in each row."""

from collections.abc import Callable
from typing import Any

import pytest

pytest_plugins = ["tests.support.world"]

LARGE = "x" * 100_000

LISTS: dict[str, Callable[[Any], Any]] = {
    "executions": lambda world: world.executions.list(),
    "events": lambda world: world.events.list(),
    "functions": lambda world: world.functions.list(),
    "versions": lambda world: world.functions.versions("work"),
    "causal tree": lambda world: world.lineage.tree(world.executions.list()[0]["root_id"]).nodes,
}


@pytest.fixture
def large(world):
    """Executions, events and versions with a large payload each."""
    world.functions.save(f"def work(event=None):\n    return {LARGE!r}\n")
    for _ in range(3):
        world.finish(world.claim(world.executions.start("work", {"event": LARGE})), "succeeded", LARGE)
    return world


@pytest.mark.parametrize("what", LISTS)
def test_a_list_does_not_load_payloads(large, what):
    rows = LISTS[what](large)
    assert rows
    assert LARGE[:1000] not in repr(rows)


def test_a_list_with_payloads_has_them_and_is_short(large):
    executions = large.executions.list(payloads=True, limit=2)
    assert [(row["input"], row["result"]) for row in executions] == [({"event": LARGE}, LARGE)] * 2
    for _ in range(101):
        large.events.emit("order.created", data=1)
    events = large.events.list(type_="order.created", payloads=True, limit=1000)
    assert [row["data"] for row in events] == [1] * 100
