"""Rows of causal trees."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from functory.rows.base import Body, Instant, Row, Text


class OutlineNode(Row):
    """A node of a tree.

    ``kind`` is event, execution, suppressed (a match that a guard stopped), joined (a match whose execution is below
    another event) or group (equal siblings). ``children`` counts the direct children, ``left_out`` those that are not
    in the answer, ``worst`` is the worst state among and below them.
    """

    id: str
    kind: str
    parent: str | None
    name: str
    state: str
    version: int | None
    about: Text | None
    reason: str | None
    start: Instant | None
    trigger: str | None
    cause: str | None
    attempt: int | None
    created_at: Instant | None
    finished_at: Instant | None
    queued_seconds: float | None
    run_seconds: float | None
    error_type: str | None
    cancelled_by: str | None
    resolved_by: str | None
    # Of a joined match.
    execution_id: str | None
    children: int
    left_out: int
    worst: str | None
    # Of a group.
    count: int | None
    min_seconds: float | None
    median_seconds: float | None
    max_seconds: float | None


class Outline(Row):
    """A part of a tree, breadth first. ``path`` are the nodes above ``at``, the top first."""

    root_id: str
    at: str | None
    path: list[OutlineNode]
    nodes: list[OutlineNode]
    total: int
    truncated: bool


class Children(Row):
    """Children of a node. ``next`` is sent as ``after`` to go on; null at the end."""

    items: list[OutlineNode]
    next: str | None


class Budget(Row):
    """How many executions the tree has caused, and how many it may."""

    used: int
    maximum: int


class TouchedVersion(Row):
    """A version that ran in the tree."""

    function: str
    version: int
    executions: int
    failures: int


class SuppressedCount(Row):
    """How many matches of a trigger were stopped, and why."""

    trigger: str
    reason: str | None
    count: int


class Tree(Row):
    """The counts of a tree: what it has started and touched."""

    root_id: str
    executions: int
    states: dict[str, int]
    depth: int
    events: int
    event_types: dict[str, int]
    suppressed: list[SuppressedCount]
    triggers: list[str]
    functions: list[TouchedVersion]
    started_at: Instant | None
    finished_at: Instant | None
    budget: Budget | None


class BudgetChange(Body):
    """A new budget of a tree."""

    maximum: int = Field(ge=1, le=2**31 - 1)


class WholeTree(Row):
    """A tree as nested nodes: each has its ``kind``, ``id`` and ``children``, and the columns of its row."""

    root_id: str
    cut: bool = Field(description="Rows are left out, because there are too many.")
    budget: Budget | None
    nodes: list[dict[str, Any]]
