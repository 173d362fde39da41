"""``/executions``: starting executions, running them again, cancelling and compensating them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from functory.api.access.rights import Caller, Operator
from functory.api.engine import Engine
from functory.api.idempotency import IdempotencyKey
from functory.api.paging import StrictRoute
from functory.api.path_ids import ExecutionId
from functory.api.problem_details import Forbidden
from functory.api.redaction import hide
from functory.client.functory import Functory
from functory.engine.errors import Invalid
from functory.engine.executions import listing
from functory.engine.functions import dependencies
from functory.rows.executions import (
    Again,
    Cancel,
    Compensate,
    Compensation,
    ExecutionRow,
    Start,
    Started,
    StartMany,
)

router = APIRouter(prefix="/executions", tags=["executions"], route_class=StrictRoute)


@router.post("", operation_id="executions.start", response_model=ExecutionRow, status_code=201)
def start(
    body: Start,
    request: Request,
    response: Response,
    engine: Engine,
    caller: Operator,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, Any]:
    """Start a function. An Idempotency-Key that was used before returns the execution that it started."""
    name, version = _target(engine, caller, body)
    row = engine.start_execution(
        name,
        body.input,
        version=version,
        idempotency_key=idempotency_key,
        delay=body.delay,
        priority=body.priority,
        author=caller.name,
    )
    return _made(engine, caller, row, request, response)


@router.post(":start_many", operation_id="executions.start_many", response_model=Started, status_code=201)
def start_many(
    body: StartMany, engine: Engine, caller: Operator, idempotency_key: IdempotencyKey = None
) -> dict[str, Any]:
    """Start a function once for each input, all of them or none. An Idempotency-Key that was used before returns the
    executions that it started.
    """
    name, version = _target(engine, caller, body)
    ids = engine.start_executions(
        name,
        body.inputs,
        version=version,
        idempotency_key=idempotency_key,
        delay=body.delay,
        priority=body.priority,
        author=caller.name,
    )
    return {"ids": ids}


@router.post("/{id_}:retry", operation_id="executions.retry", response_model=ExecutionRow, status_code=201)
def retry(
    id_: ExecutionId,
    request: Request,
    response: Response,
    engine: Engine,
    caller: Operator,
    body: Again | None = None,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, Any]:
    """Run an execution that did not succeed again: a new execution with the same input."""
    latest = body is not None and body.latest
    row = engine.executions.retry(id_, latest=latest, author=caller.name, idempotency_key=idempotency_key)
    return _made(engine, caller, row, request, response)


@router.post("/{id_}:replay", operation_id="executions.replay", response_model=ExecutionRow, status_code=201)
def replay(
    id_: ExecutionId,
    request: Request,
    response: Response,
    engine: Engine,
    caller: Operator,
    body: Again | None = None,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, Any]:
    """Run a finished execution again: a new execution with the same input."""
    latest = body is not None and body.latest
    row = engine.executions.replay(id_, latest=latest, author=caller.name, idempotency_key=idempotency_key)
    return _made(engine, caller, row, request, response)


@router.post("/{id_}:cancel", operation_id="executions.cancel", response_model=ExecutionRow)
def cancel(id_: ExecutionId, engine: Engine, caller: Operator, body: Cancel | None = None) -> dict[str, Any]:
    """Cancel an execution: a queued one at once, a running one through its worker. Its open children go along, and with
    ``tree`` everything that it has caused, which a caller with labels may not ask for.
    """
    tree = body is not None and body.tree
    if tree and caller.labels is not None:
        raise Forbidden(
            "no labels",
            what="this concerns the whole tree",
            why="you see a part of it",
            try_="cancel the executions that you see",
        )
    engine.executions.cancel(id_, tree=tree, author=caller.name)
    return _shown(engine, caller, id_)


@router.post("/{id_}:compensate", operation_id="executions.compensate", response_model=Compensation)
def compensate(
    id_: ExecutionId, engine: Engine, caller: Operator, body: Compensate | None = None
) -> dict[str, Any]:
    """Go on with a compensation that has stopped: its failed step is tried again, or skipped."""
    wanted = body or Compensate()
    if wanted.reason and not wanted.skip:
        raise Invalid("a reason needs skip", "only a skipped step has a reason", "leave out reason")
    if wanted.skip:
        step = engine.compensations.skip(id_, author=caller.name, reason=wanted.reason)
    else:
        step = engine.compensations.retry(id_, author=caller.name)
    return hide(caller, step, "problem")


def _target(engine: Functory, caller: Caller, body: Start | StartMany) -> tuple[str, int | None]:
    """The name and the version of the function to start, which the caller sees."""
    name, version = dependencies.parse_reference(body.function)
    if version is not None and body.version not in (None, version):
        raise Invalid("two versions are given", f"{body.function} and {body.version}", "leave out one")
    listing.check_function_visible(engine.database, name, caller.labels)
    return name, version if body.version is None else body.version


def _made(
    engine: Functory, caller: Caller, row: dict[str, Any], request: Request, response: Response
) -> dict[str, Any]:
    """The execution that a request made, and where it is."""
    path = request.scope.get("root_path", "")
    response.headers["location"] = f"{path}/api/v1/executions/{row['id']}"
    return _shown(engine, caller, row["id"])


def _shown(engine: Functory, caller: Caller, id_: str) -> dict[str, Any]:
    return hide(caller, listing.row_of(engine.database, id_, caller.labels), "about")
