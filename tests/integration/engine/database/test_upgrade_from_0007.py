"""Schema 0008 fills the history of activations and the queues of events from the rows that are there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database import migrations, schema
from functory.engine.database.connection import Database
from functory.engine.database.packed_ids import unpack
from functory.engine.events import outbox, routing_queue
from functory.engine.events.store import Events
from functory.engine.functions.registry import Functions
from functory.engine.maintenance import invariants
from functory.engine.settings import Settings

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def database(empty_url: str) -> Iterator[Database]:
    """A database with the newest schema."""
    opened = Database(empty_url)
    migrations.upgrade(opened)
    yield opened
    opened.close()


def source(name: str, number: int) -> str:
    return f"def {name}():\n    return {number}\n"


def upgrade_again(database: Database) -> dict[str, list[dict[str, Any]]]:
    """Go back to the schema before and up again. Returns the activations of each function, the oldest first."""
    migrations.downgrade(database, "0007")
    migrations.upgrade(database)
    found: dict[str, list[dict[str, Any]]] = {}
    with database.read() as tx:
        for row in tx.rows(sa.select(schema.activation).order_by(schema.activation.c.id)):
            found.setdefault(row["function"], []).append(row)
    return found


def test_events_become_activations(database: Database) -> None:
    functions = Functions(database)
    for number in (1, 2):
        functions.save(source("work", number), author="ada")
    functions.save(source("work", 3), author="bob", activate=False)
    functions.activate("work", 1, author="bob")
    functions.disable("work", author="bob")
    functions.save(source("gone", 1))
    functions.delete("gone", author="ada")
    functions.save(source("never", 1), activate=False)

    found = upgrade_again(database)

    assert [(r["version"], r["previous"], r["reason"], r["author"]) for r in found["work"]] == [
        (1, None, "save", "ada"),
        (2, 1, "save", "ada"),
        (1, 2, "rollback", "bob"),
    ]
    assert [r["ended_by"] for r in found["work"]] == ["ada", "bob", None]
    assert [r["ended_at"] for r in found["work"]] == [*(r["at"] for r in found["work"][1:]), None]
    assert [(r["version"], r["ended_by"]) for r in found["gone"]] == [(1, "ada")]
    assert found["gone"][0]["ended_at"] is not None
    assert "never" not in found


def test_without_events_the_history_begins_at_the_last_change(database: Database) -> None:
    functions = Functions(database)
    for number in (1, 2):
        functions.save(source("work", number))
    with database.write() as tx:
        tx.execute(sa.delete(schema.outbox))
        tx.execute(sa.delete(schema.event))
        changed = tx.scalar(sa.select(schema.function.c.updated_at))

    (row,) = upgrade_again(database)["work"]

    assert (row["version"], row["previous"], row["reason"]) == (2, None, "restore")
    assert (row["at"], row["ended_at"]) == (changed, None)


def test_what_the_events_do_not_know_is_added(database: Database) -> None:
    functions = Functions(database)
    for number in (1, 2):
        functions.save(source("work", number))
    with database.write() as tx:
        newest = tx.scalar(sa.select(sa.func.max(sa.cast(schema.event.c.id, sa.Text))))
        tx.execute(sa.delete(schema.outbox))
        tx.execute(sa.delete(schema.event).where(sa.cast(schema.event.c.id, sa.Text) == newest))

    rows = upgrade_again(database)["work"]

    assert [(r["version"], r["previous"], r["reason"]) for r in rows] == [
        (1, None, "save"),
        (2, 1, "restore"),
    ]
    assert [r["ended_at"] is None for r in rows] == [False, True]


def rows_of(database: Database, statement: str) -> list[dict[str, Any]]:
    with database.read() as tx:
        return tx.rows(sa.text(statement))


def hex_of(id_: Any) -> str:
    return str(id_).replace("-", "")


def test_open_events_and_the_outbox_become_queues_and_back(database: Database, tmp_path: Any) -> None:
    events = Events(database)
    ids = {name: events.emit("order", {"n": name}) for name in ("routed", "new", "put off", "given up")}
    more = [events.emit("order", {"n": n}) for n in range(450)]
    with database.write() as tx:
        routing_queue.mark_routed(tx, [ids["routed"], *more])
        outbox.put(tx, [*more, ids["put off"]])
        for _ in range(routing_queue.MAX_ROUTE_ATTEMPTS - 1):
            routing_queue.mark_failed(tx, ids["put off"], "no")
        for _ in range(routing_queue.MAX_ROUTE_ATTEMPTS):
            routing_queue.mark_failed(tx, ids["given up"], "no")
        queue = tx.rows(sa.select(schema.routing_queue).order_by(schema.routing_queue.c.event_id))

    migrations.downgrade(database, "0007")

    waiting = rows_of(database, "SELECT event_id FROM outbox")
    # All but the one that was routed and published.
    expected = [*more, ids["new"], ids["put off"], ids["given up"]]
    assert sorted(hex_of(row["event_id"]) for row in waiting) == sorted(map(hex_of, expected))
    later = rows_of(database, "SELECT id FROM event WHERE route_after IS NOT NULL")
    assert [hex_of(row["id"]) for row in later] == [hex_of(ids["put off"])]

    migrations.upgrade(database)

    with database.read() as tx:
        again = tx.rows(sa.select(schema.routing_queue).order_by(schema.routing_queue.c.event_id))
        batches = tx.rows(sa.select(schema.outbox).order_by(schema.outbox.c.id))
    assert again == [row | {"published": True} for row in queue]
    assert [id_ for batch in batches for id_ in unpack(batch["event_ids"])] == sorted(expected)
    assert [batch["count"] for batch in batches] == [200, 200, 53]
    assert [batch["first_id"] for batch in batches] == [unpack(batch["event_ids"])[0] for batch in batches]
    assert {batch["claimed_until"] for batch in batches} == {None}
    settings = Settings(home=tmp_path, database_url=database.name)
    (found,) = invariants.verify(database, settings, only=["I1"])
    assert found.count == 0, found.examples
    with database.write() as tx:
        taken = routing_queue.take_pending(tx, 1)
        assert ([row["id"] for row in taken.events], taken.unpublished) == ([ids["new"]], [])
        assert routing_queue.first_unrouted(tx) == ids["new"]
    assert events.release_all() == 1


def test_a_key_of_an_event_stays_unique(database: Database) -> None:
    events = Events(database)
    first = events.emit("order", dedup_key="k")
    migrations.downgrade(database, "0007")
    migrations.upgrade(database)
    assert events.emit("order", dedup_key="k") == first
    assert events.emit("order", dedup_key="other") != first
