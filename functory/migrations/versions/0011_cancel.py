"""Cancels that reach what an execution waits for: who cancelled, which children go along, how far each cancel got."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Id, Instant, Words

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("execution", sa.Column("cancelled_by", Words(), nullable=True))
    op.add_column("execution", sa.Column("ends_with_parent", sa.Boolean(), nullable=True))
    op.create_table(
        "open_cancel",
        sa.Column("execution_id", Id, nullable=False),
        sa.Column("whole_tree", sa.Boolean(), nullable=False),
        sa.Column("author", Words(), nullable=False),
        sa.Column("requested_at", Instant(), nullable=False),
        sa.Column("after_id", Id, nullable=True),
        sa.Column("found", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("pass_id", Id, nullable=True),
        sa.PrimaryKeyConstraint("execution_id", "whole_tree", name=op.f("pk_open_cancel")),
    )


def downgrade() -> None:
    op.drop_table("open_cancel")
    op.drop_column("execution", "ends_with_parent")
    op.drop_column("execution", "cancelled_by")
