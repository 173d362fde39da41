"""What the rows of sources say about their progress, in schema 0009."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Instant


def create() -> None:
    """Add the columns. Roles of an earlier release leave them as they are."""
    op.add_column("source", sa.Column("refused", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("source", sa.Column("waiting", sa.BigInteger(), nullable=True))
    op.add_column("source", sa.Column("looked_at", Instant(), nullable=True))


def drop() -> None:
    """Remove the columns."""
    op.drop_column("source", "looked_at")
    op.drop_column("source", "waiting")
    op.drop_column("source", "refused")
