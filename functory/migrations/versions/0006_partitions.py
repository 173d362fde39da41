"""Spans and log lines by the week, on PostgreSQL; SQLite has no partitions."""

from datetime import UTC, timedelta

import sqlalchemy as sa
from alembic import op

from functory.engine.database.clock import lowest_id

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_TABLES = ("span", "log")
_WEEKS = 5


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    # Ids carry the server's time: the workers' clocks follow it.
    day = connection.scalar(sa.text("SELECT date_trunc('week', clock_timestamp() AT TIME ZONE 'UTC')"))
    this_week = day.replace(tzinfo=UTC)
    for table in _TABLES:
        before = f"{table}_before"
        op.execute(f"ALTER TABLE {table} RENAME TO {before}")
        op.execute(f"ALTER INDEX pk_{table} RENAME TO pk_{before}")
        op.execute(f"CREATE TABLE {table} (LIKE {before}) PARTITION BY RANGE (execution_id)")
        op.execute(f"ALTER TABLE {table} ADD CONSTRAINT pk_{table} PRIMARY KEY (execution_id, fence, seq)")
        op.execute(
            f"ALTER TABLE {table} ADD CONSTRAINT fk_{table}_execution_id_execution"
            " FOREIGN KEY (execution_id) REFERENCES execution (id)"
        )
        op.execute(f"CREATE TABLE {table}_rest PARTITION OF {table} DEFAULT")
        used = connection.scalar(sa.text(f"SELECT EXISTS (SELECT 1 FROM {before})"))  # noqa: S608
        start = this_week + timedelta(days=7) if used else this_week
        # What a wrong clock has made: it would not fit below the bound.
        op.execute(
            f"WITH late AS (DELETE FROM {before} WHERE execution_id >= '{lowest_id(start)}' RETURNING *)"  # noqa: S608
            f" INSERT INTO {table}_rest SELECT * FROM late"
        )
        op.execute(
            f"ALTER TABLE {table} ATTACH PARTITION {before} FOR VALUES FROM (MINVALUE) TO ('{lowest_id(start)}')"
        )
        for number in range(_WEEKS):
            first, end = (start + timedelta(days=7 * (number + more)) for more in (0, 1))
            range_ = f"execution_id >= '{lowest_id(first)}' AND execution_id < '{lowest_id(end)}'"
            late = f"SELECT EXISTS (SELECT 1 FROM {table}_rest WHERE {range_})"  # noqa: S608
            if not connection.scalar(sa.text(late)):
                op.execute(
                    f"CREATE TABLE {table}_{first:%Y%m%d} PARTITION OF {table}"
                    f" FOR VALUES FROM ('{lowest_id(first)}') TO ('{lowest_id(end)}')"
                )


def downgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in _TABLES:
        op.execute(f"ALTER TABLE {table} RENAME TO {table}_parts")
        op.execute(f"ALTER INDEX pk_{table} RENAME TO pk_{table}_parts")
        op.execute(f"CREATE TABLE {table} (LIKE {table}_parts)")
        op.execute(f"INSERT INTO {table} SELECT * FROM {table}_parts")  # noqa: S608
        op.execute(f"DROP TABLE {table}_parts")
        op.execute(f"ALTER TABLE {table} ADD CONSTRAINT pk_{table} PRIMARY KEY (execution_id, fence, seq)")
        op.execute(
            f"ALTER TABLE {table} ADD CONSTRAINT fk_{table}_execution_id_execution"
            " FOREIGN KEY (execution_id) REFERENCES execution (id)"
        )
