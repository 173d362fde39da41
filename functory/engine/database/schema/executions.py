"""Tables of executions, their attempts, spans and logs, and their compensations."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Table, UniqueConstraint, text

from functory.engine.database.schema.column_types import Id, Instant, Json, State, Words
from functory.engine.database.schema.metadata import metadata, partial

STATES = ("queued", "running", "succeeded", "failed", "timed_out", "cancelled", "dead", "expired")

execution = Table(
    "execution",
    metadata,
    Column("id", Id, primary_key=True),
    Column("function", sa.String(200), nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("version_id", Id, ForeignKey("function_version.id"), nullable=False),
    Column("cause", sa.String(16), nullable=False),  # manual, api, trigger, parent, replay, compensation
    Column("trigger_id", Id),
    Column("event_id", Id),
    Column("parent_id", Id),
    Column("replay_of", Id),
    Column("root_id", Id, nullable=False),
    Column("depth", sa.Integer, nullable=False),
    Column("chain", Json, nullable=False),
    Column("idempotency_key", sa.String(255), unique=True),
    # Identifies a durable call within its parent: another attempt of the parent finds the execution by it.
    Column("step_key", sa.String(64)),
    Column("input", Json, nullable=False),
    Column("state", State(STATES), nullable=False),
    Column("attempt", sa.Integer, nullable=False, default=0),
    Column("failures", sa.Integer, nullable=False, default=0),
    Column("released", sa.Integer, nullable=False, default=0),
    Column("max_attempts", sa.Integer, nullable=False),
    Column("retries", sa.Integer, nullable=False),
    Column("fence", sa.Integer, nullable=False, default=0),
    Column("priority", sa.Integer, nullable=False, default=0),
    Column("run_at", Instant, nullable=False),
    # Its position among executions of the same priority: run_at, moved by the seconds of its trigger's priority.
    Column("queue_at", Instant),
    # Queued for slots of its concurrency groups (table slot): neither sent nor claimed before it has them all.
    Column("waiting_for_slot", sa.Boolean, nullable=False, server_default=sa.false(), default=False),
    # It has rows of table slot, which are deleted when it ends.
    Column("has_concurrency", sa.Boolean, nullable=False, server_default=sa.false(), default=False),
    # Of a throttled one: its throttle, the hash of the key (empty without a key), its place in the order of the key.
    Column("throttle", Json),
    Column("throttle_key", sa.String(32)),
    Column("throttle_place", Instant),
    Column("expires_at", Instant),
    Column("dispatched_at", Instant),
    Column("dispatch_count", sa.Integer, nullable=False, default=0),
    Column("lease_until", Instant),
    Column("worker_id", Words),
    Column("cancel_requested_at", Instant),
    Column("versions", Json),
    Column("result", Json),
    Column("result_kind", sa.String(8)),
    Column("warnings", Json),
    Column("error", Json),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    UniqueConstraint("trigger_id", "event_id"),
)
partial("ix_execution_queued", execution, [execution.c.expires_at], "state = 'queued'")
# Executions that were not sent yet: by due time, and in the order of functory.engine.executions.ready_queue.
_UNSENT = "state = 'queued' AND NOT waiting_for_slot AND dispatched_at IS NULL"
partial("ix_execution_due", execution, [execution.c.run_at], _UNSENT)
partial(
    "ix_execution_ready",
    execution,
    [execution.c.priority.desc(), execution.c.function, execution.c.queue_at, execution.c.id],
    _UNSENT,
)
partial(
    "ix_execution_sent",
    execution,
    [execution.c.dispatched_at],
    "state = 'queued' AND dispatched_at IS NOT NULL",
)
partial(
    "ix_execution_waiting_for_slot",
    execution,
    [execution.c.run_at],
    "waiting_for_slot AND state = 'queued'",
)
# Throttled executions that wait, in the order of their starts.
partial(
    "ix_execution_throttled",
    execution,
    [execution.c.trigger_id, execution.c.throttle_key, execution.c.throttle_place],
    "state = 'queued' AND throttle_key IS NOT NULL",
)
# Open executions of a trigger: for singletons, overlap policies and cancel-on.
partial("ix_execution_open_trigger", execution, [execution.c.trigger_id], "state IN ('queued', 'running')")
partial("ix_execution_running", execution, [execution.c.lease_until], "state = 'running'")
# A durable call runs once; one that did not succeed may run again.
Index(
    "uq_execution_step",
    execution.c.parent_id,
    execution.c.step_key,
    unique=True,
    postgresql_where=text("step_key IS NOT NULL AND state IN ('queued', 'running', 'succeeded')"),
    sqlite_where=text("step_key IS NOT NULL AND state IN ('queued', 'running', 'succeeded')"),
)
Index("ix_execution_root_id", execution.c.root_id)
Index("ix_execution_parent_id", execution.c.parent_id)
partial("ix_execution_replay_of", execution, [execution.c.replay_of], "replay_of IS NOT NULL")
Index("ix_execution_function", execution.c.function, execution.c.id)

attempt = Table(
    "attempt",
    metadata,
    Column("execution_id", Id, ForeignKey("execution.id"), primary_key=True),
    Column("fence", sa.Integer, primary_key=True),
    Column("number", sa.Integer, nullable=False),
    Column("worker_id", Words, nullable=False),
    Column("isolation", sa.String(16)),
    # Confinement of the attempt: version's hash, environment, grants, limits.
    Column("sandbox", Json),
    Column("started_at", Instant, nullable=False),
    Column("ended_at", Instant),
    Column(
        "outcome",
        State(("succeeded", "failed", "timed_out", "crashed", "lost", "released", "cancelled")),
    ),
    Column("error", Json),
    Column("duration_seconds", sa.Float),
    Column("waited_seconds", sa.Float),
    # Seconds from dispatch to claim; the redispatch delay is derived from it.
    Column("queued_seconds", sa.Float),
)

span = Table(
    "span",
    metadata,
    Column("execution_id", Id, ForeignKey("execution.id"), primary_key=True),
    Column("fence", sa.Integer, primary_key=True),
    Column("seq", sa.Integer, primary_key=True),
    Column("parent_seq", sa.Integer),
    Column("function", sa.String(200), nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("input", Json),
    Column("output", Json),
    Column("error", Json),
    Column("offset_seconds", sa.Float, nullable=False),
    Column("duration_seconds", sa.Float),
)

log = Table(
    "log",
    metadata,
    Column("execution_id", Id, ForeignKey("execution.id"), primary_key=True),
    Column("fence", sa.Integer, primary_key=True),
    Column("seq", sa.Integer, primary_key=True),
    Column("stream", sa.String(8), nullable=False),  # stdout, stderr, log
    Column("level", sa.String(8), nullable=False),
    Column("text", Words, nullable=False),
    Column("offset_seconds", sa.Float, nullable=False),
)

# What is to be undone because an execution (the saga) failed for good: one row a step, the newest step first.
compensation = Table(
    "compensation",
    metadata,
    Column("saga_id", Id, ForeignKey("execution.id"), primary_key=True),
    Column("position", sa.Integer, primary_key=True),  # 1 is undone first
    # The step: an execution, or with fence and seq one of its spans.
    Column("step_id", Id, ForeignKey("execution.id"), nullable=False),
    Column("step_fence", sa.Integer, nullable=False, server_default="0", default=0),
    Column("step_seq", sa.Integer, nullable=False, server_default="0", default=0),
    Column("function", sa.String(200), nullable=False),  # the step's
    Column("compensate", sa.String(220), nullable=False),  # name or name@number of what undoes it
    Column("state", State(("waiting", "pending", "running", "done", "failed", "skipped")), nullable=False),
    Column("execution_id", Id),  # the newest that undoes it
    Column("problem", Words),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    # Whatever fails around it: a step is undone once.
    UniqueConstraint("step_id", "step_fence", "step_seq"),
)
partial(
    "ix_compensation_open",
    compensation,
    [compensation.c.saga_id],
    "state IN ('waiting', 'pending', 'running')",
)
