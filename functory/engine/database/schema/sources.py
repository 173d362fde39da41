"""Tables of event sources: configuration, receipts of ingested events, schedules, known and written files."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Table, UniqueConstraint

from functory.engine.database.schema.column_types import Id, Instant, Json, State, Words
from functory.engine.database.schema.metadata import metadata, partial

# Event sources of every kind: configuration, the process that runs each, and its progress.
source = Table(
    "source",
    metadata,
    Column("id", Id, primary_key=True),
    Column("kind", sa.String(32), nullable=False),  # schedule, file, webhook, table, queue, or a plug-in's
    Column("name", sa.String(200), nullable=False),
    Column("state", State(("enabled", "paused", "deleted")), nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("config", Json, nullable=False),
    Column("note", Words),
    # Its breaker has paused it until then; NULL when a person has.
    Column("paused_until", Instant),
    Column("author", Words, nullable=False),
    # Value of the counter at the last change, as with triggers.
    Column("changed", sa.BigInteger, nullable=False, index=True),
    # One process at a time runs a source and renews its lease.
    Column("holder", Words),
    Column("fence", sa.Integer, nullable=False, default=0),
    Column("lease_until", Instant),
    Column("cursor", Json(null=True), nullable=False),  # how far it has read, in the form of its kind
    Column("problem", Words),  # the present problem
    Column("problem_at", Instant),
    Column("last_event_at", Instant),
    # Requests and messages that became no event; how many messages a queue holds; when the source was last looked at.
    Column("refused", sa.BigInteger, nullable=False, server_default="0"),
    # Why: a count and the newest time by reason (functory/engine/sources/refusals.py).
    Column("refusals", Json),
    Column("waiting", sa.BigInteger),
    Column("looked_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("kind", "name"),
)

# Deliveries that sources have ingested, by their natural key (a delivery id, an offset).
delivery_receipt = Table(
    "delivery_receipt",
    metadata,
    Column("source_id", Id, ForeignKey("source.id"), primary_key=True),
    Column("key", sa.String(255), primary_key=True),
    Column("event_id", Id, nullable=False),
    Column("time", Instant, nullable=False),
)
Index("ix_delivery_receipt_time", delivery_receipt.c.time)

# The next due time of a schedule. A separate row, so that a tick rewrites little.
schedule = Table(
    "schedule",
    metadata,
    Column("source_id", Id, ForeignKey("source.id"), primary_key=True),
    Column("version", sa.Integer, nullable=False),  # of the source, whose configuration this follows
    Column(
        "timing", sa.String(64), nullable=False
    ),  # hash of the timing fields: a change of other fields keeps next_at
    Column("next_at", Instant),  # with its jitter; none when it is paused or has ended
    Column("fire_at", Instant),  # the calendar time of next_at
    Column("last_at", Instant),  # the last calendar time with a decision
    Column("missed", sa.BigInteger, nullable=False, default=0),
    # A failed execution of a tick after this time pauses it; none without pause on failure.
    Column("watched_from", Instant),
)
partial("ix_schedule_due", schedule, [schedule.c.next_at], "next_at IS NOT NULL")
partial("ix_schedule_watched", schedule, [schedule.c.watched_from], "watched_from IS NOT NULL")

schedule_tick = Table(
    "schedule_tick",
    metadata,
    Column("schedule_id", Id, ForeignKey("source.id"), primary_key=True),
    Column("fire_time_utc", Instant, primary_key=True),
    Column("event_id", Id, nullable=False),
    Column("origin", sa.String(16), nullable=False),  # calendar, backfill, manual
    Column("time", Instant, nullable=False),
)
Index("ix_schedule_tick_event_id", schedule_tick.c.event_id)
Index("ix_schedule_tick_time", schedule_tick.c.time)

# Files that a watch knows, by their path below its root. The key is a hash: paths can be longer than an index allows.
# Paths are bytes, as in the file system, in any encoding.
file_seen = Table(
    "file_seen",
    metadata,
    Column("source_id", Id, ForeignKey("source.id"), primary_key=True),
    Column("path_sha256", sa.String(64), primary_key=True),
    Column("path", sa.LargeBinary, nullable=False),
    Column("size", sa.BigInteger, nullable=False),
    Column("mtime_ns", sa.BigInteger, nullable=False),
    Column("ctime_ns", sa.BigInteger, nullable=False),
    Column("inode", sa.String(48), nullable=False),  # device and inode: a rename keeps them
    Column("sha256", sa.String(64)),  # none for a file that is too large or unreadable
    Column("problem", Words),  # why it could not be read
    Column("seen_at", Instant, nullable=False),
)
Index("ix_file_seen_inode", file_seen.c.source_id, file_seen.c.inode)

# Files that executions have written, so that a watch can name the execution as the cause of its event.
file_write = Table(
    "file_write",
    metadata,
    Column("path_sha256", sa.String(64), primary_key=True),
    Column("content", sa.String(64), primary_key=True),  # its SHA-256; of a large file its size and time
    Column("execution_id", Id, primary_key=True),
    Column("time", Instant, nullable=False),
)
Index("ix_file_write_time", file_write.c.time)
