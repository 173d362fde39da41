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
    if op.get_bind().dialect.name == "postgresql":
        _route_captured_rows(op.get_bind())
    op.drop_column("source", "paused_until")


def _route_captured_rows(connection: sa.Connection) -> None:
    """Let the changes of tables whose sources are paused no longer wait: an earlier release ends no pause, and schema
    0007 has no time to wait for.
    """
    ours = (
        "SELECT regexp_replace(pg_get_functiondef(oid), :wait, :plain) FROM pg_proc WHERE prosrc ~ :wait"
        " AND pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('event'))"
    )
    texts = {
        "wait": r"\(event_id, route_after\) VALUES \(id, '[^']*'::timestamptz\);",
        "plain": "(event_id) VALUES (id);",
    }
    for definition in connection.execute(sa.text(ours), texts).scalars().all():
        # The driver takes a percent sign for a parameter.
        connection.exec_driver_sql(definition.replace("%", "%%"))
