"""``/grants``: what functions may do, and what waits for an operator."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from functory.api.access.rights import Approver, Caller, Viewer, needs_fresh
from functory.api.engine import Engine
from functory.api.paging import StrictRoute
from functory.client.functory import Functory
from functory.engine.functions import listing
from functory.rows.base import Number
from functory.rows.operations import Grant, GrantChange, GrantDecision

router = APIRouter(tags=["grants"], route_class=StrictRoute)


@router.get("/grants", operation_id="grants.list", response_model=list[Grant])
def list_grants(
    engine: Engine, caller: Viewer, function: str | None = None, version: Number | None = None
) -> list[dict[str, Any]]:
    """The grants of one version, of one function, or of all functions."""
    if function is not None:
        listing.labels_of(engine.database, function, caller.labels)
    return _visible(engine, caller, engine.grant_approvals.list(function, version if function else None))


@router.post("/grants:revoke", operation_id="grants.revoke", response_model=GrantDecision)
def revoke(body: GrantChange, engine: Engine, caller: Approver) -> dict[str, Any]:
    """Take back an approval. Running executions keep what they started with."""
    listing.labels_of(engine.database, body.function, caller.labels)
    done = engine.grant_approvals.revoke(
        body.function, body.version, body.kind, body.value, reason=body.reason, author=caller.name
    )
    return done | {"changed": done["removed"]}


@router.get("/grants:waiting", operation_id="grants.waiting", response_model=list[Grant])
def list_waiting(engine: Engine, caller: Viewer, refused: bool = False) -> list[dict[str, Any]]:
    """The grants that wait for a decision; with ``refused`` those that were refused."""
    known = engine.grant_approvals.refused()
    waiting = [one for one in engine.grant_approvals.list() if one["status"] == "pending"]
    chosen = [
        one
        for one in waiting
        if ((one["function"], one["sha256"], one["kind"], one["value"]) in known) == refused
    ]
    return _visible(engine, caller, chosen)


@router.post(
    "/grants:allow",
    operation_id="grants.allow",
    response_model=GrantDecision,
    dependencies=[needs_fresh()],
)
def allow(body: GrantChange, engine: Engine, caller: Approver) -> dict[str, Any]:
    """Allow a grant to exactly this content of a function."""
    listing.labels_of(engine.database, body.function, caller.labels)
    done = engine.grant_approvals.allow(
        body.function, body.version, body.kind, body.value, reason=body.reason, author=caller.name
    )
    return done | {"changed": done["created"]}


@router.post("/grants:refuse", operation_id="grants.refuse", response_model=GrantDecision)
def refuse(body: GrantChange, engine: Engine, caller: Approver) -> dict[str, Any]:
    """Refuse a grant that waits. It can be allowed later."""
    listing.labels_of(engine.database, body.function, caller.labels)
    engine.grant_approvals.refuse(
        body.function, body.version, body.kind, body.value, reason=body.reason, author=caller.name
    )
    return body.model_dump() | {"changed": True}


def _visible(engine: Functory, caller: Caller, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen = listing.visible_names(engine.database, [row["function"] for row in rows], caller.labels)
    return [row for row in rows if row["function"] in seen]
