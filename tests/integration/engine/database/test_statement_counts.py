"""How many statements the hot paths send."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    pass

pytest_plugins = ["tests.support.world"]


def test_emit_sends_two_statements(world):
    world.events.emit("order.created", {})
    with world.statements() as sent:
        world.events.emit("order.created", {"n": 1}, subject="s")
    assert len(sent) == 2, sent
    with world.statements() as sent:
        world.events.emit("order.created", {"n": 1}, dedup_key="k")
    assert len(sent) == 2, sent


@pytest.mark.parametrize("matching", [True, False])
def test_routing_a_hundred_events_sends_as_many_statements_as_routing_one(world, matching):
    world.function("work")
    for n in range(20):
        world.trigger(f"other{n}", "work", {"type": [f"other{n}"]})
    world.trigger("on-order", "work", {"type": ["order.created" if matching else "order.paid"]})
    # The first firing inserts the row of the rate guard.
    world.events.emit("order.created", {"n": 0})
    world.route()
    counted = {}
    for size in (1, 10, 100):
        for n in range(size):
            world.events.emit("order.created", {"n": n})
        with world.statements() as sent:
            assert world.router.route_batch().events == size
        counted[size] = len(sent)
    assert len(world.executions.list(limit=1000)) == (112 if matching else 0)
    assert counted[1] == counted[10] == counted[100] <= (14 if matching else 4), sent


def test_a_run_without_dependencies_takes_eight_statements(world):
    world.function("work")
    world.finish(world.claim(world.start()))
    row = world.start()
    with world.statements() as claiming:
        claim = world.claim(row)
    with world.statements() as finishing:
        world.finish(claim, result=1)
    assert (len(claiming), len(finishing)) == (4, 4), (claiming, finishing)


def test_a_message_of_many_ids_is_claimed_with_the_statements_of_one(world):
    world.function("work")
    world.finish(world.claim(world.start()))
    rows = [world.start()["id"] for _ in range(10)]
    with world.statements() as sent:
        assert len(world.worker.claim(rows)) == 10
    assert len(sent) == 4, sent


def test_reading_a_tree_takes_as_many_statements_for_a_hundred_nodes_as_for_one(world):
    world.function("work")
    counted = []
    for size in (1, 100):
        claim = world.claim(world.start())
        for _ in range(size):
            world.executions.start("work", {}, parent=claim.cause)
        with world.statements() as sent:
            assert len(list(world.lineage.tree(claim.id).nodes[0].walk())) == size + 2
        counted.append(len(sent))
    assert counted[0] == counted[1] <= 6
