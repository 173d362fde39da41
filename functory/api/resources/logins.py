"""``/logins``: the caller's own open logins; those of all users for an admin."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from functory.api.access.rights import Viewer
from functory.api.engine import Engine
from functory.api.paging import StrictRoute
from functory.api.problem_details import Forbidden
from functory.engine.errors import NotFound
from functory.rows.access import Login

router = APIRouter(prefix="/logins", tags=["logins"], route_class=StrictRoute)


class LoginList(BaseModel):
    """Open logins, the last seen first."""

    items: list[Login]


@router.get("", operation_id="logins.list", response_model=LoginList)
def list_(caller: Viewer, engine: Engine, user: str | None = None) -> dict[str, Any]:
    """List the open logins of the caller; for an admin those of all, or of one ``user``."""
    if not caller.may("admin"):
        if user is not None and user.casefold() != caller.name:
            raise Forbidden("admin", caller.role)
        user = caller.name
    rows = engine.logins.list(user)
    return {"items": [row | {"current": row["id"] == caller.login_id} for row in rows]}


@router.delete("/{id}", operation_id="logins.end", status_code=204)
def end(id: str, caller: Viewer, engine: Engine) -> None:  # noqa: A002
    """End a login. Its open pages are closed within seconds."""
    if not caller.may("admin") and not any(row["id"] == id for row in engine.logins.list(caller.name)):
        raise NotFound(f"login {id} not found", "it has ended", "functory login list")
    engine.logins.end(id, author=caller.name)
