"""``/api/v1/login`` and ``/api/v1/logout``: the routes that need no caller."""

from __future__ import annotations

from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Request, Response
from pydantic import ConfigDict, Field, SecretStr, model_validator

from functory.api.access import cookies, csrf
from functory.api.access.authentication import address_of, names_another_client
from functory.api.access.rights import anyone
from functory.api.engine import Engine
from functory.api.installation import installation
from functory.api.paging import StrictRoute
from functory.api.problem_details import Forbidden
from functory.engine.database import audit
from functory.rows.access import LoginWays
from functory.rows.base import Body

log = structlog.get_logger("functory.api")

Text = Annotated[str, Field(max_length=1000)]


class LoginRequest(Body):
    """A name with its password, or the text of a login link."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    name: Text | None = None
    password: Annotated[SecretStr, Field(max_length=1000)] | None = None
    link: Annotated[SecretStr, Field(max_length=1000)] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> LoginRequest:
        by_password = self.name is not None and self.password is not None
        if by_password == (self.link is not None):
            raise ValueError("send name and password, or link")
        return self


def router(*, owner: bool) -> APIRouter:
    """The routes. With ``owner`` a link logs the owner in (``functory dev``)."""
    routes = APIRouter(tags=["login"], route_class=StrictRoute, dependencies=[anyone()])
    warned = False

    @routes.get("/login", operation_id="login.ways", response_model=LoginWays)
    def ways(engine: Engine) -> dict[str, Any]:
        """Show how one can log in."""
        advice = None
        if owner:
            advice = "functory dashboard link"
        elif not engine.users.has_admin():
            advice = "functory user create NAME --role admin"
        return {
            "password": True,
            "link": owner,
            "provider": engine.settings.oidc_name if engine.settings.oidc_issuer else None,
            "advice": advice,
            "installation": installation(engine.settings),
        }

    @routes.post("/login", operation_id="login.begin", status_code=204)
    def begin(body: LoginRequest, request: Request, response: Response, engine: Engine) -> None:
        """Log in. The answer sets the cookie of the new login; the login of the cookie that was sent ends."""
        settings = engine.settings
        csrf.check(settings, request)
        cookies.check_transport(settings, request)
        nonlocal warned
        address = address_of(request)
        if not warned and names_another_client(request):
            # Once: any client may send the header.
            warned = True
            log.warning(
                "all users of a proxy share the limit of failed logins, and its address in the audit",
                proxy=address,
                why="FORWARDED_ALLOW_IPS does not name it",
            )
        given: dict[str, Any] = {
            "address": address,
            "agent": request.headers.get("user-agent", ""),
            "former": cookies.read(settings, request),
        }
        with audit.acting(f"login at {address}"):
            if body.link is not None:
                if not owner:
                    raise Forbidden(
                        "link",
                        what="this server takes no login links",
                        why="functory dev does, for its owner",
                        try_="log in with a name and a password",
                    )
                cookie = engine.logins.log_in_by_link(body.link.get_secret_value(), **given)
            else:
                assert body.name is not None
                assert body.password is not None
                cookie, _ = engine.logins.log_in(body.name, body.password, **given)
        cookies.set_(settings, request, response, cookie)

    @routes.post("/logout", operation_id="login.end", status_code=204)
    def end(request: Request, response: Response, engine: Engine) -> None:
        """End the login of the cookie, if there is one."""
        cookie = cookies.read(engine.settings, request)
        found = engine.logins.find(cookie) if cookie else None
        if found is not None:
            csrf.check(engine.settings, request)
            with audit.acting(f"login at {address_of(request)}"):
                engine.logins.end(
                    found["id"], author=found["user"]["name"] if found["user"] else engine.author
                )
        cookies.clear(engine.settings, request, response)

    return routes
