"""Logins: a person at a browser, by a cookie whose hash is stored.

A login begins with a password, an identity provider, or (the owner of ``functory dev``) a link that works once. It
ends after :data:`IDLE` without a request, after :data:`LONGEST` in any case, when it is ended, and when its user is
disabled. Each begins with a cookie of its own: the one that the browser sent before is never taken over.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from pydantic import SecretStr

from functory.engine.access import credentials, passwords
from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.schema import login, login_link, user_account
from functory.engine.database.transaction import Tx
from functory.engine.errors import NotFound, Refused
from functory.engine.flow_control.controls import Key, RateLimit
from functory.engine.flow_control.rate_limits import RateLimits

IDLE = timedelta(hours=12)
LONGEST = timedelta(days=7)
LINK_LIFETIME = timedelta(minutes=10)
# How precise `seen_at` is: a write for each request would be one for each look at a page.
PRECISION = timedelta(minutes=1)
MAX_AGENT = 300
# Attempts to log in, with the right password or not: many at first, for a person who mistypes, then few.
PER_USER = (10, 60.0)
PER_ADDRESS = (30, 20.0)
# Rate limits have an owner; logins have no trigger.
_OWNER_ID = "00000000-0000-0000-0000-000000000000"

_SHOWN = tuple(column for column in login.c if column.name != "hash")
_WITH_USER = login.outerjoin(user_account, user_account.c.id == login.c.user_id)


class TooManyAttempts(Refused):
    """Too many attempts to log in. ``retry_after`` is in seconds."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(
            "too many attempts to log in",
            f"the next one is allowed in {retry_after:.0f} s",
            "wait, then try again",
        )
        self.retry_after = retry_after


class WrongPassword(Refused):
    """No such user, a wrong password, or a disabled user: the message does not say which."""

    def __init__(self) -> None:
        super().__init__("the name or the password is wrong", "or the user is disabled")


