"""How long attempts stood in the queue; indexes by which the backlog is read in its order; what verify found."""

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Instant, Json

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


_QUARANTINED = sa.text("state = 'quarantined'")
_QUEUED = sa.text("state = 'queued'")
_UNSENT = sa.text("state = 'queued' AND NOT held AND dispatched_at IS NULL")
_SENT = sa.text("state = 'queued' AND dispatched_at IS NOT NULL")


def upgrade() -> None:
    op.add_column("attempt", sa.Column("queued_seconds", sa.Float(), nullable=True))
    op.drop_index("ix_execution_queued", table_name="execution")
    _index("ix_execution_queued", ["expires_at"], _QUEUED)
    _index("ix_execution_due", ["run_at"], _UNSENT)
    _index("ix_execution_backlog", [sa.text("priority DESC"), "function", "queue_at", "id"], _UNSENT)
    _index("ix_execution_sent", ["dispatched_at"], _SENT)
    op.create_index(
        "ix_event_quarantined",
        "event",
        ["id"],
        unique=False,
        postgresql_where=_QUARANTINED,
        sqlite_where=_QUARANTINED,
    )
    op.create_table(
        "verification",
        sa.Column("code", sa.String(length=8), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("examples", Json(), nullable=False),
        sa.Column("time", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("code", name=op.f("pk_verification")),
    )


def downgrade() -> None:
    op.drop_table("verification")
    op.drop_index("ix_event_quarantined", table_name="event")
    for name in ("ix_execution_sent", "ix_execution_backlog", "ix_execution_due", "ix_execution_queued"):
        op.drop_index(name, table_name="execution")
    _index("ix_execution_queued", [sa.text("priority DESC"), "queue_at", "id"], _QUEUED)
    op.drop_column("attempt", "queued_seconds")


def _index(name: str, columns: list[str | sa.TextClause], where: sa.TextClause) -> None:
    op.create_index(name, "execution", columns, unique=False, postgresql_where=where, sqlite_where=where)
