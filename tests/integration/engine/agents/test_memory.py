"""Memories: stored once, found by their words, bounded, and forgotten wholly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functory import step
from functory.engine.agents import memory as memories
from functory.engine.agents import memory_fields
from functory.engine.agents.memory import Memory
from functory.engine.agents.memory_fields import SHARED, Origin, Place
from functory.engine.database import schema
from functory.engine.errors import Invalid, NotFound, Stale
from functory.engine.maintenance import tree_deletion
from functory.engine.maintenance.tree_deletion import RetentionLimits
from tests.support.aging_world import ids_of, prune, publish
from tests.support.runs import RunsWorld
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

DAY = 86_400.0


@pytest.fixture
def memory(world: World) -> Memory:
    return Memory(world.database)


def texts(rows: list[dict[str, Any]]) -> list[str]:
    return [row["text"] for row in rows]


def anywhere(world: World, text: str) -> list[str]:
    """Names of the tables that hold a text in any column."""
    return sorted({
        table.name
        for table in schema.metadata.sorted_tables
        for row in world.rows(table)
        if any(text in str(value) for value in row.values())
    })  # fmt: skip


def test_a_memory_is_stored_with_its_origin(world: World, memory: Memory) -> None:
    world.function("work")
    source = world.start("work")
    origin = Origin("function work v1", source["id"], None, untrusted=True)
    row = memory.add("Ada pays late", kind="lesson", importance=0.9, days=2, origin=origin)
    found = memory.get(row["id"])
    assert {name: found[name] for name in ("scope", "owner", "kind", "importance", "author", "untrusted")} == {
        "scope": "shared", "owner": "", "kind": "lesson", "importance": 0.9, "author": "function work v1",
        "untrusted": True,
    }  # fmt: skip
    assert found["source_execution_id"] == source["id"]
    assert (found["expires_at"] - found["created_at"]).total_seconds() == 2 * DAY


def test_the_event_and_the_audit_do_not_hold_the_text(world: World, memory: Memory) -> None:
    row = memory.add("Ada pays late", author="ada")
    memory.forget(row["id"], author="ada")
    added, forgotten = (one for one in world.rows(schema.event) if one["type"].startswith("memory."))
    assert added["type"] == "memory.added" and added["data"]["memory_id"] == row["id"]
    assert forgotten["data"]["reason"] == "asked" and forgotten["data"]["author"] == "ada"
    assert [one["action"] for one in world.rows(schema.audit)] == ["memory.add", "memory.forget"]
    assert anywhere(world, "Ada pays late") == []


def test_the_same_text_is_stored_once_and_becomes_more_important(world: World, memory: Memory) -> None:
    first = memory.add("Ada pays late", importance=0.5)
    again = memory.add("Ada pays late", importance=0.2)
    assert again["id"] == first["id"] and not again["added"]
    assert memory.get(first["id"])["importance"] == pytest.approx(0.55)
    assert len(world.rows(schema.memory)) == 1


def test_another_attempt_of_an_execution_learns_nothing_again(world: World, memory: Memory) -> None:
    world.function("work")
    origin = Origin("function work v1", world.start("work")["id"])
    memory.add("Ada pays late", origin=origin)
    assert memory.add("Ada pays late", origin=origin)["importance"] == memory_fields.USUAL_IMPORTANCE


def test_each_place_has_its_own(world: World, memory: Memory) -> None:
    runs = RunsWorld(world)
    id_ = runs.start()
    memory.add("tea is hot")
    memory.add("tea is hot", scope="agent", owner="solve")
    memory.add("tea is hot", scope="run", owner=id_)
    assert len(memory.search("tea")) == 3
    assert len(memory.search("tea", places=[Place("agent", "solve"), SHARED])) == 2
    assert [row["owner"] for row in memory.search("tea", scope="run")] == [id_]
    assert memory.search("tea", places=[Place("agent", "another")]) == memory.search("tea", places=[]) == []


def test_the_best_match_comes_first(memory: Memory) -> None:
    for text in ("Ada pays late, twice a year", "Invoices go out on Monday", "Tea is hot"):
        memory.add(text)
    assert texts(memory.search("late invoice")) == [
        "Invoices go out on Monday",
        "Ada pays late, twice a year",
    ]
    assert texts(memory.search("late invoice", 1)) == ["Invoices go out on Monday"]
    assert memory.search("nothing of it") == []


def test_a_search_reads_more_than_a_page_and_stops_at_its_bound(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from functory.engine.agents import memory_search

    monkeypatch.setattr(memory_search, "PAGE", 2)
    for number in range(5):
        memory.add(f"memory {number}")
    assert texts(memory.search("0")) == ["memory 0"]
    monkeypatch.setattr(memory_search, "MAX_TEXTS", 4)
    assert memory.search("0") == [] and texts(memory.search("1")) == ["memory 1"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"text": " "}, "a text that is not empty"),
        ({"text": "ü" * 8_193}, "16,386 bytes"),
        ({"text": 5}, "must be a text"),
        ({"kind": "rumour"}, "fact, episode, lesson"),
        ({"scope": "project"}, "run, agent, shared"),
        ({"scope": "agent"}, "is not named"),
        ({"scope": "shared", "owner": "x"}, "wrong owner"),
        ({"importance": 1.1}, "0 to 1"),
        ({"importance": True}, "0 to 1"),
        ({"days": 0}, "above 0"),
    ],
)
def test_what_cannot_be_stored(world: World, memory: Memory, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        given: dict[str, Any] = {"text": "tea"} | fields
        memory.add(**given)
    assert world.rows(schema.memory) == []


def test_the_owner_must_exist(world: World, memory: Memory) -> None:
    for scope, owner in (("agent", "missing"), ("run", world.database.new_id()), ("run", "no id")):
        with pytest.raises(NotFound):
            memory.add("tea", scope=scope, owner=owner)


def test_text_that_databases_cannot_store(memory: Memory) -> None:
    row = memory.add("a\x00b\ud800c")
    assert memory.get(row["id"])["text"] == "a\\x00b\\ud800c"
    assert not memory.add("a\x00b\ud800c")["added"]


def test_the_least_important_one_makes_room(
    world: World, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memories, "MAX_OWNED", 3)
    for text, importance in (("a", 0.9), ("b", 0.1), ("c", 0.1), ("d", 0.5)):
        memory.add(text, importance=importance)
    assert sorted(texts(memory.list())) == ["a", "c", "d"]
    (event,) = (one for one in world.rows(schema.event) if one["type"] == "memory.forgotten")
    assert event["data"]["reason"] == "full" and event["data"]["importance"] == 0.1
    # Another owner has room of its own.
    RunsWorld(world)
    memory.add("e", scope="agent", owner="solve")
    assert len(memory.list()) == 4


def test_what_a_person_has_written_makes_room_last(
    world: World, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memories, "MAX_OWNED", 2)
    memory.add("of a person", importance=0.0)
    for text in ("first of code", "second of code"):
        memory.add(text, importance=1.0, origin=Origin("f", world.database.new_id()))
    assert sorted(texts(memory.list())) == ["of a person", "second of code"]


def test_a_place_names_what_may_be_forgotten(memory: Memory) -> None:
    row = memory.add("tea")
    with pytest.raises(NotFound):
        memory.forget(row["id"], places=[Place("agent", "solve")])
    assert memory.forget(row["id"], places=[SHARED])["text"] == "tea"
    with pytest.raises(NotFound):
        memory.forget(row["id"])


def test_all_of_an_execution_or_a_run_is_forgotten(
    world: World, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memories, "PAGE", 2)
    poisoned, other, its_run = (world.database.new_id() for _ in range(3))
    for number in range(5):
        memory.add(f"poison {number}", origin=Origin("f", poisoned, its_run))
    memory.add("of another step", origin=Origin("f", other, its_run))
    memory.add("good")
    assert memory.forget_source(execution=poisoned, author="ada") == 5
    assert sorted(texts(memory.list())) == ["good", "of another step"]
    assert memory.forget_source(run_id=its_run, author="ada") == 1
    assert anywhere(world, "poison ") == anywhere(world, "of another") == []
    reasons = [
        one["data"].get("reason") for one in world.rows(schema.event) if one["type"] == "memory.forgotten"
    ]
    assert reasons == ["source"] * 6
    with pytest.raises(Invalid):
        memory.forget_source()


def test_an_attempt_that_lost_its_execution_writes_nothing(world: World, memory: Memory) -> None:
    world.function("work")
    claim = world.claim(world.start("work"))
    row = memory.add("tea", origin=Origin("f", claim.id), cause=claim.cause)
    lost = replace(claim.cause, fence=claim.cause.fence + 1)
    with pytest.raises(Stale):
        memory.add("coffee", cause=lost)
    with pytest.raises(Stale):
        memory.forget(row["id"], cause=lost)
    assert texts(memory.list()) == ["tea"]
    # What code writes belongs to its tree, and fills no audit.
    (event,) = (one for one in world.rows(schema.event) if one["type"] == "memory.added")
    assert (
        event["root_id"] == claim.cause.root_id
        and world.rows(schema.audit, schema.audit.c.action.like("mem%")) == []
    )


def test_memories_end_at_their_time(world: World, memory: Memory) -> None:
    memory.add("short", days=1)
    memory.add("long", days=3)
    memory.add("for ever")
    world.advance(2 * DAY)
    assert sorted(texts(memory.list())) == ["for ever", "long"] and memory.search("short") == []
    going, _ = tree_deletion.preview(world.database, RetentionLimits())
    assert going["memory"] == 1
    assert [dict(gone) for gone in tree_deletion.prune(world.database, RetentionLimits())] == [{"memory": 1}]
    assert anywhere(world, "short") == []


def test_memories_of_a_run_go_with_it(world: World, memory: Memory) -> None:
    world.database.new_id = ids_of(world.database)
    runs = RunsWorld(world)
    id_ = runs.start()
    memory.add("only here", scope="run", owner=id_, origin=Origin("f", id_, id_))
    memory.add("for the agent", scope="agent", owner="solve", origin=Origin("f", id_, id_))
    runs.work(lambda memo, given: step.done("yes"))
    world.run_all()
    publish(world)
    world.advance(40 * DAY)
    assert prune(world)["memory"] == 1
    assert texts(memory.list()) == ["for the agent"]
