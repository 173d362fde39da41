"""Tables of access in schema 0009: users, tokens, logins; labels; the origin of an audit entry."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Id, Instant, Json, Words


def create() -> None:
    """Create them."""
    _create_users()
    _create_tokens()
    _create_logins()
    for table in ("function", "trigger"):
        op.add_column(table, sa.Column("labels", Json(), server_default=sa.text("'[]'"), nullable=False))
    op.add_column("audit", sa.Column("origin", Words(), nullable=True))
    op.add_column("audit", sa.Column("before_sha256", sa.String(length=64), nullable=True))
    op.add_column("audit", sa.Column("after_sha256", sa.String(length=64), nullable=True))
    op.add_column("audit", sa.Column("refused", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("audit", sa.Column("count", sa.Integer(), server_default=sa.text("1"), nullable=False))


def drop() -> None:
    """Remove them."""
    for column in ("count", "refused", "after_sha256", "before_sha256", "origin"):
        op.drop_column("audit", column)
    for table in ("trigger", "function"):
        op.drop_column(table, "labels")
    for table in ("login_link", "login", "token", "user_account"):
        op.drop_table(table)


def _create_users() -> None:
    op.create_table(
        "user_account",
        sa.Column("id", Id, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("rights", Json(), nullable=False),
        sa.Column("labels", Json(), nullable=True),
        sa.Column("password", sa.String(length=200), nullable=True),
        sa.Column("password_at", Instant(), nullable=True),
        sa.Column("identity", sa.String(length=64), nullable=True),
        sa.Column("preferences", Json(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.Column("last_login_at", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_user_account")),
        sa.UniqueConstraint("name", name=op.f("uq_user_account_name")),
    )
    known = sa.text("identity IS NOT NULL")
    op.create_index(
        "uq_user_account_identity",
        "user_account",
        ["identity"],
        unique=True,
        postgresql_where=known,
        sqlite_where=known,
    )


def _create_tokens() -> None:
    op.create_table(
        "token",
        sa.Column("id", Id, nullable=False),
        sa.Column("user_id", Id, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("prefix", sa.String(length=16), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("rights", Json(), nullable=False),
        sa.Column("labels", Json(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=False),
        sa.Column("last_used_at", Instant(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["user_account.id"], name=op.f("fk_token_user_id_user_account")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token")),
        sa.UniqueConstraint("hash", name=op.f("uq_token_hash")),
        sa.UniqueConstraint("user_id", "name", name=op.f("uq_token_user_id_name")),
    )


def _create_logins() -> None:
    op.create_table(
        "login",
        sa.Column("id", Id, nullable=False),
        sa.Column("user_id", Id, nullable=True),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("confirmed_at", Instant(), nullable=False),
        sa.Column("seen_at", Instant(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=False),
        sa.Column("agent", Words(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["user_account.id"], name=op.f("fk_login_user_id_user_account")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_login")),
        sa.UniqueConstraint("hash", name=op.f("uq_login_hash")),
    )
    op.create_index("ix_login_user_id", "login", ["user_id"], unique=False)
    op.create_table(
        "login_link",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("expires_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_login_link")),
    )
