"""Tables of events, their outbox, and firings: the decision of each trigger about each event."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Table

from functory.engine.database.schema.column_types import Id, Instant, Json, State, Words
from functory.engine.database.schema.metadata import metadata, partial

event = Table(
    "event",
    metadata,
    Column("id", Id, primary_key=True),
    Column("type", sa.String(255), nullable=False),
    Column("source", Words, nullable=False),
    Column("subject", Words),
    Column("time", Instant, nullable=False),
    Column("data", Json),
    # Extension attributes of the envelope (CloudEvents 1.0.2, section 1.5) of an event from outside.
    Column("extensions", Json),
    Column("root_id", Id, nullable=False),
    Column("cause_execution_id", Id),
    Column("depth", sa.Integer, nullable=False),
    Column("chain", Json, nullable=False),
    Column("dedup_key", sa.String(255), unique=True),
    Column("state", State(("pending", "routed", "quarantined")), nullable=False),
    Column("route_attempts", sa.Integer, nullable=False, default=0),
    Column("route_after", Instant),
    Column("problem", Words),
    Column("routed_at", Instant),
)
partial("ix_event_pending", event, [event.c.id], "state = 'pending'")
partial("ix_event_quarantined", event, [event.c.id], "state = 'quarantined'")
Index("ix_event_root_id", event.c.root_id)
Index("ix_event_cause_execution_id", event.c.cause_execution_id)
Index("ix_event_type", event.c.type, event.c.id)

# Events that are not on the broker yet. A separate table, so that publisher and router never lock the same rows.
outbox = Table(
    "outbox",
    metadata,
    Column("event_id", Id, ForeignKey("event.id"), primary_key=True),
    Column("time", Instant, nullable=False),
    # A publisher sends it until then; NULL while none does.
    Column("claimed_until", Instant),
)

firing = Table(
    "firing",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("event_id", Id, primary_key=True),
    Column("trigger_version", sa.Integer, nullable=False),
    Column("decision", State(("fired", "suppressed")), nullable=False),
    Column("reason", sa.String(32)),
    Column("limit_value", sa.Integer),
    Column("actual_value", sa.Integer),
    Column("detail", Words),
    Column("chain", Json),
    Column("execution_id", Id),
    # One of several events that started the execution together.
    Column("joint", sa.Boolean, nullable=False, server_default=sa.false(), default=False),
    Column("root_id", Id, nullable=False),
    Column("time", Instant, nullable=False),
)
Index("ix_firing_event_id", firing.c.event_id)
Index("ix_firing_root_id", firing.c.root_id)
partial("ix_firing_suppressed", firing, [firing.c.time], "decision = 'suppressed'")
partial("ix_firing_joint", firing, [firing.c.execution_id], "joint")
