"""Rates of what queues, folders, tables and plug-ins bring without lineage. On both databases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.events import store as event_store
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

TYPES = ["queue.received", "mail.received", "file.modified", "row.updated", "schedule.fired", "thing.sent"]


def arrive(world: World, type_: str, source: str, *arrivals: tuple[str, Any]) -> None:
    """Events of a source, each with its subject and data, as sources write them."""
    with world.database.write() as tx:
        rows = [event_store.record(tx, type_, about, data, source=source) for about, data in arrivals]
        event_store.append(tx, rows)


def decided(world: World) -> Mapping[str, int]:
    return Counter(reason or "fired" for _, reason in world.route())


@pytest.fixture
def heard(world: World) -> World:
    """A trigger that takes everything, with the limits of the settings for what comes again."""
    world.function("work")
    world.trigger("t", "work", {"type": TYPES}, guards={"source_rate": 100})
    return world


@pytest.mark.parametrize("source", ["queue/in", "imap/inbox", "file/in", "table/shop", "ours/x"])
def test_every_kind_of_source_has_a_rate_with_a_breaker(world: World, source: str) -> None:
    world.function("work")
    world.trigger("t", "work", {"type": TYPES}, guards={"source_rate": 3})
    arrive(world, "mail.received", f"/functory/{source}", *((f"s{n}", n) for n in range(10)))
    assert decided(world) == {"fired": 3, "source_rate": 5, "breaker_open": 2}
    details = {row["detail"] for row in world.rows(schema.firing) if row["reason"] == "source_rate"}
    assert details == {f"more than 3 a minute from /functory/{source}"}


@pytest.mark.parametrize(("type_", "source"), [
    ("schedule.fired", "/functory/schedule/daily"),
    ("thing.sent", "/functory/api"),
    ("thing.sent", "/functory/cli"),
    ("thing.sent", "/functory/functions/f"),
])  # fmt: skip
def test_schedules_and_the_engine_s_own_interfaces_have_no_such_rates(
    heard: World, type_: str, source: str
) -> None:
    arrive(heard, type_, source, *[("s", {"n": 1})] * 120)
    assert decided(heard) == {"fired": 120}


@pytest.mark.parametrize(("type_", "source", "thing"), [
    ("row.updated", "/functory/table/shop", "row"),
    ("file.modified", "/functory/file/in", "file"),
])  # fmt: skip
def test_the_same_row_or_file_counts_whatever_is_in_it(
    heard: World, type_: str, source: str, thing: str
) -> None:
    arrive(heard, type_, source, *(("shop/1", {"n": n}) for n in range(70)))
    arrive(heard, type_, source, *((f"shop/{n}", {"n": n}) for n in range(2, 32)))
    assert decided(heard) == {"fired": 60 + 30, "repeat_rate": 10}, "and the others go on"
    details = {row["detail"] for row in heard.rows(schema.firing) if row["reason"] == "repeat_rate"}
    assert details == {f"more than 60 a minute of the same {thing} from {source}"}


def test_a_function_that_changes_its_own_row_ends(heard: World) -> None:
    """Each turn writes the row again, a tenth of a second after the one before."""
    turns = 0
    while turns < 500:
        arrive(heard, "row.updated", "/functory/table/shop", ("shop/1", {"n": turns}))
        if decided(heard) != {"fired": 1}:
            break
        turns += 1
        heard.advance(0.1)
    assert turns == 66, "60, and one more for each second that it ran"


def test_copies_of_a_message_differ_only_in_their_headers_and_properties(heard: World) -> None:
    def message(n: int, body: int) -> tuple[str, Any]:
        data = {"queue": "in", "headers": {"n": n}, "properties": {"message_id": str(n)}, "body": body}
        return "in", data

    arrive(heard, "queue.received", "/functory/queue/in", *(message(n, 1) for n in range(70)))
    arrive(heard, "queue.received", "/functory/queue/in", *(message(n, n) for n in range(2, 12)))
    assert decided(heard) == {"fired": 60 + 10, "repeat_rate": 10}
