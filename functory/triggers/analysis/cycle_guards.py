"""Which guard stops a cycle of triggers, and after how many executions. Pure.

The guards are those of :mod:`functory.triggers.routing.guards`, in their order. The rates are left out: they depend on
how fast the functions are.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from functory.engine.settings import Settings
from functory.triggers.definition import CompiledTrigger, Guards
from functory.triggers.routing.guards import effective_guards


@dataclass(frozen=True)
class CycleStop:
    """The guard that refuses a match of ``trigger``, its limit, and the executions that ran before it.

    ``guard`` is the reason of the suppression: own_event, cycle, depth, budget or trigger_paused.
    """

    guard: str
    trigger: str
    limit: int
    executions: int


def find_stop(ring: Sequence[CompiledTrigger], settings: Settings, *, same_subject: bool) -> CycleStop:
    """Return what stops a cycle that an event from outside starts at the first trigger of the ring.

    With ``same_subject`` all of its events are about one subject, else each is about another one, and no trigger is
    revisited.
    """
    guards = [
        effective_guards(one.guards, by_agent=one.row.origin == "agent", settings=settings) for one in ring
    ]
    for executions in itertools.count():
        place = executions % len(ring)
        visits = executions // len(ring) if same_subject else 0
        if ring[place].row.state == "paused":
            return CycleStop("trigger_paused", ring[place].name, 0, executions)
        stopped = _guard(
            guards[place], visits, executions, own=len(ring) == 1 and executions > 0, settings=settings
        )
        if stopped is not None:
            guard, limit = stopped
            return CycleStop(guard, ring[place].name, limit, executions)
    raise AssertionError("the depth is always bounded")


def _guard(
    guards: Guards, visits: int, executions: int, *, own: bool, settings: Settings
) -> tuple[str, int] | None:
    if own and not guards.allow_self:
        return "own_event", 0
    if guards.max_revisits and visits >= guards.max_revisits:
        return "cycle", guards.max_revisits
    depth = min(settings.max_depth, guards.max_depth or settings.max_depth)
    if executions + 1 > depth:
        return "depth", depth
    budget = min(settings.root_budget, guards.budget or settings.root_budget)
    if executions + 1 > budget:
        return "budget", budget
    return None
