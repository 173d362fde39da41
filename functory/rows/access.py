"""Rows of users, tokens, logins, and of the caller itself. None has a password, a token's text or a hash."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from functory.rows.base import Instant, Row


class Installation(Row):
    """What tells this installation from others."""

    name: str
    color: str


class Me(Row):
    """The caller."""

    name: str
    kind: Literal["user", "token", "owner"]
    role: str
    rights: list[str]
    labels: list[str] | None = Field(description="What the caller sees and changes; null is everything.")
    installation: Installation
    version: str
    login_expires_at: Instant | None
    confirmed_until: Instant | None = Field(
        description="After this a dangerous action needs the password again; null for callers without one."
    )
    has_password: bool
    preferences: dict[str, Any]


class LoginWays(Row):
    """How one can log in here."""

    password: bool
    link: bool
    provider: str | None = Field(description="Name of the identity provider.")
    advice: str | None = Field(description="What to do while no user can log in.")
    installation: Installation


class User(Row):
    """A user."""

    name: str
    role: str
    rights: list[str] = Field(description="Rights beyond those of the role.")
    labels: list[str] | None
    state: Literal["active", "disabled"]
    created_at: Instant
    updated_at: Instant
    password_at: Instant | None
    last_login_at: Instant | None


class UserRow(User):
    """A user in a list."""

    tokens: int
    logins: int


class Token(Row):
    """A token."""

    id: str
    name: str
    user: str
    role: str
    rights: list[str]
    labels: list[str] | None
    prefix: str
    created_at: Instant
    expires_at: Instant
    last_used_at: Instant | None


class NewToken(Token):
    """A token that was just made: the only answer with its text."""

    token: str


class Login(Row):
    """An open login."""

    id: str
    user: str
    created_at: Instant
    seen_at: Instant
    expires_at: Instant
    address: str
    agent: str
    current: bool = Field(description="It is the login of this request.")
