"""Tables of triggers, their versions, and the state of their guards."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Table

from functory.engine.database.schema.column_types import Id, Instant, Json, State, Words
from functory.engine.database.schema.events import firing
from functory.engine.database.schema.metadata import metadata

trigger = Table(
    "trigger",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", sa.String(200), nullable=False, unique=True),
    Column("state", State(("enabled", "paused", "shadow", "deleted")), nullable=False),
    Column("origin", sa.String(16), nullable=False),  # user, agent
    Column("version", sa.Integer, nullable=False),
    Column("note", Words),
    Column("labels", Json, nullable=False, server_default=sa.text("'[]'")),
    # Value of the counter at the last change: a router reads the triggers above the value that it knows.
    Column("changed", sa.BigInteger, nullable=False, index=True),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)

trigger_version = Table(
    "trigger_version",
    metadata,
    Column("trigger_id", Id, ForeignKey("trigger.id"), primary_key=True),
    Column("number", sa.Integer, primary_key=True),
    Column("definition", Json, nullable=False),
    Column("sha256", sa.String(64), nullable=False),
    Column("author", Words, nullable=False),
    Column("created_at", Instant, nullable=False),
)

# Joins a firing with the version of its trigger that decided.
decided_by_version = sa.and_(
    trigger_version.c.trigger_id == firing.c.trigger_id,
    trigger_version.c.number == firing.c.trigger_version,
)

budget = Table(
    "budget",
    metadata,
    Column("root_id", Id, primary_key=True),
    Column("used", sa.Integer, nullable=False),
    Column("maximum", sa.Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
)

breaker = Table(
    "breaker",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("trips", sa.Integer, nullable=False),
    Column("since", Instant, nullable=False),
    Column("open_until", Instant),
    # The median of its firings a minute, counted once it was needed.
    Column("usual_rate", sa.Integer),
    Column("usual_until", Instant),
)

# Suppressions by root, so that a flood of events is one row with a count.
suppression = Table(
    "suppression",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("root_id", Id, primary_key=True),
    Column("reason", sa.String(32), primary_key=True),
    Column("count", sa.Integer, nullable=False),
    # Those of them whose execution an operator has started since.
    Column("resumed", sa.Integer, nullable=False, server_default="0", default=0),
    Column("first_event_id", Id, nullable=False),
    Column("first_at", Instant, nullable=False),
    Column("last_at", Instant, nullable=False),
)

# The last failed match of each trigger, and how many there were; ``unreported`` of them since its last event.
trigger_failure = Table(
    "trigger_failure",
    metadata,
    Column("trigger_id", Id, primary_key=True),
    Column("count", sa.Integer, nullable=False),
    Column("unreported", sa.Integer, nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("event_id", Id, nullable=False),
    Column("reason", sa.String(32), nullable=False),
    Column("error", Words, nullable=False),
    Column("at", Instant, nullable=False),
    Column("reported_at", Instant),
)
