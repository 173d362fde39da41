"""Decides about due buffers: the matches of debounce, batch and composites fire, are suppressed, or go on waiting.

A round is one transaction over the due buffers. A match that fires gets its execution, a suppressed one its reason, and
both leave the buffer. A process that is killed in the middle changes nothing.

The current version of the trigger decides. Matches of an older version are evaluated again by the current pattern,
condition and key; a match that no longer waits for others fires alone. The buffers of a paused trigger wait. The
matches of a deleted trigger are recorded as suppressed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from functory.engine.database.connection import Database, Tx
from functory.engine.errors import Unavailable
from functory.engine.events import event_row, kill_switch
from functory.engine.events import store as event_store
from functory.engine.events.event_row import EventRow
from functory.engine.firings import firings, routing_facts, trigger_store
from functory.engine.firings.admission import Admission, Suppress, SuppressedMatch
from functory.engine.firings.firings import FiringCounts
from functory.engine.flow_control import buffers, due_buffers
from functory.engine.flow_control.buffers import BufferedMatch, BufferKey, BufferUpdate, WaitingRow
from functory.engine.flow_control.trigger_row import FiringTrigger
from functory.engine.settings import Settings
from functory.triggers.definition import CompiledTrigger
from functory.triggers.flow_control.buffered_match import BufferDecision, SilencePeriod
from functory.triggers.routing import buffering
from functory.triggers.routing.buffer_decision import (
    buffer_update,
    decide_buffer,
    released_matches,
    silence_columns,
)
from functory.triggers.routing.decision import TriggerEvaluator, matching_parts
from functory.triggers.routing.firing_metrics import count_firings
from functory.triggers.routing.inputs import TemplatedFire, render_inputs
from functory.triggers.routing.isolation import in_isolation
from functory.triggers.routing.trigger_set import TriggerSet

log = structlog.get_logger("functory.flow")

Row = Mapping[str, Any]

# Buffers of one transaction, and the matches in them: it stays short.
BATCH = 200
MATCHES = 5000

# Pause before the next look at due buffers that wait for events to be routed, or for another process.
CATCH_UP_SECONDS = 0.02

# Pause before the next try at a buffer whose decision failed.
RETRY_AFTER = timedelta(seconds=60)


@dataclass
class _ReleaseBatch:
    """The writes that one transaction collects."""

    fires: list[tuple[EventRow, TemplatedFire]] = field(default_factory=list)
    refused: list[SuppressedMatch] = field(default_factory=list)
    buffered: list[tuple[EventRow, BufferedMatch]] = field(default_factory=list)
    new_events: list[dict[str, Any]] = field(default_factory=list)
    done_ids: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    buffer_updates: dict[BufferKey, BufferUpdate] = field(default_factory=dict)


class BufferRelease:
    """Runs rounds. Any number of processes may: it locks rows."""

    def __init__(self, database: Database, settings: Settings, triggers: TriggerSet) -> None:
        self._database = database
        self._settings = settings
        self._triggers = triggers
        self._evaluator = TriggerEvaluator(settings)
        self._admission = Admission(settings.root_budget)
        # The version of the trigger set for which every buffer has been checked.
        self._checked_version = -1

    def run_once(self) -> bool:
        """One round. True when there may be more at once. Raises :class:`Unavailable`."""
        with self._database.read() as tx:
            if kill_switch.is_halted(tx):
                return False
            changed = trigger_store.set_version(tx) != self._checked_version
            if not changed and not due_buffers.are_due(tx, due_buffers.routed_until(tx)):
                return False
        try:
            counts, more = self._release_due()
        except Unavailable:
            raise
        except Exception:
            log.exception("buffer release failed, buffers are decided one by one")
            counts, more = self._release_one_by_one()
        count_firings(counts)
        return more

    def is_current(self, version: int) -> bool:
        """True when every buffer has been checked for this version of the trigger set."""
        return version == self._checked_version

    def next_due(self) -> float | None:
        """Seconds until the next buffer is due; None when only an event can change anything."""
        with self._database.read() as tx:
            first = due_buffers.next_due(tx)
            return None if first is None else max(CATCH_UP_SECONDS, (first - tx.now).total_seconds())

    def _release_due(self) -> tuple[FiringCounts, bool]:
        with self._database.write() as tx:
            self._triggers.refresh(tx)
            version = self._triggers.version
            # Before the buffers: every event routed until then is in them.
            routed_until = due_buffers.routed_until(tx)
            rows: list[dict[str, Any]] = []
            if version != self._checked_version:
                buffers.create_missing(tx, [one.row for one in self._triggers if _is_armed(one)])
                rows = due_buffers.lock_changed(tx, BATCH)
            checked_all = not rows
            rows = rows or due_buffers.lock_due(tx, routed_until, BATCH)
            counts, more = self._release(tx, rows, routed_until)
        if checked_all:
            self._checked_version = version
        return counts, more or not checked_all

    def _release_one_by_one(self) -> tuple[FiringCounts, bool]:
        total = FiringCounts()

        def release_alone(key: BufferKey) -> None:
            with self._database.write() as tx:
                self._triggers.refresh(tx)
                counts, _ = self._release(tx, due_buffers.lock_one(tx, key), due_buffers.routed_until(tx))
            total.add(counts)

        def postpone(key: BufferKey, error: Exception) -> None:
            log.error(
                "buffer cannot be decided, retrying later", trigger=key[0], key=key[1], error=str(error)
            )
            with self._database.write() as tx:
                buffers.postpone(tx, [key], tx.now + RETRY_AFTER)

        with self._database.write() as tx:
            rows = due_buffers.lock_due(tx, due_buffers.routed_until(tx), BATCH) or due_buffers.lock_changed(
                tx, BATCH
            )
        in_isolation(sorted((row["trigger_id"], row["key"]) for row in rows), release_alone, postpone)
        return total, len(rows) >= BATCH

    def _release(
        self, tx: Tx, rows: Sequence[dict[str, Any]], routed_until: datetime
    ) -> tuple[FiringCounts, bool]:
        """Decide about locked buffers and write what follows. True when some of them are still to be decided."""
        taken = _bounded(rows)
        matches = buffers.load_matches(tx, [(row["trigger_id"], row["key"]) for row in taken])
        events = _Events(tx)
        batch = _ReleaseBatch()
        broken: list[BufferKey] = []
        decided: list[tuple[CompiledTrigger, dict[str, Any], list[WaitingRow], BufferDecision]] = []
        for row in taken:
            key = (row["trigger_id"], row["key"])
            compiled = self._triggers.get(row["trigger_id"])
            if row["state"] == "deleted":
                self._suppress_all(row, matches[key], batch)
            elif compiled is None:
                broken.append(key)
            else:
                line = self._reevaluate(tx, compiled, row, matches[key], events, batch)
                decision = decide_buffer(compiled.buffer_policy, row, line, tx.now, routed_until)
                decided.append((compiled, row, line, decision))
        events.load(id_ for *_, decision in decided for firing in decision.fired for id_ in firing.ids)
        for compiled, row, line, decision in decided:
            self._apply_decision(tx, compiled, row, line, decision, events, batch)
        event_store.append(tx, batch.new_events)
        buffers.write_decisions(tx, batch.done_ids, batch.buffer_updates)
        buffering.put(tx, self._triggers, batch.buffered)
        buffers.postpone(tx, broken, tx.now + RETRY_AFTER)
        counts = FiringCounts()
        if batch.fires or batch.refused:
            facts = routing_facts.read(tx)
            ready, unfit = render_inputs(batch.fires, self._admission.find_targets(tx, batch.fires, facts))
            counts = firings.write(tx, ready, [*batch.refused, *unfit], self._admission, facts)
        return counts, len(rows) >= BATCH or len(taken) < len(rows)

    def _suppress_all(self, row: dict[str, Any], line: Sequence[WaitingRow], batch: _ReleaseBatch) -> None:
        """Suppress all matches in the buffer of a deleted trigger."""
        trigger = FiringTrigger(row["trigger_id"], row["name"], row["version"])
        batch.refused += [(one, Suppress(trigger, "trigger_deleted")) for one in line]
        batch.done_ids[row["trigger_id"]] += [one.id for one in line]
        batch.buffer_updates[row["trigger_id"], row["key"]] = buffer_update(
            row, [], BufferDecision(), row["kind"]
        )

    def _reevaluate(
        self,
        tx: Tx,
        compiled: CompiledTrigger,
        row: dict[str, Any],
        line: list[WaitingRow],
        events: _Events,
        batch: _ReleaseBatch,
    ) -> list[WaitingRow]:
        """Decide again about matches of an older trigger version. Returns the matches that stay in this buffer."""
        old = [one for one in line if one.trigger_version != compiled.row.version]
        if not old:
            return line
        events.load(one.id for one in old)
        for one in old:
            found = events[one.id]
            envelope = event_store.envelope(found)
            parts = matching_parts(compiled, envelope)
            decision = None
            if parts is not None:
                decision = self._evaluator.decide(compiled, found, envelope, tx.now, parts)
            if isinstance(decision, BufferedMatch):
                batch.buffered.append((found, replace(decision, since=one.since)))
            elif isinstance(decision, TemplatedFire):
                batch.fires.append((found, decision))
            else:
                why = f"version {compiled.row.version} does not match it"
                batch.refused.append(
                    (found, decision or Suppress(compiled.row, "trigger_changed", detail=why))
                )
        batch.done_ids[row["trigger_id"]] += [one.id for one in old]
        return [one for one in line if one.trigger_version == compiled.row.version]

    def _apply_decision(
        self,
        tx: Tx,
        compiled: CompiledTrigger,
        row: dict[str, Any],
        line: Sequence[WaitingRow],
        outcome: BufferDecision,
        events: _Events,
        batch: _ReleaseBatch,
    ) -> None:
        """Add the writes of a decision about one buffer to the batch."""

        def silence_event(silence: SilencePeriod) -> EventRow:
            event = _silence_event(tx, compiled, row, silence)
            batch.new_events.append(event)
            return event_row.from_mapping(event)

        released = released_matches(
            self._evaluator, compiled, line, outcome, events.__getitem__, silence_event
        )
        batch.fires += released.fires
        batch.refused += released.refused
        batch.done_ids[row["trigger_id"]] += released.done_ids
        done = set(released.done_ids)
        rest = [one for one in line if one.id not in done]
        control = compiled.buffer_policy
        batch.buffer_updates[row["trigger_id"], row["key"]] = buffer_update(
            row, rest, outcome, row["kind"] if control is None else control.kind
        )


class _Events:
    """Complete event rows, loaded when they are needed."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._rows: dict[str, EventRow] = {}

    def load(self, ids: Iterable[str]) -> None:
        self._rows |= buffers.load_events(self._tx, [id_ for id_ in ids if id_ not in self._rows])

    def __getitem__(self, id_: str) -> EventRow:
        return self._rows[id_]


def _is_armed(compiled: CompiledTrigger) -> bool:
    live = compiled.row.state in ("enabled", "shadow")
    return live and compiled.composite is not None and compiled.composite.armed


def _bounded(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first buffers whose matches one transaction can take: at least one."""
    taken: list[dict[str, Any]] = []
    matches = 0
    for row in rows:
        matches += row["count"]
        if taken and matches > MATCHES:
            break
        taken.append(row)
    return taken


def _silence_event(tx: Tx, compiled: CompiledTrigger, row: Row, silence: SilencePeriod) -> dict[str, Any]:
    """The event ``trigger.silent``. It is inert: no pattern matches it."""
    found = silence_columns(compiled, row, silence)
    return event_store.record(
        tx,
        found["type"],
        found["subject"],
        found["data"],
        source=found["source"],
        inert=True,
        time=silence.at,
    )
