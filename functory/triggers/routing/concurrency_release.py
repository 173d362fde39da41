"""The half of a turn that lets executions go: cancellations, then those that stand in line for a lane."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from functory.engine.database.connection import Database, Tx
from functory.engine.events import store as event_store
from functory.engine.flow_control import concurrency, rate_limits, slot_assignment
from functory.engine.flow_control.concurrency import OVERLAP_RULE, UNLIMITED
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics
from functory.engine.triggers import cancel_on, firings, idempotency
from functory.engine.triggers import store as trigger_store
from functory.engine.triggers.admission import SuppressedMatch
from functory.engine.triggers.cancel_on import DueCancellation, EarlierMatch
from functory.triggers.definition import CompiledTrigger
from functory.triggers.routing.firing_metrics import count_firings
from functory.triggers.routing.trigger_set import TriggerSet

log = structlog.get_logger("functory.flow")

# Executions let in, and events carried out, in one transaction: it stays short.
BATCH = 200
# Seconds between two sweeps, and the rows of one.
SWEEP_SECONDS = 30.0
SWEEP_ROWS = 1000
# A key's moment is kept for a day after it is over, for people who look what was dropped.
RATE_LIMIT_RETENTION_SECONDS = 86_400.0


class ConcurrencyRelease:
    """Takes rounds; any number of processes may, rows are locked."""

    def __init__(self, database: Database, settings: Settings, triggers: TriggerSet) -> None:
        self._database = database
        self._settings = settings
        self._triggers = triggers
        self._limits_version = -1
        self._swept_at: float | None = None

    def run_once(self) -> bool:
        """One round. True when there may be more at once. Raises :class:`Unavailable`."""
        with self._database.read() as tx:
            cancel = cancel_on.are_due(tx)
            # With a changed limit there may be room that the rows do not show yet.
            changed = trigger_store.set_version(tx) != self._limits_version and bool(
                concurrency.waiting_trigger_ids(tx)
            )
            grant = changed or slot_assignment.can_assign_slots(tx)
        more = self._cancel() if cancel else False
        return (self._grant() if grant else False) or more

    def next_due(self) -> float | None:
        """Seconds until the next execution that is held may stand in line."""
        with self._database.read() as tx:
            moment = concurrency.next_due(tx)
            return None if moment is None else max(0.0, (moment - tx.now).total_seconds())

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
            counts = firings.write(tx, [], refused, self._settings.root_budget)
        count_firings(counts)
        if cancelled:
            log.info("executions cancelled by events", executions=cancelled)
        return len(due) >= BATCH

    def _grant(self) -> bool:
        with self._database.write() as tx:
            self._apply_limits(tx)
            return bool(slot_assignment.assign_slots(tx, BATCH))

    def _apply_limits(self, tx: Tx) -> None:
        """Let the limits of triggers as they are now hold for what waits already."""
        self._triggers.refresh(tx)
        if self._triggers.version == self._limits_version:
            return
        for id_ in concurrency.waiting_trigger_ids(tx):
            compiled = self._triggers.get(id_)
            if compiled is not None:
                concurrency.update_capacities(tx, id_, _capacities(compiled))
        self._limits_version = self._triggers.version

    def sweep(self) -> None:
        """Now and then: give back what nobody gave back, forget what is over."""
        now = self._database.clock.monotonic()
        if self._swept_at is not None and now - self._swept_at < SWEEP_SECONDS:
            return
        self._swept_at = now
        # A router that did not know of a change yet may have written the old limit after it.
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
    """Whether the rule of a cancellation holds for something that an earlier event started."""
    if cancellation.rule >= len(compiled.flow.cancel_on):
        return False
    rule, event = compiled.flow.cancel_on[cancellation.rule], cancellation.event
    if rule.timeout is not None and event["time"] - started.since > timedelta(seconds=rule.timeout):
        return False
    result = rule.evaluate(event_store.envelope(event), event_store.envelope(started.event), now)
    if result.problem is not None:
        metrics.condition_errors.labels(metrics.trigger_label(compiled.name), result.kind or "error").inc()
    return result.matched


def _capacities(compiled: CompiledTrigger) -> dict[int, int]:
    """What a trigger's limits let in, by rule of the slot."""
    found = {rule: limit.limit for rule, limit in enumerate(compiled.flow.concurrency)}
    if compiled.flow.overlap is not None:
        found[OVERLAP_RULE] = UNLIMITED if compiled.flow.overlap.policy == "allow_all" else 1
    return found
