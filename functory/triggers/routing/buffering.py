"""Puts matches into their buffers: debounce, batch and composites wait there for more events or for time to pass."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from functory.engine.database.connection import Tx
from functory.engine.events.event_row import EventRow
from functory.engine.flow_control import buffers
from functory.engine.flow_control.buffers import BufferedMatch, LockedBuffer
from functory.triggers.flow_control.buffered_match import BufferMemory, BufferPolicy, WaitingMatch
from functory.triggers.routing.trigger_set import TriggerSet


def put(tx: Tx, triggers: TriggerSet, matches: Sequence[tuple[EventRow, BufferedMatch]]) -> None:
    """Lock the buffers of these matches (event row, match), compute when each is due, and write both."""
    locked = buffers.lock(tx, matches)
    buffers.put(tx, [(one, due_at(triggers.buffer_policy(one.trigger_id), one, tx.now)) for one in locked])


def due_at(policy: BufferPolicy, buffer: LockedBuffer, now: datetime) -> datetime | None:
    """When a buffer is to be decided about, with its new matches in it. A pure function."""
    # When the trigger was armed matters to a decision only.
    memory = BufferMemory(buffer.opened_at, buffer.opened_at, buffer.memory)
    due = buffer.due_at
    for event, match in buffer.matches:
        waiting = WaitingMatch(event.id, min(event.time, now), now, match.parts, match.size)
        at = policy.due_at(memory, buffer.count, buffer.bytes, waiting, now)
        # A composite goes by the events' own times: a later event does not postpone an earlier one.
        if policy.kind == "composite" and due is not None and at is not None:
            at = min(due, at)
        due = at
    return due
