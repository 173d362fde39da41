"""The tables of memory, embeddings and annotations in schema 0010."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Id, Instant, Json, Words

TABLES = ("memory", "embedding", "annotation")


def create() -> None:
    """Create them."""
    _create_memory()
    _create_embedding()
    _create_annotation()


def drop() -> None:
    """Remove them."""
    for table in reversed(TABLES):
        op.drop_table(table)


def _create_memory() -> None:
    op.create_table(
        "memory",
        sa.Column("id", Id, nullable=False),
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("text", Words(), nullable=False),
        sa.Column("text_sha256", sa.String(length=64), nullable=False),
        sa.Column("importance", sa.Float(), nullable=False),
        sa.Column("source_execution_id", Id, nullable=True),
        sa.Column("run_id", Id, nullable=True),
        sa.Column("author", Words(), nullable=False),
        sa.Column("untrusted", sa.Boolean(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_memory")),
    )
    op.create_index("uq_memory_text", "memory", ["scope", "owner", "text_sha256"], unique=True)
    op.create_index("ix_memory_owner", "memory", ["scope", "owner", "id"], unique=False)
    _partial("ix_memory_source", "memory", "source_execution_id")
    _partial("ix_memory_run_id", "memory", "run_id")
    _partial("ix_memory_expires_at", "memory", "expires_at")


def _create_embedding() -> None:
    op.create_table(
        "embedding",
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("owner_id", Id, nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("text_sha256", sa.String(length=64), nullable=False),
        sa.Column("call_id", Id, nullable=True),
        sa.Column("dim", sa.Integer(), nullable=True),
        sa.Column("vector", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("kind", "owner_id", "model", name=op.f("pk_embedding")),
    )
    _partial("ix_embedding_call_id", "embedding", "call_id")


def _create_annotation() -> None:
    op.create_table(
        "annotation",
        sa.Column("function", sa.String(length=200), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("value", Json(), nullable=False),
        sa.Column("author", Words(), nullable=False),
        sa.Column("source_execution_id", Id, nullable=True),
        sa.Column("at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("function", "key", name=op.f("pk_annotation")),
    )


def _partial(name: str, table: str, column: str) -> None:
    where = sa.text(f"{column} IS NOT NULL")
    op.create_index(name, table, [column], unique=False, postgresql_where=where, sqlite_where=where)
