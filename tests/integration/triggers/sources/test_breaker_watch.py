"""A source of any kind that exceeds its rate is paused for a while, loses nothing, and goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.errors import Stale
from functory.engine.events import store as event_store
from functory.engine.events.receipts import IncomingEvent
from functory.engine.sources.source_breaker import COOL_DOWN, WINDOW
from functory.engine.sources.webhooks import Webhooks
from functory.engine.tallies.tallier import Tallier
from functory.triggers.sources.breaker_watch import SourceBreakerWatch
from functory.triggers.sources.webhooks import Request, WebhookReceiver
from tests.support.aging_world import ids_of
from tests.support.user_tables import Shop
from tests.support.world import World, on_postgresql

pytest_plugins = ["tests.support.world"]

# A minute: ten in a window.
RATE: dict[str, Any] = {"max_per_minute": 1}
CONFIGS: dict[str, dict[str, Any]] = {
    "queue": {"queue": "in", "broker": "own"},
    "file": {"path": "/srv/in"},
    "webhook": {"auth": {"type": "token", "secret": "HOOK", "header": "x-token"}},
}


def aged(world: World) -> World:
    """The world, with ids that are as old as its clock says: the tallier counts by them."""
    world.database.new_id = ids_of(world.database)
    return world


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return aged(make_world())


def save(world: World, kind: str = "queue", **more: Any) -> None:
    """A source that is older than the minutes that count."""
    world.sources.store.save(kind, "in", CONFIGS[kind] | more)
    world.advance(120)


def arrive(world: World, number: int, kind: str = "queue", name: str = "in") -> None:
    """Events of the source, as its kind writes them; settled, as the tallier counts them."""
    with world.database.write() as tx:
        event_store.append(
            tx,
            [
                event_store.record(tx, "thing.came", None, {"n": n}, source=f"/functory/{kind}/{name}")
                for n in range(number)
            ],
        )
    world.advance(60)


def look(world: World) -> None:
    """A round of the tallier, and one of the watch."""
    tallier = Tallier(world.database, world.settings)
    while tallier.tally():
        pass
    SourceBreakerWatch(world.database, world.settings).run_once()


def row(world: World, kind: str = "queue") -> dict[str, Any]:
    return world.sources.store.get(kind, "in")


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_source_of_every_kind_is_paused_and_goes_on_after_a_while(world: World, kind: str) -> None:
    save(world, kind, **RATE)
    arrive(world, 10, kind)
    look(world)
    assert row(world, kind)["state"] == "enabled", "as many as it may"
    arrive(world, 1, kind)
    look(world)
    look(world)
    paused = row(world, kind)
    assert paused["state"] == "paused"
    assert "11 events in 10m, more than 1 a minute" in paused["note"]
    (told,) = [one for one in world.rows(schema.event) if one["type"] == "source.paused"]
    assert (told["data"]["note"], told["data"]["author"]) == (paused["note"], "functory")
    assert told["data"]["until"] == paused["paused_until"].isoformat()
    world.advance(COOL_DOWN.total_seconds() - 1)
    look(world)
    assert row(world, kind)["state"] == "paused"
    world.advance(1)
    look(world)
    look(world)
    after = row(world, kind)
    assert (after["state"], after["note"], after["paused_until"]) == ("enabled", None, None)


def test_the_process_that_runs_it_stops_and_writes_nothing_until_it_goes_on(world: World) -> None:
    save(world, **RATE)
    store = world.sources.store
    (held,) = store.claim(["queue"], "watcher", 3600)
    arrive(world, 11)
    look(world)
    with pytest.raises(Stale):
        store.ingest(held, [IncomingEvent("thing.came", {}, None, key="1")], cursor="behind it")
    assert row(world)["cursor"] is None, "what it reads stays where it is"
    assert store.claim(["queue"], "another", 3600) == []
    store.release(held)
    world.sources.resume("queue", "in")
    (again,) = store.claim(["queue"], "another", 3600)
    assert store.ingest(again, [IncomingEvent("thing.came", {}, None, key="1")]) != [None]
    look(world)
    assert row(world)["state"] == "enabled", "what came before it was resumed does not count again"


def test_a_stream_below_its_rate_goes_on_for_hours(world: World) -> None:
    save(world, **RATE)
    for _ in range(2 * int(WINDOW.total_seconds() / 60)):
        arrive(world, 1)
        look(world)
    assert row(world)["state"] == "enabled"


@pytest.mark.parametrize(("own", "setting", "state"), [
    (None, 1, "paused"), (0, 1, "enabled"), (5, 1, "enabled"), (None, 0, "enabled"), (1, 0, "paused"),
])  # fmt: skip
def test_the_rate_is_the_source_s_own_or_that_of_the_settings(
    make_world: Callable[..., World], own: int | None, setting: int, state: str
) -> None:
    world = aged(make_world(source_rate=setting))
    save(world, **({} if own is None else {"max_per_minute": own}))
    arrive(world, 20)
    look(world)
    assert row(world)["state"] == state


def test_the_times_of_a_schedule_are_not_counted_without_a_rate_of_its_own(
    make_world: Callable[..., World],
) -> None:
    world = aged(make_world(source_rate=1))
    world.sources.save("schedule", "in", {"every": "1h"})
    world.advance(120)
    arrive(world, 20, "schedule")
    look(world)
    assert row(world, "schedule")["state"] == "enabled"


def test_a_pause_by_a_person_has_no_end(world: World) -> None:
    save(world, **RATE)
    arrive(world, 11)
    look(world)
    world.sources.pause("queue", "in", note="a loop")
    world.advance(COOL_DOWN.total_seconds())
    look(world)
    assert (row(world)["state"], row(world)["note"]) == ("paused", "a loop")


def test_a_webhook_says_when_to_send_again_but_only_to_its_sender(world: World) -> None:
    world.secrets.set("HOOK", "key")
    save(world, "webhook", **RATE)
    arrive(world, 11, "webhook")
    look(world)
    door = WebhookReceiver(Webhooks(world.database), world.secrets, world.database.clock, 1_000_000)

    def send(token: str) -> Any:
        headers = [("content-type", "application/json"), ("x-token", token)]
        return door.receive("in", Request("POST", headers, "", b"{}"))

    assert (send("key").status, send("key").retry_after) == (503, COOL_DOWN.total_seconds())
    assert send("another").status == 404
    world.sources.resume("webhook", "in")
    world.advance(2)
    assert send("key").status == 202


@pytest.fixture
def paused_table(world: World) -> Iterator[Shop]:
    """A captured table whose source the breaker has paused."""
    shop = Shop(world)
    try:
        world.function("ship")
        world.trigger("t", "ship", {"type": ["row.inserted"], "data": {"table": [{"exists": True}]}})
        shop.watch(**RATE)
        world.advance(120)
        arrive(world, 11, "table", "orders")
        world.route()
        look(world)
        assert world.sources.get("table", "orders")["state"] == "paused"
        shop.sql("INSERT INTO shop.orders VALUES (1, 'a', 1, NULL), (2, 'b', 1, NULL)")
        yield shop
    finally:
        shop.close()


@pytest.mark.postgres
@on_postgresql
def test_changes_of_a_table_become_events_that_wait_for_the_end_of_the_pause(
    world: World, paused_table: Shop
) -> None:
    assert [row["subject"] for row in paused_table.events()] == ["shop.orders/1", "shop.orders/2"]
    assert world.route() == []
    world.sources.resume("table", "orders")
    paused_table.sql("INSERT INTO shop.orders VALUES (3, 'c', 1, NULL)")
    assert world.route() == [("t", None)] * 3
