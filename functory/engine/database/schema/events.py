"""Tables of events, their queues, and firings: the decision of each trigger about each event.

``event`` is the truth about an event. Its updates touch no index (PostgreSQL: heap-only tuples), because what is open
is found in two small tables: ``routing_queue`` has the events that are not routed, ``outbox`` those that the broker has
not confirmed.
"""

from __future__ import annotations

from typing import Literal, get_args

import sqlalchemy as sa
from sqlalchemy import Column, Index, Table, text

from functory.engine.database.schema.column_types import Id, Instant, Json, State, Words
from functory.engine.database.schema.metadata import metadata, partial

# An event is updated once, when it is routed. All events of a page are often routed in one transaction, which needs
# room for the second version of each of them.
EVENT_FILLFACTOR = 50

EVENT_STATES = ("pending", "routed", "quarantined")
# Why a match did not fire (docs/reference/triggers.md).
SuppressionReason = Literal[
    "own_event", "cycle", "depth", "budget", "breaker_open", "rate", "source_rate", "repeat_rate", "trigger_paused",
    "shadow", "condition_error", "function_unavailable", "input_error", "undone", "idempotent", "rate_limited",
    "singleton", "overlap", "debounced", "unmatched", "late", "awaited", "cancelled", "trigger_deleted",
    "trigger_changed",
]  # fmt: skip
SUPPRESSION_REASONS: tuple[str, ...] = get_args(SuppressionReason)

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
    Column("dedup_key", sa.String(255)),
    Column("state", State(EVENT_STATES), nullable=False),
    Column("route_attempts", sa.Integer, nullable=False, default=0),
    Column("problem", Words),
    Column("routed_at", Instant),
    postgresql_with={"fillfactor": EVENT_FILLFACTOR},
)
# No index has a column that changes, and an event without a key or a cause costs no entry.
Index("ix_event_root_id", event.c.root_id)
Index("ix_event_type", event.c.type, event.c.id)
partial("ix_event_cause_execution_id", event, [event.c.cause_execution_id], "cause_execution_id IS NOT NULL")
Index(
    "uq_event_dedup_key",
    event.c.dedup_key,
    unique=True,
    postgresql_where=text("dedup_key IS NOT NULL"),
    sqlite_where=text("dedup_key IS NOT NULL"),
)

# The pending and the quarantined events: one row each. The key begins with ``quarantined``, so that routers pass over
# any number of quarantined events.
routing_queue = Table(
    "routing_queue",
    metadata,
    Column("quarantined", sa.Boolean, primary_key=True, server_default=sa.false(), default=False),
    Column("event_id", Id, primary_key=True),
    # Routing it has failed: the next try.
    Column("route_after", Instant),
    # The event is in the outbox, or was. If not, its router puts it there.
    Column("published", sa.Boolean, nullable=False, server_default=sa.false(), default=False),
)

# Batches of events that the broker has not confirmed: ids, not copies.
outbox = Table(
    "outbox",
    metadata,
    Column("id", Id, primary_key=True),
    # 16 bytes an event, in the order in which subscribers get them.
    Column("event_ids", sa.LargeBinary, nullable=False),
    Column("count", sa.Integer, nullable=False),
    # The least id of the batch.
    Column("first_id", Id, nullable=False),
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