class Logins:
    """Opens, finds, lists and ends logins."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def log_in(
        self, name: str, password: SecretStr, *, address: str = "", agent: str = "", former: str | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Log a user in. Returns the text of the cookie, and the user. ``former`` is the cookie that was sent: its
        login ends.

        Raises :class:`TooManyAttempts` and :class:`WrongPassword`, each with an entry in the audit.
        """
        user = self._authenticate(name, password, address)
        with self._database.write() as tx:
            cookie = _open(tx, user["id"], address, agent, former)
            tx.execute(
                sa.update(user_account).where(user_account.c.id == user["id"]).values(last_login_at=tx.now)
            )
            audit.append(tx, user["name"], "login.begin", user["name"], {"by": "password"})
        return cookie, user

    def log_in_identity(
        self,
        user_id: str,
        *,
        confirmed_at: datetime | None = None,
        address: str = "",
        agent: str = "",
        former: str | None = None,
    ) -> str:
        """Log in a user whom an identity provider has named. Returns the text of the cookie. Raises
        :class:`WrongPassword` for a disabled user.

        ``confirmed_at`` is when the user gave its password there; None is now.
        """
        with self._database.write() as tx:
            user = tx.first(
                sa.select(user_account).where(user_account.c.id == user_id, user_account.c.state == "active")
            )
            if user is None:
                raise WrongPassword
            cookie = _open(tx, user_id, address, agent, former, confirmed_at)
            tx.execute(
                sa.update(user_account).where(user_account.c.id == user_id).values(last_login_at=tx.now)
            )
            audit.append(tx, user["name"], "login.begin", user["name"], {"by": "identity provider"})
        return cookie

    def new_link(self) -> str:
        """Return the text of a link that logs the owner in once, within ten minutes."""
        text = credentials.new_secret()
        with self._database.write() as tx:
            tx.execute(sa.delete(login_link).where(login_link.c.expires_at <= tx.now))
            tx.insert(login_link, [{"hash": credentials.digest(text), "expires_at": tx.now + LINK_LIFETIME}])
        return text

    def log_in_by_link(
        self, text: str, *, address: str = "", agent: str = "", former: str | None = None
    ) -> str:
        """Log the owner in. Returns the text of the cookie. Raises :class:`Refused` for a link that was used, is too
        old, or never was one, and :class:`TooManyAttempts`.
        """
        self._count_attempts([("address", address, PER_ADDRESS)])
        with self._database.write() as tx:
            used = tx.execute(
                sa.delete(login_link).where(
                    login_link.c.hash == credentials.digest(text), login_link.c.expires_at > tx.now
                )
            ).rowcount
            if used == 1:
                cookie = _open(tx, None, address, agent, former)
                audit.append(tx, "owner", "login.begin", "owner", {"by": "link"})
                return cookie
            audit.append_refused(tx, "", "login.begin", "owner", {"by": "link"})
        raise Refused(
            "the link does not work",
            "it was used already, or is older than ten minutes",
            "functory dashboard link",
        )

    def find(self, cookie: str) -> dict[str, Any] | None:
        """Return the login of a cookie with its ``user`` (a row; None for the owner), and note that it was seen; None
        for one that has ended.
        """
        found = self._valid(login.c.hash == credentials.digest(cookie))
        if found is None:
            return None
        row, now = found
        if now - row["seen_at"] > PRECISION:
            with self._database.write() as tx:
                tx.execute(sa.update(login).where(login.c.id == row["id"]).values(seen_at=tx.now))
        return row

    def with_id(self, id_: str) -> dict[str, Any] | None:
        """Return the login with this id as :meth:`find` does, without noting that it was seen: for streams, which were
        authenticated at their start.
        """
        found = self._valid(login.c.id == id_)
        return None if found is None else found[0]

    def confirm(self, login_id: str, password: SecretStr, *, address: str = "") -> None:
        """Note that the user has given its password again. Raises as :meth:`log_in`, and :class:`NotFound`."""
        with self._database.read() as tx:
            user = tx.first(
                sa.select(user_account.c.name).select_from(_WITH_USER).where(login.c.id == login_id)
            )
        if user is None or user["name"] is None:
            raise NotFound("the login has ended", "or it has no password", "log in again")
        self._authenticate(user["name"], password, address)
        with self._database.write() as tx:
            tx.execute(sa.update(login).where(login.c.id == login_id).values(confirmed_at=tx.now))

    def confirm_identity(self, login_id: str, user_id: str) -> None:
        """Note that the identity provider has asked the user for its password again. Raises :class:`NotFound` for a
        login that has ended or is another user's.
        """
        with self._database.write() as tx:
            own = sa.and_(login.c.id == login_id, *_of(user_id), *_open_at(tx.now))
            if tx.execute(sa.update(login).where(own).values(confirmed_at=tx.now)).rowcount == 0:
                raise NotFound("the login has ended", "or it is another user's", "log in again")

    def list(self, user: str | None = None) -> list[dict[str, Any]]:
        """Return the open logins of a user or of all, the last seen first, each with the name of its ``user``."""
        name = sa.func.coalesce(user_account.c.name, "owner").label("user")
        with self._database.read() as tx:
            statement = sa.select(*_SHOWN, name).select_from(_WITH_USER).where(*_open_at(tx.now))
            if user is not None:
                statement = statement.where(name == user.casefold())
            return tx.rows(statement.order_by(login.c.seen_at.desc(), login.c.id))

    def end(self, id_: str, *, author: str = "", user_id: str | None = None) -> None:
        """End a login, of ``user_id`` alone when that is given. Open streams of it end within seconds.

        Raises :class:`NotFound`.
        """
        with self._database.write() as tx:
            statement = sa.select(login.c.id, sa.func.coalesce(user_account.c.name, "owner").label("user"))
            row = tx.first(statement.select_from(_WITH_USER).where(login.c.id == id_, *_of(user_id)))
            if row is None or tx.execute(sa.delete(login).where(login.c.id == id_)).rowcount == 0:
                raise NotFound(f"login {id_} not found", "it has ended", "functory login list")
            audit.append(tx, author, "login.end", row["user"], {"login": id_})
            tx.wake("access")

    def end_all(self, user: str, *, author: str = "", keep: str | None = None) -> int:
        """End all logins of a user, but the one with the id ``keep``. Returns their number."""
        with self._database.write() as tx:
            ids = [
                row["id"]
                for row in tx.rows(
                    sa.select(login.c.id)
                    .select_from(_WITH_USER)
                    .where(sa.func.coalesce(user_account.c.name, "owner") == user.casefold())
                )
                if row["id"] != keep
            ]
            if ids:
                tx.execute(sa.delete(login).where(login.c.id.in_(ids)))
                audit.append(tx, author, "login.end", user, {"logins": len(ids)})
                tx.wake("access")
        return len(ids)

    def _valid(self, which: sa.ColumnElement[bool]) -> tuple[dict[str, Any], datetime] | None:
        with self._database.read() as tx:
            row = tx.first(sa.select(*_SHOWN).where(which, *_open_at(tx.now)))
            if row is None:
                return None
            user = None
            if row["user_id"] is not None:
                user = tx.first(
                    sa.select(user_account).where(
                        user_account.c.id == row["user_id"], user_account.c.state == "active"
                    )
                )
                if user is None:
                    return None
            return row | {"user": user}, tx.now

    def _authenticate(self, name: str, password: SecretStr, address: str) -> dict[str, Any]:
        name = name.casefold()[:100]
        self._count_attempts([("user", name, PER_USER), ("address", address, PER_ADDRESS)])
        with self._database.read() as tx:
            user = tx.first(sa.select(user_account).where(user_account.c.name == name))
        right = passwords.verify(user["password"] if user else None, password)
        if user is None or not right or user["state"] != "active":
            with self._database.write() as tx:
                # A name of no user may be a password in the wrong field.
                audit.append_refused(
                    tx, user["name"] if user else "", "login.begin", user["name"] if user else ""
                )
            raise WrongPassword
        if passwords.needs_rehash(user["password"]):
            stored = passwords.hash_(password)
            with self._database.write() as tx:
                tx.execute(
                    sa.update(user_account)
                    .where(user_account.c.id == user["id"], user_account.c.password == user["password"])
                    .values(password=stored)
                )
        return user

    def _count_attempts(self, attempts: list[tuple[str, str, tuple[int, float]]]) -> None:
        # The text of the key is its kind: a name that was typed may be a password in the wrong field.
        limits = [
            RateLimit(Key(Key.of(text, kind).hash, kind), 1, interval, burst)
            for kind, text, (burst, interval) in attempts
        ]
        with self._database.write() as tx:
            counted = RateLimits(tx, "login", [(_OWNER_ID, limit) for limit in limits])
            wait = max(counted.acquire(_OWNER_ID, limit) for limit in limits)
            counted.write()
            if wait:
                audit.append_refused(tx, "", "login.attempts", attempts[0][0])
        if wait:
            raise TooManyAttempts(wait)


