"""A failed execution shows the replay of it that succeeded."""

from __future__ import annotations

from typing import Any

import pytest

from functory.engine.executions import resolutions
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def run(world: World, row: dict[str, Any], outcome: str = "failed") -> str:
    """Run a queued execution to its end. Returns its id."""
    world.finish(world.claim(row), outcome)
    return row["id"]


def replay(world: World, id_: str, outcome: str = "failed") -> str:
    return run(world, world.executions.replay(id_), outcome)


def resolved(world: World) -> dict[str, str | None]:
    return {row["id"]: row["resolved_by"] for row in world.executions.list()}


@pytest.fixture
def failed(world: World) -> str:
    """An execution that has failed."""
    world.function("work", limits={"retries": 0})
    return run(world, world.start())


def test_a_failure_is_resolved_by_the_replay_that_succeeded(world: World, failed: str) -> None:
    open_ = world.executions.replay(failed)
    assert resolved(world) == {failed: None, open_["id"]: None}
    run(world, open_, "succeeded")
    assert resolved(world) == {failed: open_["id"], open_["id"]: None}
    assert world.lineage.cause(failed)["execution"]["resolved_by"] == open_["id"]
    (node,) = world.lineage.tree(failed).nodes
    assert node.row["resolved_by"] == node.as_json()["resolved_by"] == open_["id"]


def test_a_chain_of_retries_resolves_all_of_them(world: World, failed: str) -> None:
    second = replay(world, failed)
    third = replay(world, second, "timed_out")
    sibling = replay(world, failed)
    last = replay(world, third, "succeeded")
    assert resolved(world) == {failed: last, second: last, third: last, sibling: last, last: None}
    assert world.executions.list(unresolved=True) == []


def test_a_failure_after_the_success_is_unresolved(world: World, failed: str) -> None:
    success = replay(world, failed, "succeeded")
    later = replay(world, failed)
    assert resolved(world) == {failed: success, success: None, later: None}
    assert [row["id"] for row in world.executions.list(unresolved=True)] == [later]


def test_unresolved_lists_what_is_left_to_do(world: World, failed: str) -> None:
    other = run(world, world.start())
    replay(world, failed, "succeeded")
    cancelled = world.start()
    world.executions.cancel(cancelled["id"])
    world.function("fine")
    run(world, world.start("fine"), "succeeded")
    assert [row["id"] for row in world.executions.list(unresolved=True)] == [other]
    assert world.executions.list(unresolved=True, before=other) == []
    assert world.executions.list(unresolved=True, state="timed_out") == []
    assert world.executions.list(unresolved=True, function="fine") == []


def test_unresolved_reads_on_over_pages_of_what_is_resolved(
    world: World, failed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolutions, "_PAGE", 2)
    more = [run(world, world.start()) for _ in range(5)]
    for id_ in more[1:]:
        replay(world, id_, "succeeded")
    assert [row["id"] for row in world.executions.list(unresolved=True)] == [more[0], failed]
    assert [row["id"] for row in world.executions.list(unresolved=True, limit=1)] == [more[0]]
    assert sum(row["resolved_by"] is not None for row in world.executions.list()) == 4


def test_replays_are_looked_up_only_for_failures(world: World, failed: str) -> None:
    run(world, world.start(), "succeeded")
    with world.statements() as sent:
        world.executions.list(state="succeeded")
    assert len(sent) == 1
    with world.statements() as sent:
        world.executions.list()
    assert len(sent) == 2
