"""The table of bad ends in schema 0009."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Id


def create() -> None:
    """Create the table, with the executions that have ended badly so far."""
    op.create_table(
        "bad_end",
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("execution_id", Id, nullable=False),
        sa.PrimaryKeyConstraint("state", "execution_id", name=op.f("pk_bad_end")),
    )
    op.execute(
        "INSERT INTO bad_end (state, execution_id)"
        " SELECT state, id FROM execution WHERE state IN ('failed', 'timed_out', 'dead')"
    )


def drop() -> None:
    """Remove the table."""
    op.drop_table("bad_end")
