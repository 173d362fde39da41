"""Who sends a request: by a bearer token, or by the cookie of a login.

A token is only read from the header ``Authorization``, never from the address (:mod:`functory.api.paging`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Request

from functory.api.access import cookies, csrf
from functory.api.access.rights import Caller
from functory.api.problem_details import Unauthorized
from functory.client.functory import Functory
from functory.engine.access import roles
from functory.engine.database.refused_attempts import RefusedAttempts
from functory.engine.telemetry import server_metrics


class Authentication:
    """Finds the caller of a request. With ``owner`` a login link makes its caller the owner (``functory dev``)."""

    def __init__(self, functory: Functory, refused: RefusedAttempts, *, owner: bool = False) -> None:
        self._functory = functory
        self._refused = refused
        self._owner = owner

    def __call__(self, request: Request) -> Caller:
        """Return the caller. Raises :class:`Unauthorized`, and a Forbidden for what may come from another site."""
        address = address_of(request)
        try:
            given = request.headers.getlist("authorization")
            if given:
                return self._by_token(given, address)
            cookie = cookies.read(self._functory.settings, request)
            if cookie:
                return self._by_cookie(cookie, address, request)
        except Unauthorized:
            self._refused.record("", "api.authentication", request.url.path, f"http {address}")
            raise
        raise Unauthorized("you are not logged in", *self._advice())

    def _by_token(self, given: list[str], address: str) -> Caller:
        scheme, _, text = given[0].partition(" ")
        found = None
        if len(given) == 1 and scheme.lower() == "bearer":
            found = self._functory.tokens.find(text.strip())
        if found is None:
            server_metrics.auth_failures.labels("token").inc()
            raise Unauthorized(
                "the token is not valid",
                "it is unknown, was revoked or has expired",
                "functory token create NAME --user USER",
            )
        return _of_token(found, address)

    def _by_cookie(self, cookie: str, address: str, request: Request) -> Caller:
        found = self._functory.logins.find(cookie)
        if found is None or (found["user"] is None and not self._owner):
            server_metrics.auth_failures.labels("session").inc()
            raise Unauthorized("your login has ended", *self._advice())
        csrf.check(self._functory.settings, request)
        return _of_login(found, address, self._functory.author)

    def _advice(self) -> tuple[str, str]:
        if self._owner:
            return (
                "the program shows a link that logs you in; this makes another one",
                "functory dashboard link",
            )
        if not self._functory.users.has_admin():
            return "this installation has no admin yet", "functory user create NAME --role admin"
        return "log in, or send a token as Authorization: Bearer", "functory token create NAME --user USER"


def _of_token(found: Mapping[str, Any], address: str) -> Caller:
    user = found["user"]
    return Caller(
        name=user["name"],
        kind="token",
        role=found["role"],
        # What the user has lost since, the token has lost, too.
        rights=roles.rights_of(found) & roles.rights_of(user),
        labels=roles.common_labels(found["labels"], user["labels"]),
        origin=f"token {found['name']} at {address}",
        token_id=found["id"],
        user_id=user["id"],
    )


def _of_login(found: Mapping[str, Any], address: str, owner: str) -> Caller:
    user = found["user"]
    if user is None:
        return Caller(
            name=owner,
            kind="owner",
            role="admin",
            rights=roles.OF_ROLE["admin"],
            origin=f"owner at {address}",
            login_id=found["id"],
        )
    return Caller(
        name=user["name"],
        kind="user",
        role=user["role"],
        rights=roles.rights_of(user),
        labels=None if user["labels"] is None else tuple(user["labels"]),
        origin=f"login at {address}",
        login_id=found["id"],
        user_id=user["id"],
        confirmed_at=found["confirmed_at"],
    )


def still_valid(functory: Functory, caller: Caller) -> bool:
    """True while a caller may do and see what it could at its authentication: its login or token has not ended, and the
    rights and labels are the same. For streams, which are authenticated at their start.

    It is worth asking again every few seconds, and at once when the wake-up topic ``access`` is signalled.
    """
    if caller.login_id is not None:
        found = functory.logins.with_id(caller.login_id)
        now = None if found is None else _of_login(found, "", caller.name)
    elif caller.token_id is not None:
        found = functory.tokens.with_id(caller.token_id)
        now = None if found is None else _of_token(found, "")
    else:
        return True
    return now is not None and (now.rights, now.labels) == (caller.rights, caller.labels)


def address_of(request: Request) -> str:
    """The address of the client."""
    return request.client.host if request.client is not None else "unknown"


def names_another_client(request: Request) -> bool:
    """True when a proxy names a client, and the server does not believe it: ``FORWARDED_ALLOW_IPS`` lacks the proxy."""
    named = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    return any(map(str.strip, named)) and not any(address_of(request) in one for one in named)
