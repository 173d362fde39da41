"""CloudEvents from outside in the database: once each, from any sender; triggers see them as they were sent."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.errors import Invalid
from functory.engine.events import cloudevents, envelope
from functory.engine.events.cloudevents import Inbox, IncomingEvent
from functory.engine.events.event_publishing import OutboxOnly
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def sent(id_: str, **attributes: Any) -> IncomingEvent:
    return cloudevents.parse_structured(
        {"specversion": "1.0", "id": id_, "source": "/shop", "type": "order.created"} | attributes
    )


def orders(world: World) -> list[dict[str, Any]]:
    return [row for row in world.rows(schema.event) if row["type"] == "order.created"]


def test_an_event_is_stored_with_all_that_its_sender_said(world: World) -> None:
    inbox = Inbox(world.database, 1024)
    ((id_, known),) = inbox.ingest(
        [sent("a", subject="s", time="2020-01-01T00:00:00Z", data={"n": 1}, tenant="blue", count=3)]
    )
    row = world.events.get(id_)
    assert not known
    assert row["time"] == datetime(2020, 1, 1, tzinfo=UTC)
    assert envelope.of_mapping(row) == {
        "specversion": "1.0",
        "id": id_,
        "source": "/shop",
        "type": "order.created",
        "subject": "s",
        "time": "2020-01-01T00:00:00Z",
        "datacontenttype": "application/json",
        "data": {"n": 1},
        "tenant": "blue",
        "count": 3,
        "functorysenderid": "a",
        "functoryroot": id_,
        "functorydepth": 0,
    }


def test_patterns_conditions_and_inputs_see_the_attributes(world: World) -> None:
    world.function(parameters="tenant")
    world.trigger(
        "blue",
        "work",
        {"type": ["order.created"], "tenant": ["blue"]},
        when='event.functorysenderid.startsWith("a")',
        input={"tenant": "{{ event.tenant }}"},
    )
    inbox = Inbox(world.database, 1024)
    inbox.ingest([sent("a", tenant="blue"), sent("b", tenant="blue"), sent("a2", tenant="red"), sent("a3")])
    assert world.route() == [("blue", None)]
    (execution,) = world.rows(schema.execution)
    assert execution["input"] == {"tenant": "blue"}


def test_a_batch_with_one_wrong_event_writes_nothing(world: World) -> None:
    with pytest.raises(Invalid, match="too large"):
        Inbox(world.database, 100).ingest([sent("a"), sent("b", data="x" * 100)])
    assert orders(world) == []


def test_the_events_of_a_batch_have_ids_in_its_order(world: World) -> None:
    given = [sent(f"e{number}", subject="s") for number in range(20)]
    ids = [id_ for id_, _ in Inbox(world.database, 1024).ingest(given)]
    assert ids == sorted(ids)


def test_many_senders_of_the_same_events_write_each_once(
    world: World, make_world: Callable[..., World]
) -> None:
    inboxes = [Inbox(world.database, 1024), Inbox(make_world().database, 1024)]
    all_ = [sent(f"e{n}") for n in range(30)]

    def bring(number: int) -> list[tuple[str, bool]]:
        batch = all_ if number % 3 else all_[::-1]
        if number % 4 == 0:
            return [inboxes[number % 2].ingest([one])[0] for one in batch]
        return inboxes[number % 2].ingest(batch)

    with ThreadPoolExecutor(8) as pool:
        answers = [one for part in pool.map(bring, range(16)) for one in part]
    written = {row["id"] for row in orders(world)}
    assert len(written) == 30
    assert {id_ for id_, _ in answers} == written
    assert sum(not known for _, known in answers) == 30
    assert {row["event_id"] for row in world.rows(schema.routing_queue)} >= written


def test_an_old_event_is_new_to_the_broker(world: World) -> None:
    Inbox(world.database, 1024).ingest([sent("a", time="2001-01-01T00:00:00Z")])
    world.router.publish_with(OutboxOnly())
    world.route()
    (waiting,) = world.rows(schema.outbox)
    assert waiting["time"] == world.clock.now()
