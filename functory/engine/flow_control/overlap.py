"""What happens to a match while an execution of the same key is still open: Temporal's six policies, and singletons.

Of the schedule.proto of Temporal: *skip* starts nothing; *buffer one* starts it right after what runs has ended, and
at most one waits; *buffer all* lets all wait and runs them one after the other (at most 1000 wait); *cancel other*
cancels what is open and starts after its end; *terminate other* does so too and starts at once; *allow all* starts in
any case. A singleton is *skip*, or *cancel other* in its mode cancel.

An execution is open until it has ended for good: one that waits for a retry is. Two routers may meet the events of a
key in another order than they came: what cancels, cancels what is older, and a match that is older than what is open
is dropped, so that it is the newest that stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from functory.engine.flow_control.controls import MAX_BUFFERED, OverlapPolicy


@dataclass(frozen=True)
class OpenExecution:
    """An open execution of a key: the event that it was started by, and whether it may run or still waits in line."""

    id: str
    position: str
    has_slot: bool


@dataclass(frozen=True)
class OverlapDecision:
    """``now``: it starts. ``wait``: it stands in line. ``drop``: it does not run, because of ``detail``.

    Whatever it is, ``cancel`` are the open executions that have to end.
    """

    action: Literal["now", "wait", "drop"]
    cancel_ids: tuple[str, ...] = ()
    detail: str = ""


def decide(policy: OverlapPolicy, position: str, others: Sequence[OpenExecution]) -> OverlapDecision:
    """The answer for a match of the event ``position`` beside the ``others`` of its key. A pure function."""
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
        # Where nothing runs the first of the line is about to.
        if len(waiting) > (0 if running else 1):
            return OverlapDecision("drop", detail=_because(waiting[-1], "waits already"))
        return OverlapDecision("wait")
    if policy == "buffer_all":
        if len(waiting) >= MAX_BUFFERED + (0 if running else 1):
            return OverlapDecision("drop", detail=f"{MAX_BUFFERED} wait already")
        return OverlapDecision("wait")
    newer = [one for one in others if one.position > position]
    if newer:
        return OverlapDecision("drop", detail=_because(newer[0], "is of a newer event"))
    return OverlapDecision("wait" if policy == "cancel_other" else "now", tuple(one.id for one in others))


def _because(other: OpenExecution, what: str) -> str:
    return f"execution {other.id} {what}"
