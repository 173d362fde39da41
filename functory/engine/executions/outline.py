"""The outline of a causal tree: as many of its nodes as fit a page, breadth first, with what is left out in numbers.

Pure: :mod:`functory.engine.executions.tree_reads` reads the rows. All steps are linear in the size of the tree, and
none is recursive: a chain of events may be thousands deep.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["event", "execution", "suppressed", "joined", "group"]

# The number of equal siblings that are shown; the others are one group.
EQUAL_SIBLINGS = 12
# Nodes of a path.
MAX_PATH = 64

# The worse a state, the earlier it stands here.
_WORST_FIRST = (
    "dead", "failed", "timed_out", "quarantined", "suppressed", "running", "queued", "pending", "cancelled", "expired",
    "succeeded", "joined", "routed",
)  # fmt: skip
_RANK = {state: rank for rank, state in enumerate(_WORST_FIRST)}


@dataclass
class TreeNode:
    """A node of a tree with what an outline needs to place it; its page reads the rest.

    ``id`` of a suppressed or joined match is ``trigger:event``. ``seconds`` is how long an execution ran.
    """

    kind: Kind
    id: str
    name: str
    state: str
    parent: str | None
    seconds: float | None = None
    # Of a suppressed match its reason, of a joined one the execution that it leads to.
    reason: str | None = None
    execution_id: str | None = None
    trigger_id: str | None = None


@dataclass
class OutlineNode:
    """A node of an outline.

    ``children`` counts all direct children, ``left_out`` those that are not in the outline, alone or in a group;
    ``worst`` is the worst state of them and of what is below them. A group stands for ``count`` equal siblings.
    """

    node: TreeNode
    children: int
    left_out: int = 0
    worst: str | None = None
    count: int | None = None
    seconds: list[float] = field(default_factory=list)

    def times(self) -> dict[str, float | None]:
        """Return the shortest, the median and the longest run of a group."""
        if not self.seconds:
            return {"min_seconds": None, "median_seconds": None, "max_seconds": None}
        return {
            "min_seconds": min(self.seconds),
            "median_seconds": statistics.median(self.seconds),
            "max_seconds": max(self.seconds),
        }


class Outlines:
    """Outlines of one tree. ``nodes`` are in the order of their ids; a parent that is missing makes its child a top."""

    def __init__(self, nodes: Iterable[TreeNode]) -> None:
        self.nodes: dict[str, TreeNode] = {node.id: node for node in nodes}
        self.children: defaultdict[str | None, list[TreeNode]] = defaultdict(list)
        for node in self.nodes.values():
            self.children[node.parent if node.parent in self.nodes else None].append(node)
        for siblings in self.children.values():
            # What was stopped stands behind what happened.
            siblings.sort(key=lambda one: (one.kind in ("suppressed", "joined"), one.id))
        self._worst = self._worst_below()

    def path(self, id_: str, most: int = MAX_PATH) -> list[TreeNode]:
        """Return the nodes above a node, the top first; those nearest to it when there are more than ``most``."""
        found: list[TreeNode] = []
        at = self.nodes[id_].parent
        while at in self.nodes and len(found) < most:
            found.append(self.nodes[at])
            at = self.nodes[at].parent
        return found[::-1]

    def outline(self, at: str | None, budget: int) -> list[OutlineNode]:
        """Return up to about ``budget`` nodes: ``at`` (all tops for None) and what is below it, breadth first."""
        level = self._units([self.nodes[at]] if at is not None else self.children[None], at is not None)
        chosen: dict[str, OutlineNode] = {}
        while level and len(chosen) < budget:
            following: list[OutlineNode] = []
            for unit in level[: budget - len(chosen)]:
                chosen[unit.node.id] = unit
                if unit.count is None:
                    following += self._units(self.children.get(unit.node.id, ()))
            level = following
        for unit in chosen.values():
            self._count_left_out(unit, chosen)
        return list(chosen.values())

    def below(self, of: str) -> list[OutlineNode]:
        """Return the direct children of a node, or the members of a group, each for itself."""
        group = group_key(of)
        if group is None:
            siblings = self.children.get(of, [])
        else:
            parent, kind, name, state = group
            same = [
                one
                for one in self.children.get(parent, ())
                if (one.kind, one.name, one.state) == (kind, name, state)
            ]
            siblings = same[EQUAL_SIBLINGS:]
        units = [OutlineNode(one, len(self.children.get(one.id, ()))) for one in siblings]
        for unit in units:
            self._count_left_out(unit, {})
        return units

    def worst(self, nodes: Iterable[TreeNode]) -> str | None:
        """Return the worst state of these nodes and of all below them."""
        return _worst(self._worst[node.id] for node in nodes)

    def _units(self, siblings: Sequence[TreeNode], single: bool = False) -> list[OutlineNode]:
        """Return siblings as the units of an outline: those that are equal beyond the first few are one group."""
        equal: defaultdict[tuple[str, str, str], list[TreeNode]] = defaultdict(list)
        for one in siblings:
            equal[one.kind, one.name, one.state].append(one)
        units: list[OutlineNode] = []
        seen: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        for one in siblings:
            key = (one.kind, one.name, one.state)
            seen[key] += 1
            if single or seen[key] <= EQUAL_SIBLINGS or len(equal[key]) == EQUAL_SIBLINGS + 1:
                units.append(OutlineNode(one, len(self.children.get(one.id, ()))))
            elif seen[key] == EQUAL_SIBLINGS + 1:
                units.append(self._group(one.parent, key, equal[key][EQUAL_SIBLINGS:]))
        return units

    def _group(
        self, parent: str | None, key: tuple[str, str, str], members: Sequence[TreeNode]
    ) -> OutlineNode:
        _, name, state = key
        below = sum(len(self.children.get(one.id, ())) for one in members)
        group = TreeNode("group", ":".join(("group", parent or "", *key)), name, state, parent)
        seconds = [one.seconds for one in members if one.seconds is not None]
        return OutlineNode(group, below, below, self.worst(members), len(members), seconds)

    def _count_left_out(self, unit: OutlineNode, chosen: Mapping[str, OutlineNode]) -> None:
        if unit.count is not None:
            return
        out = [one for one in self.children.get(unit.node.id, ()) if one.id not in chosen]
        grouped = sum(
            group.count or 0
            for key in {(one.kind, one.name, one.state) for one in out}
            if (group := chosen.get(":".join(("group", unit.node.id, *key)))) is not None
        )
        unit.left_out = len(out) - grouped
        unit.worst = self.worst(out) if unit.left_out else None

    def _worst_below(self) -> dict[str, str]:
        """Return the worst state of each node and all below it: from the leaves to the tops."""
        order: list[TreeNode] = []
        waiting = list(self.children[None])
        while waiting:
            node = waiting.pop()
            order.append(node)
            waiting += self.children.get(node.id, ())
        found: dict[str, str] = {}
        for node in reversed(order):
            below = (found[one.id] for one in self.children.get(node.id, ()))
            found[node.id] = _worst((node.state, *below)) or node.state
        return found


def without(nodes: Sequence[TreeNode], hidden: Collection[str]) -> list[TreeNode]:
    """Return the nodes without those of ``hidden``; what was below them is below their nearest ancestor that stays."""
    parents = {node.id: node.parent for node in nodes}
    kept: list[TreeNode] = []
    for node in nodes:
        if node.id in hidden:
            continue
        passed: list[str] = []
        at = node.parent
        while at is not None and at in hidden:
            passed.append(at)
            at = parents[at]
        # The next node below one of them takes one step: a long hidden chain is walked once.
        parents |= dict.fromkeys(passed, at)
        node.parent = at
        kept.append(node)
    return kept


def _worst(states: Iterable[str]) -> str | None:
    return min(states, key=lambda state: _RANK.get(state, len(_RANK)), default=None)


def group_key(id_: str) -> tuple[str | None, str, str, str] | None:
    """Read the id of a group: its parent, and the kind, name and state of its members."""
    if not id_.startswith("group:"):
        return None
    # The name may hold colons, and the parent is one id, or a match with two.
    _, rest = id_.split(":", 1)
    head, state = rest.rsplit(":", 1)
    for kind in ("execution", "event", "suppressed", "joined"):
        parent, found, name = head.partition(f":{kind}:")
        if found:
            return parent or None, kind, name, state
    return None
