"""Users: who may do what in this installation.

Every change is one transaction with its audit entry. A change that takes something away ends the user's logins, or
holds from the next request on: each request reads the user's row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from pydantic import SecretStr

from functory.engine.access import passwords, roles, scopes
from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.schema import login, token, user_account
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, Invalid, NotFound
from functory.engine.serialization import json_codec

# Lower case only: two users whose names differ in their case would be taken for each other.
_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,99}")
# `functory dev` without accounts has an owner; the engine's own entries in the audit have the other name.
OWNER = "owner"
_RESERVED = (OWNER, "functory")
MAX_PREFERENCES = 16_384

_SHOWN = tuple(column for column in user_account.c if column.name not in ("password", "identity"))


class NameTaken(Conflict):
    """Another user has that name."""


class LastAdmin(Conflict):
    """After the change there would be no admin."""


class Users:
    """Creates, changes, lists and deletes users. No method returns a password's hash."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        name: str,
        password: SecretStr | None,
        *,
        role: str = "viewer",
        rights: Iterable[str] = (),
        labels: Iterable[str] | None = None,
        identity: str | None = None,
        author: str = "",
    ) -> dict[str, Any]:
        """Create a user. One without a password logs in by an identity provider (``identity``) or not at all.

        Raises :class:`Invalid`, and :class:`Conflict` for a name that is taken.
        """
        name = check_name(name)
        access = _access(role, rights, labels)
        stored = None
        if password is not None:
            passwords.check(password, name)
            stored = passwords.hash_(password)
        with self._database.write() as tx:
            row = access | {
                "id": tx.new_id(),
                "name": name,
                "state": "active",
                "password": stored,
                "password_at": tx.now if stored else None,
                "identity": identity,
                "preferences": {},
                "created_at": tx.now,
                "updated_at": tx.now,
            }
            if not tx.insert_missing(user_account, [row]):
                raise NameTaken(f"there is a user {name} already", try_=f"functory user show {name}")
            data = access | {"password": stored is not None, "identity": identity is not None}
            audit.append(tx, author, "user.create", name, data, after=_digest(row))
        return self.get(name)

    def of_identity(
        self, identity: str, name: str, *, role: str, labels: Iterable[str] | None
    ) -> dict[str, Any]:
        """Return the user that an identity provider knows, with this role and these labels. It is made under ``name``
        at its first login. Raises :class:`NameTaken`, and :class:`LastAdmin` for a role that takes the last one away.
        """
        with self._database.write() as tx:
            row = tx.first(
                sa.select(user_account).where(user_account.c.identity == identity).with_for_update()
            )
            if row is not None:
                access = _access(role, row["rights"], labels)
                _change(tx, row, access, "user.update", "identity provider")
        if row is not None:
            return self.get(row["name"])
        return self.create(
            name, None, role=role, labels=labels, identity=identity, author="identity provider"
        )

    def get(self, name: str) -> dict[str, Any]:
        """Return a user. Raises :class:`NotFound`."""
        with self._database.read() as tx:
            row = tx.first(sa.select(*_SHOWN).where(user_account.c.name == name.casefold()))
        if row is None:
            raise _missing(name)
        return row

    def list(self) -> list[dict[str, Any]]:
        """Return all users by name, each with the number of its ``tokens`` and open ``logins``."""
        counts = [
            sa.select(sa.func.count())
            .select_from(table)
            .where(table.c.user_id == user_account.c.id)
            .scalar_subquery()
            .label(name)
            for name, table in (("tokens", token), ("logins", login))
        ]
        with self._database.read() as tx:
            return tx.rows(sa.select(*_SHOWN, *counts).order_by(user_account.c.name))

    def has_admin(self) -> bool:
        """True when there is an admin who can log in."""
        with self._database.read() as tx:
            return _admins(tx) > 0

    def update(
        self,
        name: str,
        *,
        role: str | None = None,
        rights: Iterable[str] | None = None,
        labels: Iterable[str] | None = None,
        everything: bool = False,
        state: str | None = None,
        author: str = "",
    ) -> dict[str, Any]:
        """Change the role, the extra rights, the labels or the state; what is None stays. ``everything`` takes the
        limit by labels away. A disabled user is logged out, and its tokens are refused.

        Raises :class:`NotFound`, :class:`Invalid`, and :class:`Conflict` for the last admin.
        """
        if state not in (None, "active", "disabled"):
            raise Invalid(f"unknown state {state!r}", "a user is active or disabled")
        with self._database.write() as tx:
            row = _locked(tx, name)
            access = _access(
                row["role"] if role is None else role,
                row["rights"] if rights is None else rights,
                None if everything else row["labels"] if labels is None else labels,
            )
            _change(tx, row, access, "user.update", author)
            if state is not None and row["state"] != state:
                verb = "enable" if state == "active" else "disable"
                _change(tx, {**row, **access}, {"state": state}, f"user.{verb}", author)
                if state == "disabled":
                    _end_logins(tx, row["id"])
        return self.get(name)

    def set_state(self, name: str, state: str, *, author: str = "") -> dict[str, Any]:
        """active ⇄ disabled. Raises as :meth:`update`."""
        return self.update(name, state=state, author=author)

    def set_password(
        self, name: str, password: SecretStr, *, author: str = "", keep_login: str | None = None
    ) -> None:
        """Give a user another password, and end its logins but the one with the id ``keep_login``.

        Raises :class:`NotFound`, :class:`Invalid`.
        """
        name = check_name(name)
        passwords.check(password, name)
        stored = passwords.hash_(password)
        with self._database.write() as tx:
            row = _locked(tx, name)
            tx.execute(
                sa.update(user_account)
                .where(user_account.c.id == row["id"])
                .values(password=stored, password_at=tx.now, updated_at=tx.now)
            )
            _end_logins(tx, row["id"], keep_login)
            audit.append(tx, author, "user.password", name)

    def set_preferences(self, name: str, preferences: Mapping[str, Any]) -> None:
        """Store what the user chose for the pages. Raises :class:`NotFound`, :class:`Invalid` for too much."""
        if len(json_codec.dumps(preferences)) > MAX_PREFERENCES:
            raise Invalid("too many preferences", f"at most {MAX_PREFERENCES} characters of JSON are kept")
        with self._database.write() as tx:
            row = _locked(tx, name)
            tx.execute(
                sa.update(user_account)
                .where(user_account.c.id == row["id"])
                .values(preferences=dict(preferences))
            )

    def delete(self, name: str, *, author: str = "") -> None:
        """Delete a user with its tokens and logins; the audit keeps its name. Raises as :meth:`update`."""
        with self._database.write() as tx:
            row = _locked(tx, name)
            _keep_an_admin(tx, row, {"state": "disabled"})
            _end_logins(tx, row["id"])
            tx.execute(sa.delete(token).where(token.c.user_id == row["id"]))
            tx.execute(sa.delete(user_account).where(user_account.c.id == row["id"]))
            audit.append(tx, author, "user.delete", name, before=_digest(row))


