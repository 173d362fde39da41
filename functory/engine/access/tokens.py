"""Tokens: what programs send instead of a password.

A token belongs to a user and has at most the user's rights: those of its own that the user still has when it is used.
Its text is shown once; the database has its hash.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.access import credentials, roles, scopes
from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.schema import token, user_account
from functory.engine.errors import Conflict, Invalid, NotFound, Refused

DEFAULT_LIFETIME = timedelta(days=90)
MAX_LIFETIME = timedelta(days=3660)
MAX_TOKENS = 100
# How precise `last_used_at` is: a write for each use would be one for each request.
PRECISION = timedelta(minutes=1)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@+-]{0,99}")
_SHOWN = tuple(column for column in token.c if column.name != "hash")
_OF_USER = token.join(user_account, user_account.c.id == token.c.user_id)


class Tokens:
    """Creates, finds, lists and revokes tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        user: str,
        name: str,
        *,
        role: str | None = None,
        rights: Iterable[str] = (),
        labels: Iterable[str] | None = None,
        lifetime: timedelta = DEFAULT_LIFETIME,
        author: str = "",
    ) -> dict[str, Any]:
        """Create a token of ``user``. Returns its row with its ``token``, which is not stored.

        Without a ``role`` it has the user's. Raises :class:`NotFound`, :class:`Invalid`, :class:`Conflict` for a name
        that is taken, and :class:`Refused` for more than the user may do.
        """
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise Invalid(
                f"{str(name)[:80]!r} is not a valid name of a token",
                "letters, digits, spaces and . _ @ + - only",
            )
        if not timedelta() < lifetime <= MAX_LIFETIME:
            raise Invalid("wrong lifetime of a token", f"it is at most {MAX_LIFETIME.days} days")
        text = credentials.new_token()
        with self._database.write() as tx:
            owner = tx.first(
                sa.select(user_account).where(user_account.c.name == user.casefold()).with_for_update()
            )
            if owner is None:
                raise NotFound(f"user {user!r} not found", try_="functory user list")
            row = {
                "id": tx.new_id(),
                "user_id": owner["id"],
                "name": name,
                "hash": credentials.digest(text),
                "prefix": text[: credentials.SHOWN],
                "role": roles.check_role(owner["role"] if role is None else role),
                "rights": roles.check_extra(rights),
                "labels": owner["labels"] if labels is None else scopes.check_labels(labels),
                "created_at": tx.now,
                "expires_at": tx.now + lifetime,
            }
            _check_within(owner, row)
            count = sa.select(sa.func.count()).select_from(token).where(token.c.user_id == owner["id"])
            if tx.scalar(count) >= MAX_TOKENS:
                raise Conflict(f"{owner['name']} has {MAX_TOKENS} tokens", "revoke one first")
            if not tx.insert_missing(token, [row]):
                raise Conflict(f"{owner['name']} has a token {name!r} already", "choose another name")
            shown = {name: row[name] for name in ("role", "rights", "labels", "prefix")}
            data = shown | {"expires_at": row["expires_at"].isoformat()}
            audit.append(
                tx, author, "token.create", f"{owner['name']}/{name}", data, after=audit.digest(shown)
            )
        return self.get(row["id"]) | {"token": text}

    def get(self, id_: str) -> dict[str, Any]:
        """Return a token by its id, with the name of its ``user``. Raises :class:`NotFound`."""
        found = [row for row in self.list() if row["id"] == id_]
        if not found:
            raise NotFound(f"token {id_} not found", try_="functory token list")
        return found[0]

    def list(self, user: str | None = None) -> list[dict[str, Any]]:
        """Return the tokens of a user or of all, each with the name of its ``user``; no text of a token."""
        statement = sa.select(*_SHOWN, user_account.c.name.label("user")).select_from(_OF_USER)
        if user is not None:
            statement = statement.where(user_account.c.name == user.casefold())
        with self._database.read() as tx:
            return tx.rows(statement.order_by(user_account.c.name, token.c.name))

    def revoke(self, id_: str, *, author: str = "") -> None:
        """Delete a token by its id: the next request with it is refused. Raises :class:`NotFound`."""
        with self._database.write() as tx:
            row = tx.first(
                sa.select(token, user_account.c.name.label("user"))
                .select_from(_OF_USER)
                .where(token.c.id == id_)
            )
            if row is None or tx.execute(sa.delete(token).where(token.c.id == id_)).rowcount == 0:
                raise NotFound(f"token {id_} not found", try_="functory token list")
            shown = {name: row[name] for name in ("role", "rights", "labels", "prefix")}
            audit.append(
                tx, author, "token.revoke", f"{row['user']}/{row['name']}", before=audit.digest(shown)
            )
            tx.wake("access")

    def find(self, text: str) -> dict[str, Any] | None:
        """Return the token with this text and the ``user`` that it belongs to (a row), and note its use; None for one
        that is unknown, has expired, or whose user is disabled.
        """
        if not credentials.is_token(text):
            return None
        return self._valid(token.c.hash == credentials.digest(text), note_use=True)

    def with_id(self, id_: str) -> dict[str, Any] | None:
        """Return the token with this id as :meth:`find` does, without noting its use; None when it is not accepted."""
        return self._valid(token.c.id == id_, note_use=False)

    def _valid(self, which: sa.ColumnElement[bool], *, note_use: bool) -> dict[str, Any] | None:
        with self._database.read() as tx:
            row = tx.first(sa.select(token).where(which, token.c.expires_at > tx.now))
            user = row and tx.first(
                sa.select(user_account).where(
                    user_account.c.id == row["user_id"], user_account.c.state == "active"
                )
            )
            now = tx.now
        if not row or not user:
            return None
        if note_use and (row["last_used_at"] is None or now - row["last_used_at"] > PRECISION):
            with self._database.write() as tx:
                tx.execute(sa.update(token).where(token.c.id == row["id"]).values(last_used_at=tx.now))
        return row | {"user": user}


def _check_within(owner: dict[str, Any], row: dict[str, Any]) -> None:
    """Refuse a token with more rights or labels than its user has."""
    if owner["state"] != "active":
        raise Refused(f"{owner['name']} is disabled", "a disabled user has no use for a token")
    more = roles.rights_of(row) - roles.rights_of(owner)
    if more:
        raise Refused(
            f"{owner['name']} has not the right {min(more)}",
            "a token has at most the rights of its user",
            f"functory user show {owner['name']}",
        )
    if row["role"] == "admin" and row["labels"] is not None:
        raise Invalid(
            "an admin's token has no labels",
            "users, settings and the audit belong to the whole installation",
            "choose a smaller role for it: operator, author or viewer",
        )
    if owner["labels"] is not None and not set(row["labels"] or ()) <= set(owner["labels"]):
        raise Refused(
            f"{owner['name']} sees less than that",
            f"its labels are {', '.join(owner['labels']) or 'none'}",
            "choose labels among them",
        )
