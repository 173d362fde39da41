"""``/canaries``: versions of functions that get a share of the executions. A canary has the labels of its function."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from functory.api.access.rights import Author, Caller, Viewer
from functory.api.engine import Engine
from functory.api.paging import Before, Limit, Page, StrictRoute, id_of, page
from functory.client.functory import Functory
from functory.engine.functions import listing
from functory.rows.canaries import Canary, CanaryAdvance, CanaryReason, NewCanary

router = APIRouter(prefix="/canaries", tags=["canaries"], route_class=StrictRoute)


@router.get("", operation_id="canaries.list", response_model=Page[Canary])
def list_(
    request: Request,
    engine: Engine,
    caller: Viewer,
    function: Annotated[str | None, Query(max_length=200)] = None,
    is_open: Annotated[bool, Query(alias="open", description="Only those that are open or held.")] = False,
    limit: Limit = 50,
    before: Before = None,
) -> dict[str, Any]:
    """List canaries, newest first."""
    found = engine.canaries.list(
        function=function,
        is_open=is_open,
        before=id_of(before, request),
        limit=limit + 1,
        scope=caller.labels,
    )
    return page(found, limit, request)


@router.post("", operation_id="canaries.start", response_model=Canary, status_code=201)
def start(
    body: NewCanary, request: Request, response: Response, engine: Engine, caller: Author
) -> dict[str, Any]:
    """Let a version have a share of the executions of its function. It is rolled back if it is worse, and promoted if
    it is not.
    """
    _check_visible(engine, caller, body.function)
    made = engine.canaries.start(
        body.function,
        body.version,
        share=body.share,
        unit=body.unit,
        hours=body.hours,
        author=caller.name,
    )
    root = request.scope.get("root_path", "")
    response.headers["location"] = f"{root}/api/v1/canaries/{body.function}"
    return made


@router.get("/{function}", operation_id="canaries.get", response_model=Canary)
def get(function: str, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """The newest canary of a function: what its units have shown, and what is missing for a promotion."""
    return engine.canaries.get(function, scope=caller.labels)


@router.post("/{function}:advance", operation_id="canaries.advance", response_model=Canary)
def advance(function: str, body: CanaryAdvance, engine: Engine, caller: Author) -> dict[str, Any]:
    """Raise the share, or let it go on. One that was held goes on."""
    _check_visible(engine, caller, function)
    return engine.canaries.advance(function, share=body.share, hours=body.hours, author=caller.name)


@router.post("/{function}:hold", operation_id="canaries.hold", response_model=Canary)
def hold(function: str, engine: Engine, caller: Author, body: CanaryReason | None = None) -> dict[str, Any]:
    """Keep it as it is until a person decides: it is not promoted. It is still rolled back if it is worse."""
    _check_visible(engine, caller, function)
    return engine.canaries.hold(function, reason=_reason(body), author=caller.name)


@router.post("/{function}:promote", operation_id="canaries.promote", response_model=Canary)
def promote(
    function: str, engine: Engine, caller: Author, body: CanaryReason | None = None
) -> dict[str, Any]:
    """Make its version the active one now."""
    _check_visible(engine, caller, function)
    return engine.canaries.promote(function, reason=_reason(body), author=caller.name)


@router.post("/{function}:rollback", operation_id="canaries.rollback", response_model=Canary)
def rollback(
    function: str, engine: Engine, caller: Author, body: CanaryReason | None = None
) -> dict[str, Any]:
    """Take the executions back and mark its version bad. What has not begun runs with the active version."""
    _check_visible(engine, caller, function)
    return engine.canaries.roll_back(function, reason=_reason(body), author=caller.name)


@router.post("/{function}:stop", operation_id="canaries.stop", response_model=Canary)
def stop(function: str, engine: Engine, caller: Author, body: CanaryReason | None = None) -> dict[str, Any]:
    """End it without a verdict: new executions run with the active version."""
    _check_visible(engine, caller, function)
    return engine.canaries.stop(function, reason=_reason(body), author=caller.name)


def _check_visible(engine: Functory, caller: Caller, function: str) -> None:
    # Of a function that does not exist the engine says more: that it was deleted, or a name that is like it.
    if caller.labels is not None:
        listing.labels_of(engine.database, function, caller.labels)


def _reason(body: CanaryReason | None) -> str:
    return "" if body is None else body.reason
