"""The decision about one buffer, and what follows from it: pure functions of its row, its matches and the time.

The release service (:mod:`functory.triggers.routing.buffer_release`) calls them with locked rows, a backtest with
buffers in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from functory.engine.events.event_row import EventRow
from functory.engine.firings.admission import Suppress, SuppressedMatch
from functory.engine.flow_control import buffers
from functory.engine.flow_control.buffers import BufferUpdate, WaitingRow
from functory.triggers.definition import CompiledTrigger
from functory.triggers.flow_control.buffered_match import (
    BufferDecision,
    BufferMemory,
    BufferPolicy,
    SilencePeriod,
    WaitingMatch,
)
from functory.triggers.routing.decision import TriggerEvaluator
from functory.triggers.routing.inputs import TemplatedFire

Row = Mapping[str, Any]


@dataclass
class ReleasedMatches:
    """What leaves a buffer: matches that may fire, suppressed ones, and the ids of the events of both."""

    fires: list[tuple[EventRow, TemplatedFire]] = field(default_factory=list)
    refused: list[SuppressedMatch] = field(default_factory=list)
    done_ids: list[str] = field(default_factory=list)


def decide_buffer(
    policy: BufferPolicy | None, row: Row, line: Sequence[WaitingRow], now: datetime, routed_until: datetime
) -> BufferDecision:
    """Decide about a buffer and its matches ``line``. A composite goes by ``routed_until``, the others by ``now``."""
    if policy is None:
        return BufferDecision()
    state = BufferMemory(row["opened_at"], row["armed_at"], row["memory"])
    waiting = [
        WaitingMatch(
            one.id,
            one.event_time,
            one.since,
            one.parts,
            one.bytes,
            one.round >= row["round"],
        )
        for one in line
    ]
    return policy.decide(state, waiting, routed_until if policy.kind == buffers.EVENT_TIME_KIND else now)


def released_matches(
    evaluator: TriggerEvaluator,
    compiled: CompiledTrigger,
    line: Sequence[WaitingRow],
    outcome: BufferDecision,
    events: Callable[[str], EventRow],
    silence_event: Callable[[SilencePeriod], EventRow],
) -> ReleasedMatches:
    """Return what a decision releases. ``events`` gives the complete row of an event, ``silence_event`` makes one."""
    by_id = {one.id: one for one in line}
    found = ReleasedMatches()
    for firing in outcome.fired:
        rows = [events(id_) for id_ in firing.ids]
        _fire(evaluator, compiled, rows, events(firing.deciding_id), found)
        found.done_ids += firing.ids
    for one in outcome.dropped:
        found.refused.append((by_id[one.id], Suppress(compiled.row, one.reason, detail=one.detail)))
        found.done_ids.append(one.id)
    for silence in outcome.silences:
        event = silence_event(silence)
        _fire(evaluator, compiled, [event], event, found)
    return found


def _fire(
    evaluator: TriggerEvaluator,
    compiled: CompiledTrigger,
    rows: Sequence[EventRow],
    by: EventRow,
    found: ReleasedMatches,
) -> None:
    """Let these event rows fire together by the deciding one, or suppress each of them."""
    event_row, decision = evaluator.fire(compiled, rows, by)
    if isinstance(decision, TemplatedFire):
        found.fires.append((event_row, decision))
    else:
        found.refused += [(one, decision) for one in rows]


def buffer_update(row: Row, rest: Sequence[WaitingRow], outcome: BufferDecision, kind: str) -> BufferUpdate:
    """Return the state of a buffer after a decision that leaves the matches ``rest``."""
    # After a firing the buffer has waited as long as its oldest remaining match.
    starts = [one.since for one in rest] if outcome.fired else []
    return BufferUpdate(
        outcome.due_at,
        outcome.memory,
        len(rest),
        sum(one.bytes for one in rest),
        min(starts, default=row["opened_at"]),
        kind,
        row["changed_to"],
        outcome.keep_buffer,
    )


def silence_columns(compiled: CompiledTrigger, row: Row, silence: SilencePeriod) -> dict[str, Any]:
    """Return what the event ``trigger.silent`` says about the buffer of a silence: type, subject, source and data."""
    return {
        "type": "trigger.silent",
        "subject": compiled.name,
        "source": f"/functory/triggers/{compiled.name}",
        "data": {
            "key": row["text"] or None,
            "since": silence.since.isoformat(),
            "last_event_id": silence.last_event_id,
        },
    }
