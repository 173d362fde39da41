"""Secrets: set and deleted here, and never read. State: what functions keep."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from functory.api.access.rights import Author, Caller, Viewer, needs_fresh, needs_no_labels
from functory.api.engine import Engine
from functory.api.paging import Before, Limit, Page, StrictRoute, key_of, page
from functory.api.preconditions import ExpectedVersion
from functory.api.redaction import hide
from functory.client.functory import Functory
from functory.engine.errors import NotFound
from functory.engine.functions import listing
from functory.read_models import ReadModels
from functory.rows.operations import Secret, SecretSet, SecretValue, StateRow, StateValue

router = APIRouter(route_class=StrictRoute)


@router.get("/secrets", operation_id="secrets.list", response_model=list[Secret], tags=["secrets"])
def list_secrets(engine: Engine, caller: Viewer) -> list[dict[str, Any]]:
    """The secrets with their users, also those that are used and not set. Never a value."""
    return ReadModels(engine, caller.labels).secrets()


@router.put(
    "/secrets/{name}",
    operation_id="secrets.set",
    response_model=SecretSet,
    tags=["secrets"],
    dependencies=[needs_no_labels()],
)
def set_secret(name: str, body: SecretValue, engine: Engine, caller: Author) -> dict[str, Any]:
    """Set or rotate a secret. Running executions keep the value that they started with."""
    return {"name": name, "version": engine.secrets.set(name, body.value, author=caller.name)}


@router.delete(
    "/secrets/{name}",
    operation_id="secrets.delete",
    status_code=204,
    tags=["secrets"],
    dependencies=[needs_fresh(), needs_no_labels()],
)
def delete_secret(name: str, engine: Engine, caller: Author) -> None:
    """Delete a secret. Executions that need it fail from now on."""
    engine.secrets.delete(name, author=caller.name)


@router.get("/state", operation_id="state.list", response_model=Page[StateRow], tags=["state"])
def list_state(
    request: Request,
    engine: Engine,
    caller: Viewer,
    function: Annotated[str, Query(max_length=200)],
    limit: Limit = 50,
    before: Before = None,
) -> dict[str, Any]:
    """The values that a function keeps, by their keys."""
    listing.labels_of(engine.database, function, caller.labels)
    found = engine.state.list(function, after=key_of(before, request), limit=limit)
    answer = page(found, limit, request, lambda row: row["key"])
    answer["items"] = [_shown(caller, row) for row in answer["items"]]
    return answer


@router.get("/state/{function}/{key:path}", operation_id="state.get", response_model=StateRow, tags=["state"])
def get_state(function: str, key: str, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """One value."""
    listing.labels_of(engine.database, function, caller.labels)
    return _state(engine, caller, function, key)


@router.put("/state/{function}/{key:path}", operation_id="state.set", response_model=StateRow, tags=["state"])
def set_state(
    function: str, key: str, body: StateValue, engine: Engine, caller: Author, expected: ExpectedVersion
) -> dict[str, Any]:
    """Set a value. If-Match has its version; 0 for a key that must be new."""
    listing.labels_of(engine.database, function, caller.labels)
    engine.state.set(function, key, body.value, expected_version=expected, author=caller.name)
    return _state(engine, caller, function, key)


@router.delete("/state/{function}/{key:path}", operation_id="state.delete", status_code=204, tags=["state"])
def delete_state(function: str, key: str, engine: Engine, caller: Author) -> None:
    """Delete a value."""
    listing.labels_of(engine.database, function, caller.labels)
    if not engine.state.delete(function, key, author=caller.name):
        raise _missing(function, key)


def _state(engine: Functory, caller: Caller, function: str, key: str) -> dict[str, Any]:
    row = engine.state.row(function, key)
    if row is None:
        raise _missing(function, key)
    return _shown(caller, row)


def _shown(caller: Caller, row: dict[str, Any]) -> dict[str, Any]:
    # A stored null is a value like any other.
    return hide(caller, row | {"value": row["value"] if caller.reads_payloads else ""}, "value")


def _missing(function: str, key: str) -> NotFound:
    return NotFound(
        f"{function} keeps nothing under {key!r}", try_=f"functory state set {function} KEY VALUE"
    )
