"""Where events come from, and what has been taken in already."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Table, UniqueConstraint

from functory.engine.database.schema.column_types import Id, Instant, Json, State, Words
from functory.engine.database.schema.metadata import metadata, partial

# Where events come from, of every kind: what is configured, who runs it now, and how far it has got.
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
    Column("author", Words, nullable=False),
    # The counter's value at the last change, as with triggers.
    Column("changed", sa.BigInteger, nullable=False, index=True),
    # One process runs a source at a time; it keeps the lease while it does.
    Column("holder", Words),
    Column("fence", sa.Integer, nullable=False, default=0),
    Column("lease_until", Instant),
    Column("cursor", Json(null=True), nullable=False),  # how far it has read; its kind knows the form
    Column("problem", Words),  # what is wrong at present
    Column("problem_at", Instant),
    Column("last_event_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("kind", "name"),
)

# What sources have taken in already, by the key that each arrival has by nature (a delivery id, an offset).
delivery_receipt = Table(
    "delivery_receipt",
    metadata,
    Column("source_id", Id, ForeignKey("source.id"), primary_key=True),
    Column("key", sa.String(255), primary_key=True),
    Column("event_id", Id, nullable=False),
    Column("time", Instant, nullable=False),
)
Index("ix_delivery_receipt_time", delivery_receipt.c.time)

# When a schedule is due next. A row of its own, so that a tick rewrites little.
schedule = Table(
    "schedule",
    metadata,
    Column("source_id", Id, ForeignKey("source.id"), primary_key=True),
    Column("version", sa.Integer, nullable=False),  # of the source, whose configuration this follows
    Column(
        "timing", sa.String(64), nullable=False
    ),  # hash of what says when: a change of anything else keeps next_at
    Column("next_at", Instant),  # with its jitter; none when it is paused or over
    Column("fire_at", Instant),  # the time in the calendar that next_at stands for
    Column("last_at", Instant),  # the time in the calendar that was decided about last
    Column("missed", sa.BigInteger, nullable=False, default=0),
    # Executions of its ticks that fail after this pause it; none when it is not to be paused.
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

# The files that a watch knows, by their path below its root. Paths are keyed by a hash: they are longer than an
# index takes. They are bytes, as the file system has them, in any encoding or none.
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
    Column("sha256", sa.String(64)),  # none for a file that is too large to be read or cannot be
    Column("problem", Words),  # why it could not be read
    Column("seen_at", Instant, nullable=False),
)
Index("ix_file_seen_inode", file_seen.c.source_id, file_seen.c.inode)

# What executions left in files that they may write, so that a watch knows whose work it sees.
file_write = Table(
    "file_write",
    metadata,
    Column("path_sha256", sa.String(64), primary_key=True),
    Column("content", sa.String(64), primary_key=True),  # its SHA-256; of a large file its size and time
    Column("execution_id", Id, primary_key=True),
    Column("time", Instant, nullable=False),
)
Index("ix_file_write_time", file_write.c.time)
