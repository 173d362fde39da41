"""Suppressed matches in bulk: counted, started once each, also by two at once and after a failure in between."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from functory.engine.database import schema
from functory.engine.errors import NotFound
from functory.engine.firings import suppressed_matches
from functory.engine.firings.suppressed_matches import MatchFilter, Resumed, SuppressedMatches
from functory.engine.firings.suppressions import Suppressions
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

TICK = {"type": ["tick"]}


def resume(world: World, trigger: str | None = None, root_id: str | None = None) -> Resumed:
    return world.trigger_history().resume(
        trigger=trigger, root=root_id, reasons=(), dry_run=False, author="ada"
    )


def over_budget(world: World, count: int, *, budget: int = 2) -> str:
    """Suppress `count` matches of one root beyond its budget. Returns the root."""
    world.function()
    world.function("start")
    world.trigger("t", "work", TICK, guards={"budget": budget})
    claim = world.claim(world.start("start"))
    for n in range(count + budget):
        world.events.emit("tick", {"n": n}, subject=str(n), cause=claim.cause)
    world.finish(claim)
    world.route()
    return claim.row.root_id


def test_all_matches_of_a_root_that_its_budget_stopped_are_fired_once(world: World) -> None:
    root = over_budget(world, 5)
    matches = SuppressedMatches(world.database)
    assert matches.count(MatchFilter(root_id=root)) == {("t", "budget"): 5}
    done = resume(world, root_id=root)
    assert (done.counts, done.failed) == ({("t", "budget"): 5}, [])
    rows = world.rows(schema.execution, schema.execution.c.cause == "replay")
    assert sorted(next(iter(row["input"].values()))[0]["data"]["n"] for row in rows) == [2, 3, 4, 5, 6]
    assert {row["root_id"] for row in rows} == {root}
    assert resume(world, root_id=root).counts == matches.count(MatchFilter()) == {}
    assert [row["resumed"] for row in world.rows(schema.suppression)] == [5]
    (audited,) = [row for row in world.rows(schema.audit) if row["action"] == "firing.resume"]
    assert (audited["author"], audited["data"]) == ("ada", {"matches": 5})


def test_what_was_replayed_by_itself_is_not_resumed(world: World) -> None:
    root = over_budget(world, 3)
    event = world.rows(schema.firing, schema.firing.c.decision == "suppressed")[0]["event_id"]
    world.replay_suppressed("t", event)
    assert Suppressions(world.database).dropped(3600)[0]["count"] == 2
    assert resume(world, root_id=root).counts.total() == 2


def test_more_than_one_page_is_found_and_fired(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suppressed_matches, "BATCH", 7)
    root = over_budget(world, 30)
    assert len([row for page in SuppressedMatches(world.database).pages(MatchFilter()) for row in page]) == 30
    assert resume(world, root_id=root).counts.total() == 30
    assert Suppressions(world.database).dropped(3600) == []


def test_only_the_named_trigger_and_reasons_are_resumed(world: World) -> None:
    over_budget(world, 2)
    world.trigger("paused", "work", {"type": ["other"]})
    world.trigger("limited", "work", {"type": ["other"]}, flow={"rate_limit": {"limit": 1, "period": "1h"}})
    world.triggers.pause("paused")
    for n in range(3):
        world.events.emit("other", {"n": n})
    world.route()
    matches = SuppressedMatches(world.database)
    assert matches.count(MatchFilter(trigger="paused")) == {("paused", "trigger_paused"): 3}
    assert matches.count(MatchFilter(reasons=["budget"])) == {("t", "budget"): 2}
    assert matches.count(MatchFilter(reasons=["rate_limited"])) == {("limited", "rate_limited"): 2}
    assert ("limited", "rate_limited") not in matches.count(MatchFilter()), "it was meant to drop these"
    assert resume(world, trigger="paused").counts.total() == 3
    assert matches.count(MatchFilter()) == {("t", "budget"): 2}
    with pytest.raises(NotFound, match="does not exist"):
        matches.count(MatchFilter(trigger="nothing"))


def test_a_match_without_a_function_fails_and_the_others_go_on(world: World) -> None:
    over_budget(world, 2)
    world.function("gone")
    world.trigger("u", "gone", {"type": ["other"]})
    world.triggers.pause("u")
    world.events.emit("other", {})
    world.route()
    world.functions.delete("gone", force=True)
    done = resume(world)
    assert done.counts == {("t", "budget"): 2}
    assert (done.failed_count, done.failed[0]["trigger"]) == (1, "u")
    assert "function gone" in done.failed[0]["error"]


def test_two_operators_at_once_fire_each_match_once(
    make_world: Callable[..., World], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suppressed_matches, "BATCH", 5)
    over_budget(world, 40)
    others = [make_world(clock=world.clock) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(resume, others))
    assert sum(done.counts.total() for done in found) == 40
    assert len(world.rows(schema.execution, schema.execution.c.cause == "replay")) == 40
    assert [row["resumed"] for row in world.rows(schema.suppression)] == [40]
