"""Chains that are no fault: what the options promise really runs, and limits that would do nothing are refused."""

from __future__ import annotations

import json

import pytest

from functory.client.functory import Functory
from functory.engine.database import schema
from functory.engine.errors import Conflict, Invalid
from functory.engine.events.causation import MAX_LINKS
from functory.engine.executions.claims import Claim
from tests.support.world import World, embedded, on_sqlite

pytest_plugins = ["tests.support.world"]

PAGE = (
    "def fetch(event):\n    from functory import emit\n    n = event['data']['n']\n"
    "    emit('page.wanted', {'n': n + 1}, subject='feed')\n"
)
WANTED = {"type": ["page.wanted"]}


def hop(name: str, to: str) -> str:
    """A function that emits one event of a type."""
    return f"def {name}(event):\n    from functory import emit\n    emit('{to}', {{}}, subject='ball')\n"


@pytest.fixture
def deep(tmp_path):
    with embedded(tmp_path, max_depth=100) as opened:
        yield opened


def test_limits_above_the_settings_are_refused_with_what_to_change(engine: Functory) -> None:
    engine.functions.save(PAGE)
    for guards, said in (
        ({"max_depth": 17}, "max_depth 17 .* would have no effect.*FUNCTORY_MAX_DEPTH is 16"),
        ({"budget": 1001}, "budget 1001 .* would have no effect.*FUNCTORY_ROOT_BUDGET is 1000"),
        (
            {"allow_self": True, "acknowledge_cycle": 40},
            "acknowledge_cycle 40 .* cannot be reached.*let the operator raise FUNCTORY_MAX_DEPTH to 40",
        ),
    ):
        with pytest.raises(Invalid, match=f"(?s){said}"):
            engine.register_trigger("pages", on=WANTED, function="fetch", guards=guards)
    engine.register_trigger(
        "pages",
        on=WANTED,
        function="fetch",
        guards={"allow_self": True, "acknowledge_cycle": 16, "max_depth": 16},
    )


def test_a_cycle_of_two_names_both_triggers_and_the_depth_that_its_rounds_need(deep: Functory) -> None:
    deep.functions.save(hop("ping", "pong"))
    deep.functions.save(hop("pong", "ping"))
    deep.register_trigger("on-ping", on={"type": ["ping"]}, function="ping")
    with pytest.raises(Conflict, match=r"(?s)on-pong closes a cycle.*also in on-ping"):
        deep.register_trigger("on-pong", on={"type": ["pong"]}, function="pong")
    with pytest.raises(
        Conflict, match=r"(?s)accepts 3 rounds .* on-ping stops it after 1.*first give on-ping"
    ):
        deep.register_trigger(
            "on-pong", on={"type": ["pong"]}, function="pong", guards={"acknowledge_cycle": 3}
        )
    with pytest.raises(Invalid, match=r"(?s)51 rounds of 2 executions each .*give at most 50"):
        deep.register_trigger(
            "on-pong", on={"type": ["pong"]}, function="pong", guards={"acknowledge_cycle": 51}
        )
    deep.register_trigger("on-ping", on={"type": ["ping"]}, function="ping", guards={"acknowledge_cycle": 3})
    deep.register_trigger("on-pong", on={"type": ["pong"]}, function="pong", guards={"acknowledge_cycle": 3})


def pages(world: World, count: int) -> str:
    """Play a function that emits an event for the next page, `count` times. Returns the root."""
    world.function("fetch")
    guards = {"allow_self": True, "acknowledge_cycle": count}
    world.trigger("pages", "fetch", WANTED, guards=guards)

    def act(claim: Claim) -> None:
        world.events.emit("page.wanted", {"n": claim.row.depth + 1}, subject="feed", cause=claim.cause)

    root = world.events.emit("page.wanted", {"n": 1}, subject="feed")
    ran = 0
    # Not World.route, which reads all firings each time.
    for _ in range(count + 2):
        while world.router.route_batch().events:
            pass
        ran += world.work(act)
    assert ran == count
    return root


def test_a_pagination_over_forty_pages_runs_forty_times(make_world) -> None:
    world = make_world(max_depth=40)
    pages(world, 40)
    (stopped,) = world.rows(schema.suppression)
    assert (stopped["reason"], stopped["count"]) == ("cycle", 1)


@on_sqlite
def test_a_chain_of_a_thousand_keeps_its_rows_small_and_its_count_exact(make_world) -> None:
    world = make_world(max_depth=1000)
    root = pages(world, 1000)
    (stopped,) = world.rows(schema.suppression)
    assert (stopped["reason"], stopped["count"]) == ("cycle", 1)
    rows = world.rows(schema.execution)
    assert max(row["depth"] for row in rows) == 1000
    assert max(len(row["chain"]) for row in rows) == MAX_LINKS
    deepest = max(len(json.dumps(row["chain"])) for row in rows)
    assert deepest < 16_384, "the chain of one row"
    assert sum(1 for node in world.lineage.tree(root).nodes[0].walk() if node.kind == "execution") > 900
