"""Tables of access: users, their tokens, and who is logged in.

No table has a secret of a user: of a password there is its argon2id hash, of a token, a cookie and a login link their
SHA-256 (each has 32 random bytes, so that a fast hash tells nothing about them).
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Table, UniqueConstraint

from functory.engine.database.schema.column_types import Id, Instant, Json, State, Words
from functory.engine.database.schema.metadata import metadata, partial

# SQL has a function named user, so the table has another name.
user_account = Table(
    "user_account",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", sa.String(200), nullable=False, unique=True),
    Column("state", State(("active", "disabled")), nullable=False),
    Column("role", sa.String(16), nullable=False),
    # Rights beyond those of the role.
    Column("rights", Json, nullable=False),
    # What the user sees and changes; NULL is everything.
    Column("labels", Json),
    # NULL for a user of an identity provider.
    Column("password", sa.String(200)),
    Column("password_at", Instant),
    # Of an identity provider: the hash of its name and of its name for the user.
    Column("identity", sa.String(64)),
    Column("preferences", Json, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("last_login_at", Instant),
)
partial(
    "uq_user_account_identity", user_account, [user_account.c.identity], "identity IS NOT NULL", unique=True
)

token = Table(
    "token",
    metadata,
    Column("id", Id, primary_key=True),
    Column("user_id", Id, ForeignKey("user_account.id"), nullable=False),
    Column("name", sa.String(200), nullable=False),
    Column("hash", sa.String(64), nullable=False, unique=True),
    # Its first characters, for people to tell tokens apart.
    Column("prefix", sa.String(16), nullable=False),
    Column("role", sa.String(16), nullable=False),
    Column("rights", Json, nullable=False),
    Column("labels", Json),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    # Precise to a minute.
    Column("last_used_at", Instant),
    UniqueConstraint("user_id", "name"),
)

# The open logins. One that ends is deleted.
login = Table(
    "login",
    metadata,
    Column("id", Id, primary_key=True),
    # NULL is the owner of a `functory dev` without accounts.
    Column("user_id", Id, ForeignKey("user_account.id")),
    Column("hash", sa.String(64), nullable=False, unique=True),
    Column("created_at", Instant, nullable=False),
    # The last time that the password was given.
    Column("confirmed_at", Instant, nullable=False),
    # Precise to a minute.
    Column("seen_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("address", sa.String(64), nullable=False),
    Column("agent", Words, nullable=False),
)
Index("ix_login_user_id", login.c.user_id)

# Links that log in the owner of a `functory dev`, once each.
login_link = Table(
    "login_link",
    metadata,
    Column("hash", sa.String(64), primary_key=True),
    Column("expires_at", Instant, nullable=False),
)
