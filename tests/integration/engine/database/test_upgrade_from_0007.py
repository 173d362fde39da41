"""Schema 0008 fills the history of activations from the events that are still there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database import migrations, schema
from functory.engine.database.connection import Database
from functory.engine.functions.registry import Functions

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
