"""Match buffers of one trigger in memory: what :mod:`functory.engine.flow_control.buffers` keeps in rows.

The decisions are those of the release service; only the place of the rows differs.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from functory.engine.database.clock import lowest_id
from functory.engine.events.event_row import EventRow, FiringEvent
from functory.engine.flow_control.buffers import BufferedMatch, BufferUpdate, LockedBuffer, WaitingRow
from functory.triggers.definition import CompiledTrigger
from functory.triggers.flow_control.buffered_match import SilencePeriod
from functory.triggers.routing import buffering
from functory.triggers.routing.buffer_decision import (
    ReleasedMatches,
    buffer_update,
    decide_buffer,
    released_matches,
    silence_columns,
)
from functory.triggers.routing.decision import TriggerEvaluator

Row = Mapping[str, Any]


class MemoryBuffers:
    """The buffers of a trigger that was armed at ``armed_at``."""

    def __init__(self, compiled: CompiledTrigger, evaluator: TriggerEvaluator, armed_at: datetime) -> None:
        self._compiled = compiled
        self._evaluator = evaluator
        self._armed_at = armed_at
        self._rows: dict[str, dict[str, Any]] = {}
        self._matches: dict[str, list[WaitingRow]] = defaultdict(list)
        self._events: dict[str, EventRow] = {}
        # Due times in order; one that its buffer has no longer is passed over.
        self._due: list[tuple[datetime, str]] = []
        if compiled.composite is not None and compiled.composite.armed:
            self._open("", "", armed_at)["due_at"] = armed_at
            self._due.append((armed_at, ""))

    @property
    def by_event_time(self) -> bool:
        """True when buffers wait until all events before their due time are routed."""
        return self._compiled.composite is not None

    def waiting(self) -> list[str]:
        """The ids of the events that wait."""
        return list(self._events)

    def event(self, id_: str) -> EventRow:
        """The row of an event that waits."""
        return self._events[id_]

    def waiting_rows(self) -> list[WaitingRow]:
        """The waiting matches, in the order of their events; each has its event's columns and ``since``."""
        return sorted((one for line in self._matches.values() for one in line), key=lambda one: one.id)

    def put(self, matches: Sequence[tuple[EventRow, BufferedMatch]], now: datetime) -> None:
        """Let matches (event row, match) wait from now on."""
        groups: dict[str, list[tuple[EventRow, BufferedMatch]]] = defaultdict(list)
        for row, match in matches:
            groups[match.key.hash].append((row, match))
        policy = self._compiled.buffer_policy
        for key, group in sorted(groups.items()):
            assert policy is not None
            row = self._rows.get(key) or self._open(key, group[0][1].key.text, now)
            if not row["count"]:
                row["opened_at"] = now
            row["count"] += len(group)
            row["bytes"] += sum(match.size for _, match in group)
            locked = LockedBuffer(
                self._compiled.id,
                key,
                opened_at=row["opened_at"],
                due_at=row["due_at"],
                count=row["count"],
                bytes=row["bytes"],
                memory=row["memory"],
                round=row["round"],
                matches=group,
            )
            for event, match in group:
                self._events[event.id] = event
                self._matches[key].append(_waiting(self._compiled, event, match, row["round"], now))
            self._set_due(key, buffering.due_at(policy, locked, now))

    def drop(self, one: WaitingRow, now: datetime) -> None:
        """Take a waiting match out; its buffer is due at once."""
        row = self._rows[one.key]
        self._matches[one.key].remove(one)
        del self._events[one.id]
        row["count"] -= 1
        row["bytes"] -= one.bytes
        self._set_due(one.key, now)

    def next_due(self) -> datetime | None:
        """When the first buffer is due; None when only an event can change anything."""
        while self._due and not self._is_current(*self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def release(self, now: datetime, routed_until: datetime) -> ReleasedMatches:
        """Decide about all due buffers at ``now``, in the order of their due times and keys."""
        known = routed_until if self.by_event_time else now
        keys: list[str] = []
        while (due := self.next_due()) is not None and due <= known:
            keys.append(heapq.heappop(self._due)[1])
        found = ReleasedMatches()
        for key in dict.fromkeys(keys):
            self._decide(key, now, routed_until, found)
        for id_ in found.done_ids:
            self._events.pop(id_, None)
        return found

    def _decide(self, key: str, now: datetime, routed_until: datetime, found: ReleasedMatches) -> None:
        row, line = self._rows[key], self._matches[key]
        policy = self._compiled.buffer_policy
        assert policy is not None
        outcome = decide_buffer(policy, row, line, now, routed_until)
        released = released_matches(
            self._evaluator,
            self._compiled,
            line,
            outcome,
            self._events.__getitem__,
            lambda silence: _silence_event(self._compiled, row, silence),
        )
        found.fires += released.fires
        found.refused += released.refused
        found.done_ids += released.done_ids
        done = set(released.done_ids)
        rest = [one for one in line if one.id not in done]
        self._write(key, rest, buffer_update(row, rest, outcome, policy.kind))

    def _write(self, key: str, rest: list[WaitingRow], update: BufferUpdate) -> None:
        if not update.count and not update.keep_when_empty:
            del self._rows[key], self._matches[key]
            return
        self._matches[key] = rest
        row = self._rows[key]
        row |= {
            "memory": update.memory,
            "count": update.count,
            "bytes": update.bytes,
            "opened_at": update.opened_at,
            "round": row["round"] + 1,
        }
        self._set_due(key, update.due_at)

    def _open(self, key: str, text: str, now: datetime) -> dict[str, Any]:
        row = self._rows[key] = {
            "key": key,
            "text": text,
            "opened_at": now,
            "armed_at": self._armed_at,
            "due_at": None,
            "memory": None,
            "count": 0,
            "bytes": 0,
            "round": 0,
            "changed_to": 0,
        }
        return row

    def _set_due(self, key: str, due_at: datetime | None) -> None:
        self._rows[key]["due_at"] = due_at
        if due_at is not None:
            heapq.heappush(self._due, (due_at, key))

    def _is_current(self, due_at: datetime, key: str) -> bool:
        return key in self._rows and self._rows[key]["due_at"] == due_at


def _waiting(
    compiled: CompiledTrigger, event: EventRow, match: BufferedMatch, round_: int, now: datetime
) -> WaitingRow:
    """A waiting match with its event's columns, as :func:`functory.engine.flow_control.buffers.load_matches` has it."""
    return WaitingRow(
        *(getattr(event, name) for name in FiringEvent.__struct_fields__),
        trigger_id=compiled.id,
        key=match.key.hash,
        trigger_version=compiled.row.version,
        parts=match.parts,
        bytes=match.size,
        round=round_,
        event_time=min(event.time, now),
        since=now,
    )


def _silence_event(compiled: CompiledTrigger, row: Row, silence: SilencePeriod) -> EventRow:
    id_ = lowest_id(silence.at)
    return EventRow(
        id=id_,
        root_id=id_,
        time=silence.at,
        extensions=None,
        cause_execution_id=None,
        depth=0,
        chain=[],
        state="routed",
        routed_at=silence.at,
        **silence_columns(compiled, row, silence),
    )
