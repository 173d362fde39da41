"""``/me``: the caller, its preferences and its password."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field, SecretStr

from functory._version import __version__
from functory.api.access.authentication import address_of
from functory.api.access.rights import Caller, Viewer, fresh_until
from functory.api.engine import Engine
from functory.api.installation import installation
from functory.api.paging import StrictRoute
from functory.api.problem_details import Forbidden
from functory.engine.access.roles import RIGHTS
from functory.rows.access import Me
from functory.rows.base import Body

router = APIRouter(prefix="/me", tags=["me"], route_class=StrictRoute)

Password = Annotated[SecretStr, Field(max_length=1000)]


class Preferences(Body):
    """What the user chose for the pages: the whole of it, in place of what was there."""

    preferences: dict[str, Any]


class Confirmation(Body):
    """The password of the user that is logged in."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    password: Password


class PasswordChange(Body):
    """The password until now, and the new one."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    password: Password
    new_password: Password


@router.get("", operation_id="me.get", response_model=Me)
def get(caller: Viewer, engine: Engine) -> dict[str, Any]:
    """Show the caller: its rights, its labels, and where it is."""
    user = engine.users.get(caller.name) if caller.user_id is not None else None
    logins = engine.logins.list(caller.name if user else "owner") if caller.login_id is not None else []
    return {
        "name": caller.name,
        "kind": caller.kind,
        "role": caller.role,
        "rights": [right for right in RIGHTS if right in caller.rights],
        "labels": caller.labels,
        "installation": installation(engine.settings),
        "version": __version__,
        "login_expires_at": next((row["expires_at"] for row in logins if row["id"] == caller.login_id), None),
        "confirmed_until": fresh_until(caller),
        "has_password": user is not None and user["password_at"] is not None,
        "preferences": user["preferences"] if user else {},
    }


@router.patch("", operation_id="me.update", response_model=Me)
def update(body: Preferences, caller: Viewer, engine: Engine) -> dict[str, Any]:
    """Change the preferences."""
    if caller.user_id is None:
        raise Forbidden(
            "user",
            what="the owner has no preferences",
            why="only users have",
            try_="keep them in the browser",
        )
    engine.users.set_preferences(caller.name, body.preferences)
    return get(caller, engine)


@router.post(":confirm", operation_id="me.confirm", status_code=204)
def confirm(body: Confirmation, request: Request, caller: Viewer, engine: Engine) -> None:
    """Give the password again, as dangerous actions need it."""
    engine.logins.confirm(_login_of(caller), body.password, address=address_of(request))


@router.post(":password", operation_id="me.password", status_code=204)
def change_password(body: PasswordChange, request: Request, caller: Viewer, engine: Engine) -> None:
    """Change the password. All other logins of the user end."""
    login_id = _login_of(caller)
    engine.logins.confirm(login_id, body.password, address=address_of(request))
    engine.users.set_password(caller.name, body.new_password, author=caller.name, keep_login=login_id)


def _login_of(caller: Caller) -> str:
    if caller.kind != "user" or caller.login_id is None:
        raise Forbidden(
            "login",
            what="only a user who is logged in has a password to give",
            why=f"this request is by a {caller.kind}",
            try_="log in",
        )
    return caller.login_id
