"""Overlap policies: the decision about a match while an execution of the same key is open.

Temporal's six policies (its schedule.proto): *skip* starts nothing. *Buffer one* starts it when the running one has
ended, and at most one waits. *Buffer all* lets all wait and runs them one after the other (at most 1000 wait). *Cancel
other* cancels open executions and starts after their end. *Terminate other* cancels them and starts at once. *Allow
all* always starts. A singleton is *skip*, or *cancel other* in its mode cancel.

An execution is open until it has ended for good, and also while it waits for a retry. Two routers may see the events of
a key in another order than they were written. A cancelling match therefore cancels older executions only, and a match
that is older than an open execution is dropped: the newest stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from functory.engine.flow_control.controls import MAX_BUFFERED, OverlapPolicy


@dataclass(frozen=True)
class OpenExecution:
    """An open execution of a key. ``position`` is the event that started it; ``has_slot`` is false while it waits."""

    id: str
    position: str
    has_slot: bool


@dataclass(frozen=True)
class OverlapDecision:
    """``now``: the match starts. ``wait``: it queues. ``drop``: it does not run, because of ``detail``.

    With each action, the open executions ``cancel_ids`` have to end.
    """

    action: Literal["now", "wait", "drop"]
    cancel_ids: tuple[str, ...] = ()
    detail: str = ""


def decide(policy: OverlapPolicy, position: str, others: Sequence[OpenExecution]) -> OverlapDecision:
    """Return the decision about a match of the event ``position`` beside open executions of its key. A pure
    function.
    """
    if policy == "allow_all":
        return OverlapDecision("now")
    running = [one for one in others if one.has_slot]
    waiting = [one for one in others if not one.has_slot]
    if policy == "skip":
        return (
            OverlapDecision("drop", detail=_because(others[0], "is open"))
            if others
            else OverlapDecision("now")
        )
    if policy == "buffer_one":
        # While none runs, the first waiting one is about to start.
        if len(waiting) > (0 if running else 1):
            return OverlapDecision("drop", detail=_because(waiting[-1], "waits already"))
        return OverlapDecision("wait")
    if policy == "buffer_all":
        if len(waiting) >= MAX_BUFFERED + (0 if running else 1):
            return OverlapDecision("drop", detail=f"{MAX_BUFFERED} executions wait already")
        return OverlapDecision("wait")
    newer = [one for one in others if one.position > position]
    if newer:
        return OverlapDecision("drop", detail=_because(newer[0], "is of a newer event"))
    return OverlapDecision("wait" if policy == "cancel_other" else "now", tuple(one.id for one in others))


def _because(other: OpenExecution, what: str) -> str:
    return f"execution {other.id} {what}"
