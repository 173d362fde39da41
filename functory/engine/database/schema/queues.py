"""Tables that find executions by their state: the backlog, what is in flight, and the durable calls.

The state itself is a column of ``execution``. A row of these tables is only the place where an execution is found, and
the transaction that changes the state moves it (:mod:`functory.engine.executions.queue_rows`). The tables are small,
because they hold open work and no history.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, Table

from functory.engine.database.schema.column_types import Id, Instant
from functory.engine.database.schema.metadata import metadata, partial

# Exactly the executions that are queued and not sent.
backlog = Table(
    "backlog",
    metadata,
    Column("execution_id", Id, primary_key=True),
    Column("function", sa.String(200), nullable=False),
    Column("trigger_id", Id),
    Column("priority", sa.Integer, nullable=False),
    Column("run_at", Instant, nullable=False),
    # Its position among executions of the same priority: run_at, moved by the seconds of its trigger's priority.
    Column("queue_at", Instant, nullable=False),
    # When it expires; NULL once it has been started.
    Column("expires_at", Instant),
    # Queued for slots of its concurrency groups (table slot): neither sent nor claimed before it has them all.
    Column("waiting_for_slot", sa.Boolean, nullable=False),
    # Of a throttled one: the hash of the throttle's key (empty without a key), its place in the order of the key.
    Column("throttle_key", sa.String(32)),
    Column("throttle_place", Instant),
)
# By due time, and in the order of functory.engine.executions.ready_queue.
partial("ix_backlog_due", backlog, [backlog.c.run_at], "NOT waiting_for_slot")
partial(
    "ix_backlog_ready",
    backlog,
    [backlog.c.priority.desc(), backlog.c.function, backlog.c.queue_at, backlog.c.execution_id],
    "NOT waiting_for_slot",
)
partial("ix_backlog_waiting_for_slot", backlog, [backlog.c.run_at], "waiting_for_slot")
# Throttled executions in the order of their starts.
partial(
    "ix_backlog_throttled",
    backlog,
    [backlog.c.trigger_id, backlog.c.throttle_key, backlog.c.throttle_place],
    "throttle_key IS NOT NULL",
)
# For cancel-on and for what a trigger has open.
partial("ix_backlog_trigger_id", backlog, [backlog.c.trigger_id], "trigger_id IS NOT NULL")
partial("ix_backlog_expires_at", backlog, [backlog.c.expires_at], "expires_at IS NOT NULL")

# Exactly the executions that are sent or running. The dispatch window keeps it so small that it needs no other index.
in_flight = Table(
    "in_flight",
    metadata,
    Column("execution_id", Id, primary_key=True),
    Column("function", sa.String(200), nullable=False),
    Column("trigger_id", Id),
    Column("priority", sa.Integer, nullable=False),
    Column("queue_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("throttle_key", sa.String(32)),
    Column("throttle_place", Instant),
    # The first sending since it was queued; NULL if a worker took it without a message.
    Column("dispatched_at", Instant),
    Column("dispatch_count", sa.Integer, nullable=False),
    # A worker has claimed it: it is running.
    Column("claimed", sa.Boolean, nullable=False),
    # A claim updates the row.
    postgresql_with={"fillfactor": 50},
)

# Durable calls of a parent: another attempt of the parent finds the execution by the key of the step. A call runs once;
# one that did not succeed may run again, and its row then names the new execution.
durable_call = Table(
    "durable_call",
    metadata,
    Column("parent_id", Id, primary_key=True),
    Column("step_key", sa.String(64), primary_key=True),
    Column("execution_id", Id, nullable=False),
)
