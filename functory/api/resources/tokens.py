"""``/tokens``: the caller's own; those of all users for an admin."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from functory.api.access.rights import Caller, Viewer, needs_fresh
from functory.api.engine import Engine
from functory.api.paging import StrictRoute
from functory.api.problem_details import Forbidden
from functory.api.resources.users import ExtraRight, RoleName
from functory.engine.access.tokens import DEFAULT_LIFETIME, MAX_LIFETIME
from functory.engine.errors import NotFound
from functory.rows.access import NewToken, Token
from functory.rows.base import Body

router = APIRouter(prefix="/tokens", tags=["tokens"], route_class=StrictRoute)


class TokenList(BaseModel):
    """Tokens by user and name."""

    items: list[Token]


class TokenRequest(Body):
    """A token to be made, of the caller, or by an admin of another ``user``."""

    name: str
    user: str | None = None
    role: RoleName | None = Field(default=None, description="The user's own role when it is left out.")
    rights: list[ExtraRight] = Field(default=[])
    labels: list[str] | None = Field(default=None, description="The user's own labels when it is left out.")
    days: Annotated[int, Field(ge=1, le=MAX_LIFETIME.days)] = DEFAULT_LIFETIME.days


@router.get("", operation_id="tokens.list", response_model=TokenList)
def list_(caller: Viewer, engine: Engine, user: str | None = None) -> dict[str, Any]:
    """List the tokens of the caller; for an admin those of all, or of one ``user``."""
    return {"items": engine.tokens.list(_whose(caller, user))}


@router.post(
    "", operation_id="tokens.create", status_code=201, response_model=NewToken, dependencies=[needs_fresh()]
)
def create(body: TokenRequest, caller: Viewer, engine: Engine) -> dict[str, Any]:
    """Create a token. Only this answer has its text."""
    if caller.kind == "token" and not caller.may("admin"):
        # Else a stolen token could live for ever, by making others.
        raise Forbidden("admin", what="a token makes no tokens", why="unless it is an admin's", try_="log in")
    user = caller.name if body.user is None else _whose(caller, body.user)
    if user is None or (user == caller.name and caller.user_id is None):
        raise Forbidden(
            "user", what="the owner has no tokens", why="a token belongs to a user",
            try_="functory user create NAME, then name the user",
        )  # fmt: skip
    return engine.tokens.create(
        user,
        body.name,
        role=body.role,
        rights=body.rights,
        labels=body.labels,
        lifetime=timedelta(days=body.days),
        author=caller.name,
    )


@router.delete("/{id}", operation_id="tokens.revoke", status_code=204)
def revoke(id: str, caller: Viewer, engine: Engine) -> None:  # noqa: A002
    """Revoke a token: the next request with it is refused."""
    row = engine.tokens.get(id)
    if row["user"] != caller.name and not caller.may("admin"):
        raise NotFound(f"token {id} not found", try_="functory token list")
    engine.tokens.revoke(id, author=caller.name)


def _whose(caller: Caller, user: str | None) -> str | None:
    """Return whose rows the caller may have: None for those of all users."""
    if caller.may("admin"):
        return user
    if user is not None and user.casefold() != caller.name:
        raise Forbidden("admin", caller.role)
    return caller.name