def check_name(name: str) -> str:
    """Return the name as it is stored. Raises :class:`Invalid` for one that cannot be a user's."""
    text = name.casefold() if isinstance(name, str) else ""
    if not _NAME.fullmatch(text) or text in _RESERVED:
        raise Invalid(
            f"{str(name)[:80]!r} is not a user's name",
            f"it is reserved: {', '.join(_RESERVED)}"
            if text in _RESERVED
            else "characters from a to z, digits and . _ @ + - only, at most 100 characters",
        )
    return text


def _access(role: str, rights: Iterable[str], labels: Iterable[str] | None) -> dict[str, Any]:
    found = {
        "role": roles.check_role(role),
        "rights": roles.check_extra(rights),
        "labels": None if labels is None else scopes.check_labels(labels),
    }
    if found["role"] == "admin" and found["labels"] is not None:
        raise Invalid(
            "an admin has no labels", "users, settings and the audit belong to the whole installation"
        )
    return found


def _change(tx: Tx, row: dict[str, Any], values: Mapping[str, Any], action: str, author: str) -> None:
    _keep_an_admin(tx, row, values)
    changed = {name: value for name, value in values.items() if row[name] != value}
    if not changed:
        return
    tx.execute(
        sa.update(user_account).where(user_account.c.id == row["id"]).values(**changed, updated_at=tx.now)
    )
    audit.append(
        tx, author, action, row["name"], changed, before=_digest(row), after=_digest({**row, **changed})
    )
    # Open pages show what the user may do.
    tx.wake("access")


def _keep_an_admin(tx: Tx, row: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Refuse a change after which no user could let others in."""
    after = {**row, **values}
    was, is_ = ((one["role"], one["state"]) == ("admin", "active") for one in (row, after))
    if was and not is_ and _admins(tx) == 1:
        raise LastAdmin(
            f"{row['name']} is the last admin",
            "no one could give access to others any more",
            "functory user create NAME --role admin",
        )


def _admins(tx: Tx) -> int:
    return tx.scalar(
        sa.select(sa.func.count())
        .select_from(user_account)
        .where(user_account.c.role == "admin", user_account.c.state == "active")
    )


def _locked(tx: Tx, name: str) -> dict[str, Any]:
    # All users, so that two changes at once do not each take the other for the last admin.
    rows = tx.rows(sa.select(user_account).order_by(user_account.c.id).with_for_update())
    found = next((row for row in rows if row["name"] == name.casefold()), None)
    if found is None:
        raise _missing(name)
    return found


def _end_logins(tx: Tx, user_id: str, keep: str | None = None) -> None:
    statement = sa.delete(login).where(login.c.user_id == user_id)
    tx.execute(statement if keep is None else statement.where(login.c.id != keep))
    tx.wake("access")


def _digest(row: Mapping[str, Any]) -> str | None:
    return audit.digest({name: row[name] for name in ("name", "state", "role", "rights", "labels")})


def _missing(name: str) -> NotFound:
    return NotFound(f"user {name!r} not found", try_="functory user list")
