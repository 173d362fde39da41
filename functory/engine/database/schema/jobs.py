"""Tables of jobs: work that takes longer than a request may, and survives the process that began it."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, Table

from functory.engine.database.schema.column_types import Id, Instant, Json, State, Words
from functory.engine.database.schema.metadata import metadata, partial

# One action on many executions (functory.engine.executions.batches).
batch = Table(
    "batch",
    metadata,
    Column("id", Id, primary_key=True),
    Column("action", sa.String(16), nullable=False),  # retry, replay, cancel
    # The executions: a filter of their list, or their ids.
    Column("filters", Json),
    Column("ids", Json),
    # Replays run the active version.
    Column("latest", sa.Boolean, nullable=False),
    Column("at_most", sa.Integer, nullable=False),
    # The labels that its author is limited to.
    Column("scope", Json),
    Column("author", Words, nullable=False),
    Column("reason", Words, nullable=False),
    Column("state", State(("waiting", "running", "done", "cancelled")), nullable=False),
    # The executions that the batch found when it was made; NULL if they were too many to count.
    Column("total", sa.Integer),
    # The last execution that was handled. Those of a filter are handled from the newest to the oldest.
    Column("last_id", Id),
    Column("seen", sa.Integer, nullable=False),
    Column("done", sa.Integer, nullable=False),
    Column("failed", sa.Integer, nullable=False),
    # The first of those that failed: execution_id and error.
    Column("problems", Json, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("finished_at", Instant),
    # A process works on it until then.
    Column("lease_until", Instant),
    Column("idempotency_key", sa.String(255)),
)
partial("ix_batch_open", batch, [batch.c.id], "state IN ('waiting', 'running')")
partial(
    "uq_batch_idempotency_key",
    batch,
    [batch.c.idempotency_key],
    "idempotency_key IS NOT NULL",
    unique=True,
)

# Decides again on stored events, for a trigger or a draft of it (functory.engine.firings.backtest_jobs).
backtest = Table(
    "backtest",
    metadata,
    Column("id", Id, primary_key=True),
    Column("trigger", sa.String(200), nullable=False),
    # A definition as it was given; NULL for the stored one.
    Column("draft", Json),
    Column("since", Instant, nullable=False),
    # The labels that its author is limited to.
    Column("scope", Json),
    Column("author", Words, nullable=False),
    Column("state", State(("waiting", "running", "done", "failed", "cancelled")), nullable=False),
    # Events to decide about, and those that are done.
    Column("total", sa.BigInteger),
    Column("done", sa.BigInteger, nullable=False),
    # The result of the newest part of the time, while the whole is not known.
    Column("partial", Json),
    Column("result", Json),
    Column("problem", Words),
    Column("created_at", Instant, nullable=False),
    Column("finished_at", Instant),
    # A process works on it until then.
    Column("lease_until", Instant),
    Column("idempotency_key", sa.String(255)),
)
partial("ix_backtest_open", backtest, [backtest.c.id], "state IN ('waiting', 'running')")
partial(
    "uq_backtest_idempotency_key",
    backtest,
    [backtest.c.idempotency_key],
    "idempotency_key IS NOT NULL",
    unique=True,
)
