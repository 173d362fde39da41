"""``/users``: who may do what."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from functory.api.access.rights import Admin, needs_fresh
from functory.api.engine import Engine
from functory.api.paging import StrictRoute
from functory.rows.access import User, UserRow
from functory.rows.base import Body

router = APIRouter(prefix="/users", tags=["users"], route_class=StrictRoute)

RoleName = Literal["viewer", "operator", "author", "admin"]
ExtraRight = Literal["payload:read", "approve"]
Password = Annotated[SecretStr, Field(max_length=1000)]


class UserList(BaseModel):
    """All users by name."""

    items: list[UserRow]


class NewUser(Body):
    """A user to be made. One without a password logs in by the identity provider, or not at all."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    name: str
    password: Password | None = None
    role: RoleName = "viewer"
    rights: list[ExtraRight] = Field(default=[])
    labels: list[str] | None = None


class UserChange(Body):
    """What changes; a field that is not sent stays. ``labels`` null takes the limit by labels away."""

    role: RoleName | None = None
    rights: list[ExtraRight] | None = None
    labels: list[str] | None = None
    state: Literal["active", "disabled"] | None = None


class NewPassword(Body):
    """Another password for a user."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    password: Password


@router.get("", operation_id="users.list", response_model=UserList)
def list_(_caller: Admin, engine: Engine) -> dict[str, Any]:
    """List all users."""
    return {"items": engine.users.list()}


@router.post(
    "", operation_id="users.create", status_code=201, response_model=User, dependencies=[needs_fresh()]
)
def create(body: NewUser, caller: Admin, engine: Engine) -> dict[str, Any]:
    """Create a user."""
    return engine.users.create(
        body.name, body.password, role=body.role, rights=body.rights, labels=body.labels, author=caller.name
    )


@router.get("/{name}", operation_id="users.get", response_model=User)
def get(name: str, _caller: Admin, engine: Engine) -> dict[str, Any]:
    """Show a user."""
    return engine.users.get(name)


@router.patch("/{name}", operation_id="users.update", response_model=User, dependencies=[needs_fresh()])
def update(name: str, body: UserChange, caller: Admin, engine: Engine) -> dict[str, Any]:
    """Change a user's role, rights, labels or state. It holds from the user's next request on."""
    sent = body.model_fields_set
    return engine.users.update(
        name,
        role=body.role,
        rights=body.rights,
        labels=body.labels,
        everything="labels" in sent and body.labels is None,
        state=body.state,
        author=caller.name,
    )


@router.post("/{name}:password", operation_id="users.password", status_code=204, dependencies=[needs_fresh()])
def set_password(name: str, body: NewPassword, caller: Admin, engine: Engine) -> None:
    """Give a user another password, and end its logins."""
    keep = caller.login_id if name.casefold() == caller.name else None
    engine.users.set_password(name, body.password, author=caller.name, keep_login=keep)


@router.delete("/{name}", operation_id="users.delete", status_code=204, dependencies=[needs_fresh()])
def delete(name: str, caller: Admin, engine: Engine) -> None:
    """Delete a user with its tokens and logins."""
    engine.users.delete(name, author=caller.name)
