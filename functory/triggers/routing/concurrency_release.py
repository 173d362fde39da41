"""The half of a turn that lets executions go: cancellations, then those that stand in line for a lane."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from functory.engine.database.connection import Database, Tx
from functory.engine.events import store as event_store
from functory.engine.flow_control import concurrency, rate_limits
from functory.engine.flow_control.concurrency import OVERLAP_RULE, UNLIMITED
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics
from functory.engine.triggers import cancel_on, idempotency, routing
from functory.engine.triggers.cancel_on import CancelCheck
from functory.engine.triggers.routing import RoutingResult
from functory.triggers.definition import CompiledTrigger
from functory.triggers.routing.counters import count_firings
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
            changed = routing.trigger_set_version(tx) != self._limits_version and bool(
                concurrency.waiting_trigger_ids(tx)
            )
            grant = changed or concurrency.can_assign_slots(tx)
        more = self._cancel() if cancel else False
        return (self._grant() if grant else False) or more

    def due_in(self) -> float | None:
        """Seconds until the next execution that is held may stand in line."""
        with self._database.read() as tx:
            moment = concurrency.next_due(tx)
            return None if moment is None else max(0.0, (moment - tx.now).total_seconds())

    def _cancel(self) -> bool:
        with self._database.write() as tx:
            self._triggers.refresh(tx)
            done = cancel_on.apply_due(
                tx,
                BATCH,
                lambda id_: found.row if (found := self._triggers.get(id_)) else None,
                lambda asked: self._rule_matches(asked, tx.now),
            )
            routed = RoutingResult()
            routing.write_firings(tx, [], done.refused, self._settings.root_budget, routed)
        count_firings(routed)
        if done.cancelled:
            log.info("cancelled by events", executions=done.cancelled)
        return done.processed >= BATCH

    def _rule_matches(self, asked: CancelCheck, now: datetime) -> bool:
        compiled = self._triggers.get(asked.trigger_id)
        if compiled is None or asked.rule >= len(compiled.flow.cancel_on):
            return False
        rule = compiled.flow.cancel_on[asked.rule]
        if rule.timeout is not None and asked.event["time"] - asked.since > timedelta(seconds=rule.timeout):
            return False
        verdict = rule.evaluate(event_store.envelope(asked.event), event_store.envelope(asked.started), now)
        if verdict.problem is not None:
            metrics.condition_errors.labels(
                metrics.trigger_label(compiled.name), verdict.kind or "error"
            ).inc()
        return verdict.matched

    def _grant(self) -> bool:
        with self._database.write() as tx:
            self._apply_limits(tx)
            return bool(concurrency.assign_slots(tx, BATCH))

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


def _capacities(compiled: CompiledTrigger) -> dict[int, int]:
    """What a trigger's limits let in, by rule of the slot."""
    found = {rule: limit.limit for rule, limit in enumerate(compiled.flow.concurrency)}
    if compiled.flow.overlap is not None:
        found[OVERLAP_RULE] = UNLIMITED if compiled.flow.overlap.policy == "allow_all" else 1
    return found
