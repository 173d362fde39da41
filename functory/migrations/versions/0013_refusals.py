"""Why sources refused what came."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Json

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Roles of an earlier release count without a reason, so a source may have refused more than its reasons add up to.
    op.add_column("source", sa.Column("refusals", Json(), nullable=True))


def downgrade() -> None:
    op.drop_column("source", "refusals")
