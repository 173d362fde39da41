"""What sources have taken in is forgotten after a while, and not before."""

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from functory.engine.database import schema
from functory.engine.events import receipts
from functory.engine.events.receipts import IncomingEvent

if TYPE_CHECKING:
    from tests.support.world import World

pytest_plugins = ["tests.support.world"]

MONTH = timedelta(days=30)


def arrive(world: "World", key: str) -> str | None:
    queue = source(world)
    with world.database.write() as tx:
        (taken,) = receipts.ingest(
            tx, queue, "/functory/queue/orders", [IncomingEvent("order.created", key=key)]
        )
    return taken


def source(world: "World") -> str:
    known = world.sources.store.list("queue")
    return (known[0] if known else world.sources.store.save("queue", "orders", {}))["id"]


def test_an_arrival_is_known_until_its_receipt_is_forgotten(world: "World"):
    assert arrive(world, "one") is not None
    world.advance(MONTH.total_seconds() - 60)
    assert receipts.delete_expired(world.database, MONTH) == {"delivery_receipt": 0, "schedule_tick": 0}
    assert arrive(world, "one") is None
    world.advance(120)
    assert receipts.delete_expired(world.database, MONTH)["delivery_receipt"] == 1
    assert arrive(world, "one") is not None
    assert len(world.rows(schema.event, schema.event.c.type == "order.created")) == 2


def test_much_is_forgotten_in_steps_and_what_is_young_stays(world: "World"):
    for number in range(5):
        arrive(world, f"old {number}")
    world.advance(MONTH.total_seconds() + 1)
    arrive(world, "young")
    counts = [receipts.delete_expired(world.database, MONTH, 2)["delivery_receipt"] for _ in range(4)]
    assert counts == [2, 2, 1, 0]
    assert [row["key"] for row in world.rows(schema.delivery_receipt)] == ["young"]


def test_ticks_are_forgotten_too(world: "World"):
    world.sources.save("schedule", "often", {"every": "1h"})
    world.advance(3600 * 3)
    while world.ticker.run_once():
        pass
    ticks = len(world.rows(schema.schedule_tick))
    assert ticks
    world.advance(MONTH.total_seconds() + 1)
    assert receipts.delete_expired(world.database, MONTH)["schedule_tick"] == ticks
    assert world.rows(schema.schedule_tick) == []


@pytest.mark.parametrize("key", ["", "a\x00b", "\ud800", "x" * 256, "sha256:"], ids=ascii)
def test_any_text_of_a_sender_is_known_again_and_forgotten(world: "World", key: str):
    assert arrive(world, key) is not None
    assert arrive(world, key) is None
    assert arrive(world, f"{key}\x00") is not None
    world.advance(MONTH.total_seconds() + 1)
    assert receipts.delete_expired(world.database, MONTH)["delivery_receipt"] == 2
    assert world.rows(schema.delivery_receipt) == []
    assert arrive(world, key) is not None
