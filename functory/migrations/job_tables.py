"""The tables of jobs in schema 0009: batches and backtests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Id, Instant, Json, Words


def create() -> None:
    """Create them."""
    _create_batches()
    _create_backtests()


def drop() -> None:
    """Remove them."""
    op.drop_table("backtest")
    op.drop_table("batch")


def _create_batches() -> None:
    op.create_table(
        "batch",
        sa.Column("id", Id, nullable=False),
        sa.Column("action", sa.String(length=16), nullable=False),
        sa.Column("filters", Json(), nullable=True),
        sa.Column("ids", Json(), nullable=True),
        sa.Column("latest", sa.Boolean(), nullable=False),
        sa.Column("at_most", sa.Integer(), nullable=False),
        sa.Column("scope", Json(), nullable=True),
        sa.Column("author", Words(), nullable=False),
        sa.Column("reason", Words(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("total", sa.Integer(), nullable=True),
        sa.Column("last_id", Id, nullable=True),
        sa.Column("seen", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("problems", Json(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("finished_at", Instant(), nullable=True),
        sa.Column("lease_until", Instant(), nullable=True),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batch")),
    )
    open_ = sa.text("state IN ('waiting', 'running')")
    op.create_index("ix_batch_open", "batch", ["id"], postgresql_where=open_, sqlite_where=open_)
    keyed = sa.text("idempotency_key IS NOT NULL")
    op.create_index(
        "uq_batch_idempotency_key",
        "batch",
        ["idempotency_key"],
        unique=True,
        postgresql_where=keyed,
        sqlite_where=keyed,
    )


def _create_backtests() -> None:
    op.create_table(
        "backtest",
        sa.Column("id", Id, nullable=False),
        sa.Column("trigger", sa.String(length=200), nullable=False),
        sa.Column("draft", Json(), nullable=True),
        sa.Column("since", Instant(), nullable=False),
        sa.Column("scope", Json(), nullable=True),
        sa.Column("author", Words(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=True),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.Column("partial", Json(), nullable=True),
        sa.Column("result", Json(), nullable=True),
        sa.Column("problem", Words(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("finished_at", Instant(), nullable=True),
        sa.Column("lease_until", Instant(), nullable=True),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backtest")),
    )
    open_ = sa.text("state IN ('waiting', 'running')")
    op.create_index("ix_backtest_open", "backtest", ["id"], postgresql_where=open_, sqlite_where=open_)
    keyed = sa.text("idempotency_key IS NOT NULL")
    op.create_index(
        "uq_backtest_idempotency_key",
        "backtest",
        ["idempotency_key"],
        unique=True,
        postgresql_where=keyed,
        sqlite_where=keyed,
    )
