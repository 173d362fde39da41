"""Tables of flow control: match buffers, concurrency groups and their slots, rate limits, idempotency keys."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Table

from functory.engine.database.schema.column_types import Id, Instant, Json, Words
from functory.engine.database.schema.metadata import metadata, partial

# Match buffers of debounce, batch and composites, one per trigger and key. Matches wait in them for more events
# or for time to pass.
match_buffer = Table(
    "match_buffer",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("key", sa.String(32), primary_key=True),  # a hash; empty without a key
    Column("text", Words, nullable=False),  # the key, readable
    Column(
        "kind", sa.String(16), nullable=False, server_default="debounce", default="debounce"
    ),  # debounce, batch, composite
    Column("opened_at", Instant, nullable=False),
    Column("due_at", Instant),  # time of the next decision; none when only an event can change it
    Column("memory", Json(null=True), nullable=False),  # state of a composite beyond its events
    # Number of waiting matches, and the bytes of their data where a limit counts them.
    Column("count", sa.Integer, nullable=False, server_default="0", default=0),
    Column("bytes", sa.BigInteger, nullable=False, server_default="0", default=0),
    # Number of decisions so far: a match with the same number has not been part of one yet.
    Column("round", sa.Integer, nullable=False, server_default="0", default=0),
    # The trigger's ``changed`` at the last decision.
    Column("changed", sa.BigInteger, nullable=False, server_default="0", default=0),
)
partial("ix_match_buffer_due", match_buffer, [match_buffer.c.due_at], "due_at IS NOT NULL")

buffered_match = Table(
    "buffered_match",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("event_id", Id, primary_key=True),
    Column(
        "part", sa.Integer, nullable=False
    ),  # the first part of a composite that it matches; 0 for all others
    Column(
        "parts", sa.Integer, nullable=False, server_default="1", default=1
    ),  # a bit for each part that it matches
    Column("key", sa.String(32), nullable=False),
    Column("trigger_version", sa.Integer, nullable=False),
    Column("event_time", Instant, nullable=False),
    Column("bytes", sa.Integer, nullable=False),
    Column("round", sa.Integer, nullable=False, server_default="0", default=0),
    Column("root_id", Id, nullable=False),
    Column("time", Instant, nullable=False),
)
Index(
    "ix_buffered_match_buffer", buffered_match.c.trigger_id, buffered_match.c.key, buffered_match.c.event_id
)

# At most ``capacity`` executions of a concurrency group run at once. Its row is locked to assign slots.
concurrency_group = Table(
    "concurrency_group",
    metadata,
    Column("key", sa.String(32), primary_key=True),  # a hash of scope, owner and value
    Column("text", Words, nullable=False),  # the same, readable
    Column("capacity", sa.Integer, nullable=False),  # of its newest slot; each slot keeps its own
)

# An execution's slot in a group: requested until taken_at is set. The row is deleted when the execution ends.
slot = Table(
    "slot",
    metadata,
    Column("group_key", sa.String(32), primary_key=True),
    Column("execution_id", Id, ForeignKey("execution.id"), primary_key=True),
    Column(
        "rule", sa.Integer, nullable=False
    ),  # which limit of its trigger: functory.engine.flow_control.concurrency
    Column("capacity", sa.Integer, nullable=False),  # it waits until fewer slots than this are taken
    Column("position", Id, nullable=False),  # the event's id: the order of the queue
    Column("queue_at", Instant, nullable=False),  # the event's time, moved by its priority
    Column("taken_at", Instant),
)
partial("ix_slot_waiting", slot, [slot.c.group_key, slot.c.queue_at, slot.c.position], "taken_at IS NULL")
partial("ix_slot_taken", slot, [slot.c.group_key], "taken_at IS NOT NULL")
Index("ix_slot_execution_id", slot.c.execution_id)

# GCRA state by key: of a trigger's throttle (reservations and starts), rate limit and rate guard, of a webhook, of
# logins.
rate_limit = Table(
    "rate_limit",
    metadata,
    Column("owner_id", Id, primary_key=True),  # a trigger, or the source of a webhook; zeros for logins
    Column(
        "control", sa.String(16), primary_key=True
    ),  # functory.engine.flow_control.rate_limits.RateLimitControl
    Column("key", sa.String(32), primary_key=True),  # a hash; empty without a key
    Column("text", Words, nullable=False),  # the key, readable
    Column("next_allowed_at", Instant, nullable=False),
    Column("dropped", sa.BigInteger, nullable=False),
)
Index("ix_rate_limit_next_allowed_at", rate_limit.c.next_allowed_at)

# Idempotency keys that a trigger has fired for, until they expire.
idempotency_key = Table(
    "idempotency_key",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("key", sa.String(32), primary_key=True),
    Column("text", Words, nullable=False),
    Column("event_id", Id, nullable=False),
    Column("expires_at", Instant, nullable=False),
)
Index("ix_idempotency_key_expires_at", idempotency_key.c.expires_at)

# Events that cancel a trigger's earlier executions, until that is done.
cancellation = Table(
    "cancellation",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("event_id", Id, primary_key=True),
    Column("rule", sa.Integer, primary_key=True),  # which of the trigger's cancel-on rules
    Column("time", Instant, nullable=False),
)
