"""The caller of a request, and the rights that a route needs.

Every route below ``/api/v1`` names them: ``caller: Viewer``, or ``needs(…)`` among its dependencies; a route for
everybody has ``dependencies=[anyone()]``. The roles and rights themselves: :mod:`functory.engine.access.roles`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from functory.api.problem_details import Forbidden
from functory.engine.access.roles import EXTRA, OF_ROLE, RIGHTS, ROLES, Right, Role

__all__ = [
    "EXTRA",
    "OF_ROLE",
    "RIGHTS",
    "ROLES",
    "Admin",
    "Approver",
    "Author",
    "Caller",
    "Decider",
    "Operator",
    "PayloadReader",
    "Right",
    "Role",
    "Viewer",
    "anyone",
    "caller_of",
    "needs",
    "needs_fresh",
    "needs_no_labels",
    "rights_of",
]

# After this time, a dangerous action needs the password again.
FRESH = timedelta(minutes=15)


@dataclass(frozen=True)
class Caller:
    """Who sends a request. ``labels`` limit what is seen and done; None is no limit. ``origin`` is for the audit.

    ``login_id`` or ``token_id`` says by which login or token, ``confirmed_at`` when the password of a login was given.
    """

    name: str
    kind: Literal["user", "token", "owner"]
    role: Role
    rights: frozenset[Right]
    labels: tuple[str, ...] | None = None
    origin: str = ""
    login_id: str | None = None
    token_id: str | None = None
    user_id: str | None = None
    confirmed_at: datetime | None = None

    def may(self, *rights: Right) -> bool:
        """True when the caller has all of these rights."""
        return self.rights.issuperset(rights)

    @property
    def reads_payloads(self) -> bool:
        """True when the caller may read inputs, results, data, logs and errors."""
        return "payload:read" in self.rights


def caller_of(request: Request) -> Caller:
    """The caller that the authentication has found. Only for requests under ``/api/v1``."""
    return request.state.caller


def needs(*rights: Right) -> Any:
    """Dependency of a route: the caller, who has all of these rights. Other callers get a 403 that names the right."""

    async def check(request: Request) -> Caller:
        caller = caller_of(request)
        for right in rights:
            if right not in caller.rights:
                raise Forbidden(right, caller.role)
        return caller

    check.rights = rights  # type: ignore[attr-defined]
    return Depends(check)


def needs_fresh() -> Any:
    """Dependency of a dangerous action: a login whose password was given in the last 15 minutes. Tokens and the owner
    of ``functory dev`` have no password to give.
    """

    async def check(request: Request) -> None:
        caller = caller_of(request)
        if caller.kind == "user":
            check_fresh(caller, await run_in_threadpool(request.app.state.functory.database.clock.now))

    return Depends(check)


def fresh_until(caller: Caller) -> datetime | None:
    """Until when a user who is logged in may do what is dangerous; None for callers who have no password to give."""
    return None if caller.kind != "user" or caller.confirmed_at is None else caller.confirmed_at + FRESH


def check_fresh(caller: Caller, now: datetime) -> None:
    """Refuse a caller as :func:`needs_fresh` does, where only the handler knows whether the action is dangerous."""
    until = fresh_until(caller)
    if until is None or now <= until:
        return
    raise Forbidden(
        "fresh",
        what="this needs your password again",
        why="you gave it more than 15 minutes ago",
        try_="POST /api/v1/me:confirm, or GET /api/v1/login/provider?again=true; then repeat this request",
    )


def needs_no_labels() -> Any:
    """Dependency of a change that belongs to the whole installation: the caller is not limited by labels."""

    async def check(request: Request) -> None:
        if caller_of(request).labels is not None:
            raise Forbidden(
                "no labels",
                what="this concerns the whole installation",
                why="you may only change what has your labels",
            )

    return Depends(check)


def anyone() -> Any:
    """Dependency of a route that needs no right: it is open to everybody, or to every caller."""

    async def check() -> None:
        return None

    check.rights = ()  # type: ignore[attr-defined]
    return Depends(check)


def rights_of(dependency: Callable[..., Any]) -> tuple[Right, ...] | None:
    """The rights that a dependency made by :func:`needs` asks for; None for any other dependency."""
    return getattr(dependency, "rights", None)


Viewer = Annotated[Caller, needs("view")]
Operator = Annotated[Caller, needs("operate")]
Author = Annotated[Caller, needs("author")]
Admin = Annotated[Caller, needs("admin")]
PayloadReader = Annotated[Caller, needs("view", "payload:read")]
# Who decides what a run or a proposal asks sees what that is about.
Decider = Annotated[Caller, needs("operate", "payload:read")]
Approver = Annotated[Caller, needs("approve")]
