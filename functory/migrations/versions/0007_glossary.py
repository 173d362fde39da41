"""Tables and columns have the names of the glossary; all rate limits are in one table."""

import re

import sqlalchemy as sa
from alembic import op
from sqlalchemy.engine import Connection

from functory.engine.database.schema.column_types import Id, Instant, Words

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

# Old and new names; keys and indexes of a table carry its name and follow.
_TABLES = (
    ("lane", "concurrency_group"),
    ("once", "idempotency_key"),
    ("hold", "buffered_match"),
    ("bucket", "match_buffer"),
    ("widening", "grant_approval"),
    ("receipt", "delivery_receipt"),
    ("file_written", "file_write"),
)
_COLUMNS = (
    ("execution", "held", "waiting_for_slot"),
    ("execution", "laned", "has_concurrency"),
    ("slot", "lane", "group_key"),
)
_INDEXES = (
    # Its new name follows when its table is renamed.
    ("hold", "ix_hold_bucket", "ix_hold_buffer"),
    ("execution", "ix_execution_held", "ix_execution_waiting_for_slot"),
    ("execution", "ix_execution_backlog", "ix_execution_ready"),
)


def upgrade() -> None:
    for table, old, new in _COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    for table, old, new in _INDEXES:
        _rename_index(table, old, new)
    for old, new in _TABLES:
        _rename_table(old, new)
    op.create_table(
        "rate_limit",
        sa.Column("owner_id", Id, nullable=False),
        sa.Column("control", sa.String(length=16), nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("text", Words(), nullable=False),
        sa.Column("next_allowed_at", Instant(), nullable=False),
        sa.Column("dropped", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner_id", "control", "key", name=op.f("pk_rate_limit")),
    )
    op.create_index("ix_rate_limit_next_allowed_at", "rate_limit", ["next_allowed_at"], unique=False)
    # The rate guard's rows had a table of their own.
    op.execute(
        "INSERT INTO rate_limit (owner_id, control, key, text, next_allowed_at, dropped)"
        " SELECT trigger_id, control, key, text, next_at, dropped FROM pace"
        " UNION ALL SELECT trigger_id, 'rate_guard', subject, '', next_at, 0 FROM rate"
    )
    op.drop_table("pace")
    op.drop_table("rate")


def downgrade() -> None:
    op.create_table(
        "pace",
        sa.Column("trigger_id", Id, nullable=False),
        sa.Column("control", sa.String(length=16), nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("text", Words(), nullable=False),
        sa.Column("next_at", Instant(), nullable=False),
        sa.Column("dropped", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", "control", "key", name=op.f("pk_pace")),
    )
    op.create_index("ix_pace_next_at", "pace", ["next_at"], unique=False)
    op.create_table(
        "rate",
        sa.Column("trigger_id", Id, nullable=False),
        sa.Column("subject", sa.String(length=32), nullable=False),
        sa.Column("next_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", "subject", name=op.f("pk_rate")),
    )
    op.execute(
        "INSERT INTO pace (trigger_id, control, key, text, next_at, dropped)"
        " SELECT owner_id, control, key, text, next_allowed_at, dropped FROM rate_limit WHERE control <> 'rate_guard'"
    )
    op.execute(
        "INSERT INTO rate (trigger_id, subject, next_at)"
        " SELECT owner_id, key, next_allowed_at FROM rate_limit WHERE control = 'rate_guard'"
    )
    op.drop_table("rate_limit")
    for old, new in _TABLES:
        _rename_table(new, old)
    for table, old, new in _INDEXES:
        _rename_index(table, new, old)
    for table, old, new in _COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {new} TO {old}")


def _rename_table(old: str, new: str) -> None:
    """Rename a table with its keys and indexes."""
    connection = op.get_bind()
    # The table's name, alone or within the name of a key or an index.
    name = re.compile(rf"\b((?:pk|fk|uq|ix)_)?{old}(?=_|\b)")

    def renamed(text: str) -> str:
        return name.sub(rf"\g<1>{new}", text)

    if connection.dialect.name == "postgresql":
        op.execute(f"ALTER TABLE {old} RENAME TO {new}")
        for one in _postgresql_names(connection, "SELECT conname FROM pg_constraint WHERE conrelid", new):
            if renamed(one) != one:
                op.execute(f"ALTER TABLE {new} RENAME CONSTRAINT {one} TO {renamed(one)}")
        # A renamed key has renamed its index.
        indexes = "SELECT relname FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indrelid"
        for one in _postgresql_names(connection, indexes, new):
            if renamed(one) != one:
                op.execute(f"ALTER INDEX {one} RENAME TO {renamed(one)}")
        return
    # SQLite renames no keys: the table is made anew from its own definition.
    table, *indexes = _sqlite_definitions(connection, old)
    op.execute(renamed(table))
    op.execute(f"INSERT INTO {new} SELECT * FROM {old}")  # noqa: S608
    op.drop_table(old)
    for one in indexes:
        op.execute(renamed(one))


def _rename_index(table: str, old: str, new: str) -> None:
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        op.execute(f"ALTER INDEX {old} RENAME TO {new}")
        return
    (definition,) = (one for one in _sqlite_definitions(connection, table) if re.search(rf"\b{old}\b", one))
    op.drop_index(old, table_name=table)
    op.execute(re.sub(rf"\b{old}\b", new, definition))


def _postgresql_names(connection: Connection, query: str, table: str) -> list[str]:
    return list(
        connection.execute(sa.text(f"{query} = CAST(:table AS regclass)"), {"table": table}).scalars()
    )


def _sqlite_definitions(connection: Connection, table: str) -> list[str]:
    """The statements that create a table and its indexes, the table's first."""
    statement = (
        "SELECT sql FROM sqlite_schema WHERE tbl_name = :table AND sql IS NOT NULL ORDER BY type DESC, name"
    )
    return list(connection.execute(sa.text(statement), {"table": table}).scalars())
