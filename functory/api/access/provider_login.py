"""``/api/v1/login/provider`` and ``…/callback``: logins by the identity provider.

A claim of the provider decides the role and the labels, anew at each login. A user is made at the first login, and only
when the claim gives a role. A user is known by the provider's own name for it and never by its name here, which
somebody could choose to be another user's.

A login that fails sends the browser to the login page with a code (:mod:`login_failures`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from functory.api.access import cookies
from functory.api.access.authentication import address_of
from functory.api.access.identity_provider import FLOW_SECONDS, Answer, IdentityProvider
from functory.api.access.login_failures import LoginFailed, failure_of
from functory.api.access.rights import anyone
from functory.client.functory import Functory
from functory.engine.access import users
from functory.engine.access.roles import ROLES
from functory.engine.database import audit
from functory.engine.errors import FunctoryError, NotFound
from functory.engine.settings import Settings

log = structlog.get_logger("functory.api")

FLOW_COOKIE = "functory_login_flow"
_PATH = "/api/v1/login"


def router(functory: Functory) -> APIRouter:
    """The routes. Raises :class:`Invalid` for settings with which no login could work."""
    settings = functory.settings
    provider = IdentityProvider(
        settings, functory.secrets.derive_keys, lambda: functory.database.clock.now().timestamp()
    )
    routes = APIRouter(prefix="/login", tags=["login"], dependencies=[anyone()])

    @routes.get("/provider", operation_id="login.provider", status_code=303, response_class=Response)
    def begin(request: Request, again: bool = False) -> Response:
        """Send the browser to the identity provider. With ``again`` it asks for the password also a user whom it knows,
        and the answer confirms the login of the cookie, as dangerous actions need it.
        """
        try:
            cookies.check_transport(settings, request)
            cookie = cookies.read(settings, request) if again else None
            login = functory.logins.find(cookie) if cookie else None
            login_id = login["id"] if login and login["user"] else None
            address, sealed = provider.begin(_redirect_uri(settings, request), login_id)
        except FunctoryError as error:
            return _failed(request, error)
        response = RedirectResponse(address, 303)
        # Lax: the browser comes back from another site.
        response.set_cookie(
            FLOW_COOKIE,
            sealed,
            max_age=FLOW_SECONDS,
            path=_PATH,
            secure=cookies.is_secure(settings, request),
            httponly=True,
            samesite="lax",
        )
        return response

    @routes.get("/callback", operation_id="login.callback", status_code=303, response_class=Response)
    def finish(request: Request) -> Response:
        """Log the user in whom the identity provider sends back, and go to the first page. A login that is confirmed
        goes on as it was.
        """
        text = None
        try:
            cookies.check_transport(settings, request)
            answer = provider.finish(request.cookies.get(FLOW_COOKIE), dict(request.query_params))
            if answer.login_id is None:
                text = _log_in(functory, answer, request)
            else:
                _confirm(functory, answer, answer.login_id, request)
        except FunctoryError as error:
            return _failed(request, error)
        response = RedirectResponse("/login?confirmed=true" if text is None else "/", 303)
        response.delete_cookie(FLOW_COOKIE, path=_PATH)
        if text is not None:
            cookies.set_(settings, request, response, text)
        return response

    return routes


def role_and_labels(settings: Settings, claims: Mapping[str, Any]) -> tuple[str | None, list[str] | None]:
    """Return the role that the claim gives, the highest one, or None; and its labels, or None for no limit."""
    given = claims.get(settings.oidc_claim)
    values = {given} if isinstance(given, str) else {one for one in given or () if isinstance(one, str)}
    found = {role for value, role in settings.oidc_roles.items() if value in values}
    role = max(found, key=ROLES.index, default=None)
    if not settings.oidc_labels or role == "admin":
        return role, None
    return role, sorted({label for value in values for label in settings.oidc_labels.get(value, ())})


def _log_in(functory: Functory, answer: Answer, request: Request) -> str:
    """Return the text of the cookie of the new login."""
    address = address_of(request)
    at = answer.confirmed_at
    with audit.acting(f"login at {address}"):
        return functory.logins.log_in_identity(
            _user(functory, answer.claims)["id"],
            confirmed_at=None if at is None else datetime.fromtimestamp(at, UTC),
            address=address,
            agent=request.headers.get("user-agent", ""),
            former=cookies.read(functory.settings, request),
        )


def _confirm(functory: Functory, answer: Answer, login_id: str, request: Request) -> None:
    with audit.acting(f"login at {address_of(request)}"):
        user = _user(functory, answer.claims)
    try:
        functory.logins.confirm_identity(login_id, user["id"])
    except NotFound as error:
        raise LoginFailed("another_user", error.what, error.why) from None


def _failed(request: Request, error: FunctoryError) -> Response:
    """Send the browser to the login page, which says why. An error that is no failed login is raised again."""
    failure = failure_of(error)
    if failure is None:
        raise error
    log.warning(
        "login by the identity provider failed",
        failure=failure,
        why=error.reason,
        address=address_of(request),
    )
    return RedirectResponse(f"/login?{urlencode({'failed': failure})}", 303)


def _user(functory: Functory, claims: Mapping[str, Any]) -> dict[str, Any]:
    settings = functory.settings
    role, labels = role_and_labels(settings, claims)
    name = str(claims.get(settings.oidc_name_claim) or claims["sub"])
    if role is None:
        audit.record_refused(functory.database, "", "login.begin", name)
        raise LoginFailed(
            "no_role", "this user may not log in", f"no value of its claim {settings.oidc_claim} gives a role"
        )
    identity = hashlib.sha256(f"{settings.oidc_issuer}\n{claims['sub']}".encode()).hexdigest()
    return functory.users.of_identity(identity, users.check_name(name), role=role, labels=labels)


def _redirect_uri(settings: Settings, request: Request) -> str:
    base = settings.public_url or f"{request.url.scheme}://{request.headers['host']}"
    return f"{base.rstrip('/')}{_PATH}/callback"
