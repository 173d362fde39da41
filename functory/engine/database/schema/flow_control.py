"""What flow control holds: matches that wait, places in lanes, paces, keys that were seen."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Table

from functory.engine.database.schema.column_types import Id, Instant, Json, Words
from functory.engine.database.schema.metadata import metadata, partial

# Matches that wait, per trigger and key, for more events or for time to pass: debounce, batch, composites.
bucket = Table(
    "bucket",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("key", sa.String(32), primary_key=True),  # a hash; empty without a key
    Column("text", Words, nullable=False),  # the key as people read it
    Column(
        "kind", sa.String(16), nullable=False, server_default="debounce", default="debounce"
    ),  # debounce, batch, composite
    Column("opened_at", Instant, nullable=False),
    Column("due_at", Instant),  # when it is looked at next; none when only an event can change it
    Column("memory", Json(null=True), nullable=False),  # what a composite keeps beyond its events
    # How many matches wait in it, and the bytes of their data where they count.
    Column("count", sa.Integer, nullable=False, server_default="0", default=0),
    Column("bytes", sa.BigInteger, nullable=False, server_default="0", default=0),
    # How often it was decided about: a match with the same number has not been looked at yet.
    Column("round", sa.Integer, nullable=False, server_default="0", default=0),
    # What the trigger's ``changed`` was when it was decided about last.
    Column("changed", sa.BigInteger, nullable=False, server_default="0", default=0),
)
partial("ix_bucket_due", bucket, [bucket.c.due_at], "due_at IS NOT NULL")

hold = Table(
    "hold",
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
Index("ix_hold_bucket", hold.c.trigger_id, hold.c.key, hold.c.event_id)

# A lane lets so many executions of one key run at a time. Its row is what is locked to decide.
lane = Table(
    "lane",
    metadata,
    Column("key", sa.String(32), primary_key=True),  # a hash of scope, owner and value
    Column("text", Words, nullable=False),  # the same as people read it
    Column("capacity", sa.Integer, nullable=False),  # as the newest in it has it; each keeps its own
)

# An execution's place in a lane: it waits until taken_at is set, and gives the row back when it ends.
slot = Table(
    "slot",
    metadata,
    Column("lane", sa.String(32), primary_key=True),
    Column("execution_id", Id, ForeignKey("execution.id"), primary_key=True),
    Column(
        "rule", sa.Integer, nullable=False
    ),  # which limit of its trigger: functory.engine.flow_control.concurrency
    Column("capacity", sa.Integer, nullable=False),  # it waits until so few others are in
    Column("position", Id, nullable=False),  # the event's id: the order of the line
    Column("queue_at", Instant, nullable=False),  # the event's time, moved by its priority
    Column("taken_at", Instant),
)
partial("ix_slot_waiting", slot, [slot.c.lane, slot.c.queue_at, slot.c.position], "taken_at IS NULL")
partial("ix_slot_taken", slot, [slot.c.lane], "taken_at IS NOT NULL")
Index("ix_slot_execution_id", slot.c.execution_id)

# GCRA's moment of a throttle or a rate limit (the rate guard has a table of its own).
pace = Table(
    "pace",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("control", sa.String(16), primary_key=True),  # throttle, rate_limit
    Column("key", sa.String(32), primary_key=True),
    Column("text", Words, nullable=False),
    Column("next_at", Instant, nullable=False),
    Column("dropped", sa.BigInteger, nullable=False),
)
Index("ix_pace_next_at", pace.c.next_at)

# Keys that a trigger has run for already, until they are forgotten.
once = Table(
    "once",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("key", sa.String(32), primary_key=True),
    Column("text", Words, nullable=False),
    Column("event_id", Id, nullable=False),
    Column("expires_at", Instant, nullable=False),
)
Index("ix_once_expires_at", once.c.expires_at)

# Events that cancel what a trigger has started before them, until that is done.
cancellation = Table(
    "cancellation",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("event_id", Id, primary_key=True),
    Column("rule", sa.Integer, primary_key=True),  # which of the trigger's cancel-on rules
    Column("time", Instant, nullable=False),
)
