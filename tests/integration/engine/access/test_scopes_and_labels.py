"""Scopes by label: what a caller with labels finds in each table, on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functory.engine.access import scopes
from functory.engine.access.labels import Labels
from functory.engine.database import schema
from functory.engine.errors import Invalid, NotFound, Refused
from functory.engine.maintenance import invariants

if TYPE_CHECKING:
    from tests.support.world import World

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def labels(world: World) -> Labels:
    return Labels(world.database)


def functions(world: World, scope: scopes.Scope) -> list[str]:
    with world.database.read() as tx:
        rows = tx.rows(sa.select(schema.function.c.name).where(*scopes.functions(scope)))
    return sorted(row["name"] for row in rows)


def test_a_scope_has_what_has_one_of_its_labels_and_no_other_label_like_it(
    world: World, labels: Labels
) -> None:
    for name in ("bill", "mail", "none"):
        world.function(name)
    labels.function("bill", ["team:a_b", "red"])
    labels.function("mail", ["team:axb", "blue"])
    assert functions(world, None) == ["bill", "mail", "none"]
    assert functions(world, ["team:a_b"]) == ["bill"]
    assert functions(world, ["red", "blue"]) == ["bill", "mail"]
    for nothing in ([], ["team"], ["green"], ["a_b"]):
        assert functions(world, nothing) == []


def test_executions_and_events_are_seen_by_the_labels_of_their_functions(
    world: World, labels: Labels
) -> None:
    for name in ("bill", "mail"):
        world.function(name)
        labels.function(name, [name])
    world.trigger("on-order", function="mail", on={"type": ["order.created"]})
    started = {"bill": world.start("bill")["id"]}
    world.events.emit("order.created", {"n": 1})
    world.events.emit("order.paid", {"n": 2})
    world.run_all()
    (mailed,) = world.rows(schema.execution, schema.execution.c.function == "mail")
    started["mail"] = mailed["id"]

    def seen(scope: scopes.Scope) -> tuple[set[str], set[tuple[str, str | None]]]:
        columns = schema.event.c.type, schema.event.c.cause_execution_id
        with world.database.read() as tx:
            ids = tx.rows(sa.select(schema.execution.c.id).where(*scopes.executions(scope)))
            events = tx.rows(sa.select(*columns).where(*scopes.events(scope)))
        return {row["id"] for row in ids}, {(row["type"], row["cause_execution_id"]) for row in events}

    everything = seen(None)[1]
    assert seen(None)[0] == set(started.values())
    own = {name: {pair for pair in everything if pair[1] == id_} for name, id_ in started.items()}
    assert all(own.values())
    assert seen(["bill"]) == ({started["bill"]}, own["bill"])
    # Also the event that started the execution; not the one that started nothing.
    assert seen(["mail"]) == ({started["mail"]}, own["mail"] | {("order.created", None)})
    assert seen(["green"]) == (set(), set())
    # A label that is taken away hides the past as well.
    labels.function("bill", remove=["bill"])
    assert seen(["bill"]) == (set(), set())


def test_a_caller_with_labels_gives_and_takes_its_own_only(world: World, labels: Labels) -> None:
    world.function("bill")
    with pytest.raises(NotFound):
        labels.function("bill", ["red"], scope=["red"])
    labels.function("bill", ["red", "blue"])
    with pytest.raises(Refused, match="the label green is not yours"):
        labels.function("bill", ["green"], scope=["red"])
    with pytest.raises(Refused, match="the label blue is not yours"):
        labels.function("bill", remove=["blue"], scope=["red"])
    with pytest.raises(Refused, match="you would not see it any more"):
        labels.function("bill", remove=["red"], scope=["red"])
    assert labels.function("bill", ["pink"], ["red"], scope=["red", "pink"]) == ["blue", "pink"]


def test_a_change_of_labels_is_in_the_audit_once(world: World, labels: Labels) -> None:
    world.function("bill")
    labels.function("bill", ["red"], author="ada")
    labels.function("bill", ["red"], author="ada")
    (entry,) = world.rows(schema.audit, schema.audit.c.action == "function.label")
    assert (entry["author"], entry["data"]) == ("ada", {"before": [], "after": ["red"]})
    assert entry["before_sha256"] != entry["after_sha256"]


def test_a_change_of_labels_is_no_change_without_its_event(world: World, labels: Labels) -> None:
    world.function("bill")
    world.trigger("on-order", function="bill", on={"type": ["order.created"]})
    world.advance(60)
    labels.function("bill", ["red"], author="ada")
    labels.trigger("on-order", ["red"], author="ada")
    found = invariants.verify(world.database, world.settings)
    assert [one for one in found if one.count] == []


@pytest.mark.parametrize("label", ["", "A", "a b", 'a"b', "%", "é", "a" * 65, "-a", None, 7])
def test_a_text_that_is_no_label_is_refused_everywhere(label: object) -> None:
    with pytest.raises(Invalid, match="is not a label"):
        scopes.check_labels([label])  # type: ignore[list-item]
    with pytest.raises(Invalid, match="is not a label"):
        scopes.functions([label])  # type: ignore[list-item]


_LABEL = st.from_regex(r"[a-z0-9][a-z0-9_.:/-]{0,8}", fullmatch=True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stored=st.lists(_LABEL, max_size=4), scope=st.lists(_LABEL, max_size=3))
def test_the_condition_is_the_intersection_of_the_two_lists(
    world: World, stored: list[str], scope: list[str]
) -> None:
    with world.database.write() as tx:
        tx.execute(sa.delete(schema.function))
        row = {"id": tx.new_id(), "name": "f", "state": "enabled", "latest": 1, "labels": stored}
        tx.insert(schema.function, [row | {"created_at": tx.now, "updated_at": tx.now}])
    assert functions(world, scope) == (["f"] if set(stored) & set(scope) else [])
