"""The tables of canaries in schema 0010, and the open one of a function."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Id, Instant, Json, Words

TABLES = ("canary", "canary_execution")


def create() -> None:
    """Create them."""
    op.add_column("function", sa.Column("canary_id", Id, nullable=True))
    _create_canary()
    _create_canary_execution()


def drop() -> None:
    """Remove them."""
    for table in reversed(TABLES):
        op.drop_table(table)
    op.drop_column("function", "canary_id")


def _create_canary() -> None:
    op.create_table(
        "canary",
        sa.Column("id", Id, nullable=False),
        sa.Column("function_id", Id, nullable=False),
        sa.Column("function", sa.String(length=200), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("base", sa.Integer(), nullable=False),
        sa.Column("proposal_id", Id, nullable=True),
        sa.Column("unit", sa.String(length=16), nullable=False),
        sa.Column("share", sa.Float(), nullable=False),
        sa.Column("salt", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", Words(), nullable=True),
        sa.Column("edges", Json(), nullable=False),
        sa.Column("tilts", Json(), nullable=False),
        sa.Column("stages", Json(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("author", Words(), nullable=False),
        sa.Column("started_at", Instant(), nullable=False),
        sa.Column("deadline", Instant(), nullable=False),
        sa.Column("decided_at", Instant(), nullable=True),
        sa.Column("decided_by", Words(), nullable=True),
        sa.ForeignKeyConstraint(
            ["function_id"], ["function.id"], name=op.f("fk_canary_function_id_function")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_canary")),
    )
    op.create_index("ix_canary_function", "canary", ["function", "id"], unique=False)
    op.create_index(
        "uq_canary_open",
        "canary",
        ["function_id"],
        unique=True,
        postgresql_where=sa.text("state IN ('open', 'held')"),
        sqlite_where=sa.text("state IN ('open', 'held')"),
    )


def _create_canary_execution() -> None:
    op.create_table(
        "canary_execution",
        sa.Column("execution_id", Id, nullable=False),
        sa.Column("canary_id", Id, nullable=False),
        sa.Column("unit", sa.String(length=16), nullable=False),
        sa.Column("is_canary", sa.Boolean(), nullable=False),
        sa.Column("stage", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.PrimaryKeyConstraint("execution_id", name=op.f("pk_canary_execution")),
    )
    op.create_index(
        "ix_canary_execution_open",
        "canary_execution",
        ["canary_id", "execution_id"],
        unique=False,
        postgresql_where=sa.text("outcome IS NULL"),
        sqlite_where=sa.text("outcome IS NULL"),
    )
    op.create_index("ix_canary_execution_unit", "canary_execution", ["canary_id", "unit"], unique=False)
