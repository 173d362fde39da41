"""The tables, for PostgreSQL and SQLite alike.

Column names are the words of the docs; the migration scripts create what stands here. Hot queries
(pending events, unpublished events, queued and running executions) have partial indexes, so that
their cost follows the work that is open and not the history.
"""

from __future__ import annotations

from engine.tables.columns import Id, Instant, Json, Words
from engine.tables.events import event, firing, outbox
from engine.tables.executions import attempt, compensation, execution, log, span
from engine.tables.flow import bucket, cancellation, hold, lane, once, pace, slot
from engine.tables.functions import (
    environment,
    function,
    function_version,
    resolution,
    secret,
    state,
    widening,
)
from engine.tables.operations import audit, counter, switch, verification, worker
from engine.tables.schema import metadata
from engine.tables.sources import file_seen, file_written, receipt, schedule, schedule_tick, source
from engine.tables.triggers import breaker, budget, rate, suppression, trigger, trigger_version

__all__ = [
    "Id",
    "Instant",
    "Json",
    "Words",
    "metadata",
    "function",
    "function_version",
    "environment",
    "resolution",
    "widening",
    "state",
    "secret",
    "trigger",
    "trigger_version",
    "budget",
    "rate",
    "breaker",
    "suppression",
    "event",
    "outbox",
    "firing",
    "execution",
    "attempt",
    "span",
    "log",
    "compensation",
    "source",
    "receipt",
    "schedule",
    "schedule_tick",
    "file_seen",
    "file_written",
    "bucket",
    "hold",
    "lane",
    "slot",
    "pace",
    "once",
    "cancellation",
    "counter",
    "switch",
    "audit",
    "worker",
    "verification",
]