def login_address(server: str, text: str) -> str:
    """Return the address that a login link opens. Its text is in the fragment, which browsers do not send."""
    return f"{server}/#login={text}"


def _open(
    tx: Tx,
    user_id: str | None,
    address: str,
    agent: str,
    former: str | None,
    confirmed_at: datetime | None = None,
) -> str:
    text = credentials.new_secret()
    tx.execute(sa.delete(login).where(sa.not_(sa.and_(*_open_at(tx.now)))))
    if former is not None:
        tx.execute(sa.delete(login).where(login.c.hash == credentials.digest(former)))
        tx.wake("access")
    tx.insert(
        login,
        [
            {
                "id": tx.new_id(),
                "user_id": user_id,
                "hash": credentials.digest(text),
                "created_at": tx.now,
                "confirmed_at": min(confirmed_at or tx.now, tx.now),
                "seen_at": tx.now,
                "expires_at": tx.now + LONGEST,
                "address": address[:64],
                "agent": agent[:MAX_AGENT],
            }
        ],
    )
    return text


def _open_at(now: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    return login.c.expires_at > now, login.c.seen_at > now - IDLE


def _of(user_id: str | None) -> tuple[sa.ColumnElement[bool], ...]:
    return () if user_id is None else (login.c.user_id == user_id,)
