"""Trees in parts: outlines, children and counts, read from the database."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from functory.engine.access.labels import Labels
from functory.engine.database import schema as t
from functory.engine.errors import NotFound
from functory.engine.executions import root_budget, tree_reads, tree_shape
from functory.engine.executions.outline import EQUAL_SIBLINGS
from tests.support.orders import ORDER
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def shop(world: World) -> World:
    """An order starts a bill; a bill emits a letter, which starts a post."""
    for name in ("bill", "post"):
        world.function(name, limits={"retries": 0})
    world.trigger("on-order", "bill", ORDER)
    world.trigger("on-letter", "post", {"type": ["letter.written"]})
    return world


def one_order(shop: World) -> tuple[str, str, str, str]:
    """Return the order, the bill, the letter and the failed post."""
    order = shop.events.emit("order.created", {"n": 1}, subject="order 1")
    shop.route()
    (bill,) = shop.executions.list(function="bill")
    claim = shop.claim(bill)
    letter = shop.events.emit("letter.written", {}, subject="letter 1", cause=claim.cause)
    shop.advance(3)
    shop.finish(claim)
    shop.route()
    (post,) = shop.executions.list(function="post")
    shop.finish(shop.claim(post), "failed")
    shop.route()
    return order, bill["id"], letter, post["id"]


def outline(world: World, id_: str, **more: Any) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in tree_reads.outline(world.database, id_, **more)["nodes"]}


def test_an_outline_has_events_and_executions_below_what_caused_them(shop: World) -> None:
    order, bill, letter, post = one_order(shop)
    for asked in (order, bill, letter, post):
        nodes = outline(shop, asked)
        assert {id_: row["parent"] for id_, row in nodes.items()} == {
            order: None,
            bill: order,
            letter: bill,
            post: letter,
        }
    assert (nodes[order]["kind"], nodes[order]["name"], nodes[order]["about"]) == (
        "event",
        "order.created",
        "order 1",
    )
    assert (nodes[bill]["trigger"], nodes[bill]["run_seconds"], nodes[bill]["version"]) == (
        "on-order",
        3.0,
        1,
    )
    assert (nodes[post]["state"], nodes[post]["error_type"]) == ("failed", "ValueError")


def test_a_part_of_a_tree_has_the_way_to_it_and_what_is_left_out(shop: World) -> None:
    order, bill, letter, post = one_order(shop)
    found = tree_reads.outline(shop.database, order, at=letter)
    assert [row["id"] for row in found["path"]] == [order, bill]
    assert [row["id"] for row in found["nodes"]] == [letter, post]
    assert found["total"] == 4 and found["truncated"] is False
    cut = outline(shop, order, limit=2)
    assert list(cut) == [order, bill]
    assert (cut[bill]["children"], cut[bill]["left_out"], cut[bill]["worst"]) == (1, 1, "failed")
    other = shop.events.emit("order.paid")
    with pytest.raises(NotFound, match="not in the tree"):
        tree_reads.outline(shop.database, order, at=other)
    with pytest.raises(NotFound):
        tree_reads.outline(shop.database, shop.database.new_id())


def test_a_suppressed_match_is_a_node_with_its_reason(shop: World) -> None:
    shop.triggers.pause("on-letter")
    order = shop.events.emit("letter.written")
    shop.route()
    nodes = list(outline(shop, order).values())
    assert [(row["kind"], row["name"], row["state"], row["reason"]) for row in nodes[1:]] == [
        ("suppressed", "on-letter", "suppressed", "trigger_paused")
    ]
    assert tree_reads.summary(shop.database, order)["suppressed"] == [
        {"trigger": "on-letter", "reason": "trigger_paused", "count": 1}
    ]


def test_the_counts_of_a_tree_name_what_it_touched(shop: World) -> None:
    order, *_ = one_order(shop)
    found = tree_reads.summary(shop.database, order)
    assert (found["executions"], found["events"], found["states"]) == (2, 2, {"succeeded": 1, "failed": 1})
    assert found["event_types"] == {"order.created": 1, "letter.written": 1}
    assert found["triggers"] == ["on-letter", "on-order"]
    assert {(one["function"], one["failures"]) for one in found["functions"]} == {("bill", 0), ("post", 1)}
    assert found["budget"]["used"] == 2
    assert root_budget.change(shop.database, order, 7, author="ada") == {"used": 2, "maximum": 7}
    (entry,) = shop.rows(t.audit, t.audit.c.action == "budget.raise")
    assert (entry["author"], entry["subject"], entry["data"]) == ("ada", order, {"maximum": 7})


def test_a_caller_with_labels_sees_only_its_part_of_a_tree(shop: World) -> None:
    order, bill, letter, post = one_order(shop)
    Labels(shop.database).function("post", add=["team:post"])
    assert list(outline(shop, post, scope=["team:post"])) == [letter, post]
    found = tree_reads.summary(shop.database, order, ["team:post"])
    assert [one["function"] for one in found["functions"]] == ["post"]
    for hidden in (order, bill):
        with pytest.raises(NotFound):
            tree_reads.outline(shop.database, hidden, scope=["team:post"])


def _fan_out(world: World, number: int) -> tuple[str, list[str]]:
    """Write a tree of one execution and many children, with the events that report about them."""
    root = world.start("bill")
    like = world.executions.get(root["id"])
    ids: list[str] = []
    with world.database.write() as tx:
        rows, events = [], []
        for n in range(number):
            id_ = tx.new_id()
            rows.append(
                like
                | {
                    "id": id_,
                    "parent_id": root["id"] if n % 2 else (ids[n // 3] if ids else root["id"]),
                    "cause": "parent",
                    "depth": 1,
                    "state": "succeeded",
                    "started_at": tx.now,
                    "finished_at": tx.now + timedelta(seconds=n % 5),
                }
            )
            ids.append(id_)
            for kind in ("started", "succeeded"):
                event = {
                    "source": "/",
                    "subject": "bill",
                    "time": tx.now,
                    "data": {},
                    "chain": [],
                    "depth": 1,
                }
                event |= {
                    "id": tx.new_id(),
                    "type": f"execution.{kind}",
                    "state": "routed",
                    "route_attempts": 0,
                }
                events.append(event | {"root_id": root["id"], "cause_execution_id": id_})
        for start in range(0, len(events), 500):
            tx.insert(t.execution, rows[start : start + 500])
            tx.insert(t.event, events[start : start + 500])
    return root["id"], ids


def test_an_outline_of_five_thousand_nodes_has_two_hundred_rows(shop: World) -> None:
    root, _ = _fan_out(shop, 5000)
    found = tree_reads.outline(shop.database, root)
    assert (found["total"], found["truncated"]) == (5001, False)
    assert len(found["nodes"]) <= 200
    (group,) = [row for row in found["nodes"] if row["kind"] == "group" and row["parent"] == root]
    assert group["median_seconds"] == 2.0 or group["median_seconds"] is not None
    first, following = tree_reads.children(shop.database, root, of=group["id"], limit=1000)
    members = [row["id"] for row in first]
    while following is not None:
        more, following = tree_reads.children(
            shop.database, root, of=group["id"], after=following, limit=1000
        )
        members += [row["id"] for row in more]
    assert len(members) == len(set(members)) == group["count"]
    whole, _ = tree_reads.children(shop.database, root, of=root, limit=10_000)
    assert [row["id"] for row in whole][EQUAL_SIBLINGS:] == members


@pytest.fixture
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_shape, "MAX_ROWS", 100)


@pytest.mark.usefixtures("small_reads")
def test_each_execution_of_a_tree_that_is_too_large_has_its_own_part(shop: World) -> None:
    root, ids = _fan_out(shop, 150)
    late = ids[-1]
    shop.triggers.pause("on-letter")
    letter = _caused(shop, "letter.written", late)
    order = _caused(shop, "order.created", late)
    shop.route()
    (bill,) = [row for row in shop.executions.list(function="bill") if row["event_id"] == order]

    whole = tree_reads.outline(shop.database, root, limit=1000)
    assert whole["truncated"] and whole["total"] <= 3 * 100
    assert late not in {row["id"] for row in whole["nodes"]}
    found = tree_reads.outline(shop.database, root, at=late)
    nodes = {row["id"]: row for row in found["nodes"]}
    assert {row["name"]: row["parent"] for row in nodes.values()} == {
        "bill": nodes[bill["id"]]["parent"],
        "letter.written": late,
        "order.created": late,
        "on-letter": letter,
    }
    assert nodes[bill["id"]]["parent"] == order
    assert (nodes[late]["children"], nodes[late]["left_out"]) == (2, 0)
    assert not found["truncated"]
    # Children of the nodes above are counted, not read.
    above = found["path"][-1]
    children, _ = tree_reads.children(shop.database, root, of=above["id"], limit=1000)
    assert above["children"] == len(children)
    assert late in {row["id"] for row in children}
    (event,) = tree_reads.outline(shop.database, root, at=bill["id"])["path"][-1:]
    assert (event["id"], event["children"]) == (order, 1)


@pytest.mark.usefixtures("small_reads")
def test_a_group_of_a_tree_that_is_too_large_has_its_members(shop: World) -> None:
    root, ids = _fan_out(shop, 150)
    middle = ids[20]
    with shop.database.write() as tx:
        tx.execute(t.execution.update().where(t.execution.c.id.in_(ids[-30:])).values(parent_id=middle))
    nodes = tree_reads.outline(shop.database, root, at=middle)["nodes"]
    (group,) = [row for row in nodes if row["kind"] == "group"]
    members, following = tree_reads.children(shop.database, root, of=group["id"], limit=1000)
    assert following is None
    assert len(members) == group["count"] >= 30 - EQUAL_SIBLINGS
    assert {row["id"] for row in members} <= set(ids)


@pytest.mark.usefixtures("small_reads")
def test_a_part_of_a_large_tree_that_is_too_large_says_so_and_shows_only_what_the_caller_sees(
    shop: World,
) -> None:
    root, ids = _fan_out(shop, 150)
    assert tree_reads.outline(shop.database, root, at=root)["truncated"]
    Labels(shop.database).function("post", add=["team:post"])
    with pytest.raises(NotFound):
        tree_reads.outline(shop.database, ids[-1], at=ids[-1], scope=["team:post"])
    letter = _caused(shop, "letter.written", ids[-1])
    shop.route()
    (post,) = shop.executions.list(function="post")
    found = tree_reads.outline(shop.database, post["id"], at=post["id"], scope=["team:post"])
    assert [row["id"] for row in found["path"]] == [letter]
    assert [row["id"] for row in found["nodes"]] == [post["id"]]


def _caused(world: World, type_: str, by: str) -> str:
    """Emit an event that this execution has caused, though it has ended."""
    id_ = world.events.emit(type_)
    row = world.executions.get(by)
    with world.database.write() as tx:
        values = {"cause_execution_id": by, "root_id": row["root_id"], "depth": row["depth"]}
        tx.execute(t.event.update().where(t.event.c.id == id_).values(values))
    return id_
