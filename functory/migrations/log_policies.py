"""The log policies of functions in schema 0009."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


def create() -> None:
    """Add the column. Workers of an earlier release keep all lines."""
    op.add_column("function", sa.Column("log_policy", sa.String(32), server_default="full", nullable=False))


def drop() -> None:
    """Remove the column."""
    op.drop_column("function", "log_policy")
