"""Tables for operations: counters, kill switches, audit log, workers, the last verification, the engine's clock."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, Table

from functory.engine.database.schema.column_types import Id, Instant, Json, Words
from functory.engine.database.schema.metadata import metadata

counter = Table(
    "counter",
    metadata,
    Column("name", sa.String(64), primary_key=True),
    Column("value", sa.BigInteger, nullable=False),
)

# Kill switches that stop a part of the engine. A row exists while its switch is on.
switch = Table(
    "switch",
    metadata,
    Column("name", sa.String(64), primary_key=True),
    Column("note", Words),
    Column("author", Words, nullable=False),
    Column("time", Instant, nullable=False),
)

# Actions of operators, among them grant approvals.
audit = Table(
    "audit",
    metadata,
    Column("id", Id, primary_key=True),
    Column("time", Instant, nullable=False),
    Column("author", Words, nullable=False),
    Column("action", sa.String(64), nullable=False),
    Column("subject", Words, nullable=False),
    Column("data", Json),
    # Where it came from: a program on a machine, or an address.
    Column("origin", Words),
    # Of the subject's content.
    Column("before_sha256", sa.String(64)),
    Column("after_sha256", sa.String(64)),
    # Attempts that were refused: how often in this minute.
    Column("refused", sa.Boolean, nullable=False, server_default=sa.false(), default=False),
    Column("count", sa.Integer, nullable=False, server_default=sa.text("1"), default=1),
)

worker = Table(
    "worker",
    metadata,
    Column("id", sa.String(200), primary_key=True),
    Column("slots", sa.Integer, nullable=False),
    Column("isolation", sa.String(16), nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),
)

# Result of the last check of each invariant (functory.engine.maintenance.verifier).
verification = Table(
    "verification",
    metadata,
    Column("code", sa.String(8), primary_key=True),  # I1 … I30
    Column("count", sa.BigInteger, nullable=False),
    Column("examples", Json, nullable=False),
    Column("time", Instant, nullable=False),
)

# How far the engine's time is ahead of the server's clock (functory.engine.database.clock_offset). One row.
clock = Table(
    "clock",
    metadata,
    Column("name", sa.String(16), primary_key=True),
    # The engine's time when the row was written.
    Column("reached_at", Instant, nullable=False),
    # Microseconds that it was ahead when the server's clock showed `since`.
    Column("ahead", sa.BigInteger, nullable=False),
    Column("since", Instant, nullable=False),
)
