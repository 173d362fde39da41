"""The breaker of sources: until when it keeps one paused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Instant

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Roles of an earlier release leave it NULL: what they pause is resumed by a person.
    op.add_column("source", sa.Column("paused_until", Instant(), nullable=True))


def downgrade() -> None:
    op.drop_column("source", "paused_until")
