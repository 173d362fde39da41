"""The tallies in schema 0009, and an index of what the overview counts beside them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Instant, Json


def create() -> None:
    """Create the table and the index. The scheduler fills it, also from the last days."""
    op.create_table(
        "tally",
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("interval_seconds", sa.Integer(), nullable=False),
        sa.Column("begins_at", Instant(), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("outcome", sa.String(length=32), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("queued", Json(), nullable=False),
        sa.Column("run", Json(), nullable=False),
        sa.PrimaryKeyConstraint(
            "kind", "name", "interval_seconds", "begins_at", "version", "outcome", name=op.f("pk_tally")
        ),
    )
    op.create_index(
        "ix_tally_interval_seconds_begins_at", "tally", ["interval_seconds", "begins_at"], unique=False
    )
    failed = sa.text("state = 'failed'")
    op.create_index(
        "ix_compensation_failed",
        "compensation",
        ["saga_id"],
        unique=False,
        postgresql_where=failed,
        sqlite_where=failed,
    )


def drop() -> None:
    """Remove the table and the index."""
    op.drop_index("ix_compensation_failed", table_name="compensation")
    op.drop_table("tally")
    op.execute("DELETE FROM counter WHERE name LIKE 'tallies: %'")
