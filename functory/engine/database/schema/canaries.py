"""Tables of canaries: a version of a function that gets a share of the executions, and what is known about it."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Table

from functory.engine.database.schema.column_types import Id, Instant, Json, State, Words
from functory.engine.database.schema.metadata import metadata, partial

CANARY_OPEN = ("open", "held")
CANARY_ENDED = ("promoted", "rolled_back", "stopped")
# One row for each canary, which is never pruned.
canary = Table(
    "canary",
    metadata,
    Column("id", Id, primary_key=True),
    Column("function_id", Id, ForeignKey("function.id"), nullable=False),
    Column("function", sa.String(200), nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("base", sa.Integer, nullable=False),  # the version that is active meanwhile
    Column("proposal_id", Id),
    Column("unit", State(("root", "subject")), nullable=False),
    Column("share", sa.Float, nullable=False),
    # The key of the hash that assigns units, as hex. It is secret: with it a sender could choose its version.
    Column("salt", sa.String(64), nullable=False),
    Column("state", State((*CANARY_OPEN, *CANARY_ENDED)), nullable=False),
    Column("reason", Words),  # of its state, for a person
    # Of the base before the start: the tenths of its durations, and how slower ones would move between them.
    Column("edges", Json, nullable=False),
    Column("tilts", Json, nullable=False),
    # Counts of units, one for each share that it had (functory.engine.releases.canary_counts).
    Column("stages", Json, nullable=False),
    # How often the counts were written: of two schedulers that have read the same units, one writes.
    Column("round", sa.Integer, nullable=False),
    Column("author", Words, nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("deadline", Instant, nullable=False),
    Column("decided_at", Instant),
    Column("decided_by", Words),
)
partial("uq_canary_open", canary, [canary.c.function_id], "state IN ('open', 'held')", unique=True)
Index("ix_canary_function", canary.c.function, canary.c.id)

# Each execution whose version was chosen while a canary was open, in the transaction that made it. An execution of a
# pinned version, a replay and a compensation have none.
CANARY_OUTCOMES = ("counted", "later", "left_out", "moved", "late")
canary_execution = Table(
    "canary_execution",
    metadata,
    Column("execution_id", Id, primary_key=True),
    Column("canary_id", Id, nullable=False),
    # The hash of its unit, as hex: a number below the share of 2^64 is of the canary.
    Column("unit", sa.String(16), nullable=False),
    Column("is_canary", sa.Boolean, nullable=False),
    Column("stage", sa.Integer, nullable=False),
    # counted: its unit was counted with it. later: another one of its unit was. left_out: cancelled or expired, and its
    # unit does not count. moved: it runs with the base since the roll-back. late: it ended after the canary.
    Column("outcome", State(CANARY_OUTCOMES)),
)
partial(
    "ix_canary_execution_open",
    canary_execution,
    [canary_execution.c.canary_id, canary_execution.c.execution_id],
    "outcome IS NULL",
)
Index("ix_canary_execution_unit", canary_execution.c.canary_id, canary_execution.c.unit)
