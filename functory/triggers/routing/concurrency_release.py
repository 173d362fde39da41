"""Cancels executions by cancel-on events, then gives free slots to the executions that wait in concurrency groups."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from functory.engine.database.connection import Database, Tx
from functory.engine.events import store as event_store
from functory.engine.events.event_row import EventRow
from functory.engine.firings import cancel_on, firings, idempotency, trigger_store
from functory.engine.firings.admission import SuppressedMatch
from functory.engine.firings.cancel_on import DueCancellation, EarlierMatch
from functory.engine.flow_control import concurrency, rate_limits, slot_assignment
from functory.engine.flow_control.concurrency import OVERLAP_RULE, UNLIMITED
from functory.engine.telemetry import metrics
from functory.triggers.definition import CompiledTrigger
from functory.triggers.routing.firing_metrics import count_firings
from functory.triggers.routing.trigger_set import TriggerSet

log = structlog.get_logger("functory.flow")

# Slots and cancellations of one transaction: it stays short.
BATCH = 200
# Seconds between two sweeps, and the rows of one.
SWEEP_SECONDS = 30.0
SWEEP_ROWS = 1000
# The state of a rate limit is kept for one more day, so that people can see what was dropped.
RATE_LIMIT_RETENTION_SECONDS = 86_400.0


class ConcurrencyRelease:
    """Runs rounds. Any number of processes may: it locks rows."""

    def __init__(self, database: Database, triggers: TriggerSet) -> None:
        self._database = database
        self._triggers = triggers
        self._limits_version = -1
        self._swept_at: float | None = None

    def run_once(self) -> bool:
        """One round. True when there may be more at once. Raises :class:`Unavailable`."""
        with self._database.read() as tx:
            cancel = cancel_on.are_due(tx)
            # A changed limit may leave free slots that the rows do not show yet.
            changed = trigger_store.set_version(tx) != self._limits_version and bool(
                concurrency.waiting_trigger_ids(tx)
            )
            assign = changed or slot_assignment.can_assign_slots(tx)
        more = self._cancel() if cancel else False
        return (self._assign_slots() if assign else False) or more

    def next_due(self) -> float | None:
        """Seconds until the next execution that waits for a slot is due. None: none waits."""
        with self._database.read() as tx:
            due_at = concurrency.next_due(tx)
            return None if due_at is None else max(0.0, (due_at - tx.now).total_seconds())

    def _cancel(self) -> bool:
        with self._database.write() as tx:
            self._triggers.refresh(tx)
            due = cancel_on.take_due(tx, BATCH)
            cancellations = [
                (one, compiled) for one in due if (compiled := self._triggers.get(one.trigger_id)) is not None
            ]
            # Buffers before executions, and in the order of their keys: every transaction locks them so.
            cancel_on.lock_buffers(tx, [one for one, _ in cancellations])
            refused: list[SuppressedMatch] = []
            for one, compiled in cancellations:
                matches = cancel_on.load_earlier_matches(tx, one)
                dropped = [match for match in matches if _rule_matches(compiled, one, match, tx.now)]
                refused += cancel_on.drop_matches(tx, compiled.row, one, dropped)
            cancelled = 0
            for one, compiled in cancellations:
                open_ = cancel_on.load_open_executions(tx, one)
                wanted = [match for match in open_ if _rule_matches(compiled, one, match, tx.now)]
                cancelled += cancel_on.cancel_executions(tx, compiled.row, one, wanted)
            cancel_on.delete(tx, due)
            counts = firings.write_suppressed(tx, refused)
        count_firings(counts)
        if cancelled:
            log.info("executions cancelled by events", executions=cancelled)
        return len(due) >= BATCH

    def _assign_slots(self) -> bool:
        with self._database.write() as tx:
            self._apply_limits(tx)
            return bool(slot_assignment.assign_slots(tx, BATCH))

    def _apply_limits(self, tx: Tx) -> None:
        """Apply changed concurrency limits to executions that are already queued."""
        self._triggers.refresh(tx)
        if self._triggers.version == self._limits_version:
            return
        for id_ in concurrency.waiting_trigger_ids(tx):
            compiled = self._triggers.get(id_)
            if compiled is not None:
                concurrency.update_capacities(tx, id_, _capacities(compiled))
        self._limits_version = self._triggers.version

    def sweep(self) -> None:
        """Release abandoned slots, delete expired idempotency keys and rate limits; every ``SWEEP_SECONDS``."""
        now = self._database.clock.monotonic()
        if self._swept_at is not None and now - self._swept_at < SWEEP_SECONDS:
            return
        self._swept_at = now
        # A router that had not seen a change yet may have written the old limit after it.
        self._limits_version = -1
        with self._database.write() as tx:
            concurrency.sweep(tx, SWEEP_ROWS)
        with self._database.write() as tx:
            idempotency.delete_expired(tx, SWEEP_ROWS)
            rate_limits.delete_expired(
                tx, tx.now - timedelta(seconds=RATE_LIMIT_RETENTION_SECONDS), SWEEP_ROWS
            )


def _rule_matches(
    compiled: CompiledTrigger, cancellation: DueCancellation, started: EarlierMatch, now: datetime
) -> bool:
    if cancellation.rule >= len(compiled.flow.cancel_on):
        return False
    return rule_matches(compiled, cancellation.rule, cancellation.event, started, now)


def rule_matches(
    compiled: CompiledTrigger, number: int, event: EventRow, started: EarlierMatch, now: datetime
) -> bool:
    """True if cancel-on rule ``number`` and its event (a row) apply to a match or execution of an earlier event."""
    rule = compiled.flow.cancel_on[number]
    if rule.timeout is not None and event.time - started.since > timedelta(seconds=rule.timeout):
        return False
    result = rule.evaluate(event_store.envelope(event), event_store.envelope(started.event), now)
    if result.problem is not None:
        metrics.condition_errors.labels(metrics.trigger_label(compiled.name), result.kind or "error").inc()
    return result.matched


def _capacities(compiled: CompiledTrigger) -> dict[int, int]:
    """The capacities of a trigger's concurrency limits, by rule number of the slot."""
    found = {rule: limit.limit for rule, limit in enumerate(compiled.flow.concurrency)}
    if compiled.flow.overlap is not None:
        found[OVERLAP_RULE] = UNLIMITED if compiled.flow.overlap.policy == "allow_all" else 1
    return found
