"""Outlines of trees: what is shown, what is left out, and in what words."""

from __future__ import annotations

import time

from functory.engine.executions.outline import EQUAL_SIBLINGS, Outlines, TreeNode, without


def node(id_: str, parent: str | None = None, name: str = "work", state: str = "succeeded") -> TreeNode:
    return TreeNode("execution", id_, name, state, parent, seconds=1.0)


def shown(outlines: Outlines, at: str | None = None, budget: int = 200) -> list[str]:
    return [unit.node.id for unit in outlines.outline(at, budget)]


def test_the_levels_are_shown_one_after_the_other_until_the_budget_is_used() -> None:
    outlines = Outlines(
        [node("a"), node("b", "a", "x"), node("c", "a", "y"), node("d", "b"), node("e", "c"), node("f", "d")]
    )
    assert shown(outlines) == ["a", "b", "c", "d", "e", "f"]
    assert shown(outlines, budget=4) == ["a", "b", "c", "d"]
    assert shown(outlines, "b") == ["b", "d", "f"]
    assert [one.id for one in outlines.path("f")] == ["a", "b", "d"]


def test_what_is_left_out_is_counted_with_its_worst_state() -> None:
    nodes = [
        node("a"),
        node("b", "a"),
        node("c", "b"),
        node("d", "c", state="dead"),
        node("e", "c", state="failed"),
    ]
    top, below = Outlines(nodes).outline(None, 2)
    assert (top.children, top.left_out, top.worst) == (1, 0, None)
    assert (below.children, below.left_out, below.worst) == (1, 1, "dead")


def test_equal_siblings_beyond_the_first_are_one_group_and_others_are_not_in_it() -> None:
    nodes = [node("a"), *(node(f"b{n:03}", "a") for n in range(260)), node("c", "a", state="failed")]
    nodes += [node(f"z{n:03}", f"b{n:03}", "deep") for n in range(260)]
    nodes[-1].state = "timed_out"
    units = {unit.node.id: unit for unit in Outlines(nodes).outline(None, 200)}
    (group,) = [unit for unit in units.values() if unit.node.kind == "group"]
    assert group.count == 260 - EQUAL_SIBLINGS and group.worst == "timed_out"
    assert group.times() == {"min_seconds": 1.0, "median_seconds": 1.0, "max_seconds": 1.0}
    assert "c" in units and units["a"].left_out == 0
    members = Outlines(nodes).below(group.node.id)
    assert [one.node.id for one in members] == [f"b{n:03}" for n in range(EQUAL_SIBLINGS, 260)]
    assert all(one.left_out == one.children == 1 for one in members)


def test_one_sibling_more_than_the_first_ones_is_shown_as_itself() -> None:
    nodes = [node("a"), *(node(f"b{n:02}", "a") for n in range(EQUAL_SIBLINGS + 1))]
    assert all(unit.node.kind == "execution" for unit in Outlines(nodes).outline(None, 200))


def test_a_chain_of_thousands_needs_no_recursion_and_little_time() -> None:
    nodes = [node("n00000"), *(node(f"n{n:05}", f"n{n - 1:05}") for n in range(1, 20_000))]
    nodes[-1].state = "dead"
    began = time.process_time()
    units = Outlines(nodes).outline(None, 200)
    # It takes a part of a second; with work that grows by the square it would take minutes.
    assert time.process_time() - began < 20
    assert len(units) == 200 and units[-1].worst == "dead" and units[0].worst is None


def test_what_is_below_a_hidden_node_is_below_its_nearest_ancestor_that_stays() -> None:
    nodes = [node("a"), node("b", "a"), node("c", "b"), node("d", "c"), node("e", "a")]
    kept = without(nodes, {"b", "c"})
    assert {one.id: one.parent for one in kept} == {"a": None, "d": "a", "e": "a"}
    assert {one.id: one.parent for one in without([node("a"), node("b", "a")], {"a"})} == {"b": None}


def test_a_node_whose_parent_is_elsewhere_is_a_top() -> None:
    assert shown(Outlines([node("a", "gone"), node("b", "a")])) == ["a", "b"]
