"""Rows of the map."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from functory.rows.base import Row


class MapNode(Row):
    """A function, trigger, event type or source."""

    id: str
    kind: Literal["function", "trigger", "event", "source"]
    name: str
    state: str | None


class MapEdge(Row):
    """A trigger runs a function, a function or source emits an event, an event starts a trigger.

    Not ``certain``: the type is computed by the code.
    """

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    from_: str = Field(serialization_alias="from", validation_alias="from")
    to: str
    kind: Literal["runs", "emits", "starts"]
    certain: bool


class CycleStop(Row):
    """The guard that stops a cycle: it refuses a match of ``trigger``. ``executions`` run before.

    ``guard`` is the reason of the suppression.
    """

    guard: Literal["own_event", "cycle", "depth", "budget", "trigger_paused"]
    trigger: str
    limit: int
    executions: int


class MapCycle(Row):
    """Ids of nodes in their order, and what stops the cycle: while its events are about one subject, and else."""

    nodes: list[str]
    same_subject: CycleStop
    other_subjects: CycleStop


class Map(Row):
    """What can start what. ``truncated``: there are more nodes than can be shown."""

    nodes: list[MapNode]
    edges: list[MapEdge]
    cycles: list[MapCycle] = Field(description="Each cycle once.")
    truncated: bool
