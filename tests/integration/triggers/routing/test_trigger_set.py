"""A router's trigger set follows the database by what changed, and by nothing else."""

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.firings import trigger_store
from functory.triggers.routing.trigger_set import TriggerSet

if TYPE_CHECKING:
    from tests.support.world import World

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def shop(world: "World") -> "World":
    """A world with three triggers."""
    world.function("work")
    for name in ("one", "two", "three"):
        world.trigger(name, "work", {"type": ["order.created"], "subject": [name]})
    return world


def refreshed(world: "World", known: TriggerSet) -> list[str]:
    """Refresh a set; the names of the triggers that were loaded for it."""
    with world.database.read() as tx:
        loaded = [row.name for row in trigger_store.changed_since(tx, known.version)]
        known.refresh(tx)
    return sorted(loaded)


def matching(known: TriggerSet, subject: str) -> list[str]:
    return [one.compiled.name for one in known.matching({"type": "order.created", "subject": subject})]


def test_only_what_changed_is_loaded(shop):
    known = TriggerSet()
    assert refreshed(shop, known) == ["one", "three", "two"]
    assert refreshed(shop, known) == []
    shop.trigger("two", "work", {"type": ["order.created"], "subject": ["one"]})
    shop.triggers.pause("three")
    assert refreshed(shop, known) == ["three", "two"]
    assert (matching(known, "one"), matching(known, "two")) == (["one", "two"], [])
    assert [
        one.compiled.row.state for one in known.matching({"type": "order.created", "subject": "three"})
    ] == ["paused"]


def test_a_deleted_trigger_matches_nothing_and_one_of_its_name_begins_anew(shop):
    known = TriggerSet()
    refreshed(shop, known)
    shop.triggers.delete("two")
    assert refreshed(shop, known) == ["two"]
    assert (matching(known, "two"), len(known)) == ([], 2)
    shop.trigger("two", "work", {"type": ["order.created"], "subject": ["2"]})
    assert refreshed(shop, known) == ["two"]
    assert (matching(known, "2"), len(known)) == (["two"], 3)


def test_a_save_that_changes_nothing_loads_nothing(shop):
    known = TriggerSet()
    refreshed(shop, known)
    shop.trigger("two", "work", {"type": ["order.created"], "subject": ["two"]})
    assert refreshed(shop, known) == []


def test_a_trigger_that_cannot_be_compiled_any_more_leaves_the_others_alone(shop):
    known = TriggerSet()
    refreshed(shop, known)
    shop.triggers.pause("two")
    with shop.database.write() as tx:
        tx.execute(
            sa.update(schema.trigger_version)
            .where(schema.trigger_version.c.trigger_id == shop.triggers.get("two")["id"])
            .values(
                definition={
                    "on": {},
                    "function": "work",
                    "when": None,
                    "input": None,
                    "pass": "event",
                    "guards": {},
                }
            )
        )
    refreshed(shop, known)
    assert (matching(known, "two"), matching(known, "one"), len(known)) == ([], ["one"], 2)
