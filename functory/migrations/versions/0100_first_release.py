"""The schema of the first release."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
from alembic import op

from functory.engine.database.clock import lowest_id

revision = "0100"
down_revision = None
branch_labels = None
depends_on = None

_WEEKS = 5


def upgrade() -> None:
    connection = op.get_bind()
    for statement in _statements():
        connection.exec_driver_sql(statement)
    if connection.dialect.name == "postgresql":
        for table in ("span", "log"):
            _create_partitions(connection, table)


def downgrade() -> None:
    tables = [found[1] for found in map(re.compile(r"CREATE TABLE (\S+)").search, _statements()) if found]
    for table in reversed(tables):
        op.execute(f"DROP TABLE {table}")


def _statements() -> list[str]:
    """Return the statements that make the tables and their indexes."""
    text = Path(__file__).with_name(f"{revision}_{op.get_bind().dialect.name}.sql").read_text("utf-8")
    return [statement for statement in text.split(";\n") if statement.strip()]


def _create_partitions(connection: sa.Connection, table: str) -> None:
    """Make those of this week and the next ones, and those for the rows of all times before and after them."""
    # Ids carry the server's time: the workers' clocks follow it.
    day: datetime = connection.scalar(
        sa.text("SELECT date_trunc('week', clock_timestamp() AT TIME ZONE 'UTC')")
    )
    starts = [day.replace(tzinfo=UTC) + timedelta(weeks=number) for number in range(_WEEKS + 1)]
    ids = [lowest_id(start) for start in starts]
    op.execute(f"CREATE TABLE {table}_before PARTITION OF {table} FOR VALUES FROM (MINVALUE) TO ('{ids[0]}')")
    for start, first, end in zip(starts, ids, ids[1:], strict=False):
        op.execute(
            f"CREATE TABLE {table}_{start:%Y%m%d} PARTITION OF {table} FOR VALUES FROM ('{first}') TO ('{end}')"
        )
    op.execute(f"CREATE TABLE {table}_rest PARTITION OF {table} DEFAULT")
