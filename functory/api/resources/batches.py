"""``/batches``: one action on many executions, as a job."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from functory.api.access.rights import Caller, Operator, check_fresh
from functory.api.engine import Engine
from functory.api.idempotency import IdempotencyKey
from functory.api.instants import instant
from functory.api.paging import Before, Limit, Page, StrictRoute, id_of, page
from functory.api.problem_details import Forbidden
from functory.api.redaction import hide
from functory.client.functory import Functory
from functory.engine.executions.batches import BatchRequest, Found
from functory.engine.executions.listing import ExecutionFilter
from functory.rows.batches import Batch, BatchCount, BatchCreate, BatchFilter

router = APIRouter(tags=["batches"], route_class=StrictRoute)

# More executions than this at once need a password that was given lately.
MANY = 100


@router.post("/batches:count", operation_id="batches.count", response_model=BatchCount)
def count(body: BatchCreate, engine: Engine, caller: Operator) -> dict[str, Any]:
    """Count what a batch would handle, as its dry_run does. Nothing is done or stored."""
    return _counted(caller, engine.batches.count(_asked(engine, caller, body), caller.labels))


# The answer of a dry run is described by a range of codes, so that clients take the 201 for the usual one.
@router.post(
    "/batches",
    operation_id="batches.create",
    response_model=Batch,
    status_code=201,
    responses={"2XX": {"model": BatchCount, "description": "With dry_run: what the batch would handle."}},
)
def create(
    body: BatchCreate,
    request: Request,
    response: Response,
    engine: Engine,
    caller: Operator,
    idempotency_key: IdempotencyKey = None,
) -> Any:
    """Retry, replay or cancel many executions. A used Idempotency-Key returns the batch that it made."""
    asked = _asked(engine, caller, body)
    found = engine.batches.count(asked, caller.labels)
    if body.dry_run:
        return JSONResponse(BatchCount.model_validate(_counted(caller, found)).model_dump(mode="json"))
    if found.count > MANY or not found.complete:
        check_fresh(caller, engine.database.clock.now())
    row = engine.batches.create(
        asked,
        author=caller.name,
        scope=caller.labels,
        idempotency_key=None if idempotency_key is None else f"{caller.name}:{idempotency_key}"[:255],
    )
    response.headers["location"] = f"{request.scope.get('root_path', '')}/api/v1/batches/{row['id']}"
    return _shown(caller, row)


@router.get("/batches", operation_id="batches.list", response_model=Page[Batch])
def list_(
    request: Request, engine: Engine, caller: Operator, limit: Limit = 50, before: Before = None
) -> dict[str, Any]:
    """List batches, newest first. Callers that are limited by labels see their own."""
    rows = engine.batches.list(before=id_of(before, request), limit=limit + 1, author=_own(caller))
    answer = page(rows, limit, request)
    answer["items"] = [_shown(caller, row) for row in answer["items"]]
    return answer


@router.get("/batches/{id_}", operation_id="batches.get", response_model=Batch)
def get(id_: str, engine: Engine, caller: Operator) -> dict[str, Any]:
    """A batch and how far it is."""
    return _shown(caller, engine.batches.get(id_, _own(caller)))


@router.delete("/batches/{id_}", operation_id="batches.cancel", response_model=Batch)
def cancel(id_: str, engine: Engine, caller: Operator) -> dict[str, Any]:
    """Stop a batch. What it has done stays."""
    return _shown(caller, engine.batches.cancel(id_, author=caller.name, own=caller.labels is not None))


def _own(caller: Caller) -> str | None:
    return None if caller.labels is None else caller.name


def _asked(engine: Functory, caller: Caller, body: BatchCreate) -> BatchRequest:
    return BatchRequest(
        action=body.action,
        filter=None if body.filter is None else _filter(engine, caller, body.filter),
        ids=body.ids,
        latest=body.latest,
        limit=body.limit,
        reason=body.reason,
    )


def _counted(caller: Caller, found: Found) -> dict[str, Any]:
    examples = [hide(caller, row, "about") for row in found.examples]
    return {"dry_run": True, "count": found.count, "complete": found.complete, "examples": examples}


def _filter(engine: Functory, caller: Caller, given: BatchFilter) -> ExecutionFilter:
    if given.q is not None and not caller.reads_payloads:
        raise Forbidden("payload:read", caller.role)
    clock = engine.database.clock
    return ExecutionFilter(
        functions=given.function,
        states=given.state,
        triggers=given.trigger,
        causes=given.cause,
        event=given.event,
        parent=given.parent,
        root=given.root,
        replay_of=given.replay_of,
        version=given.version,
        roots=given.roots,
        unresolved=given.unresolved,
        since=instant(clock, given.since, "since"),
        until=instant(clock, given.until, "until"),
        text=given.q,
    )


def _shown(caller: Caller, row: dict[str, Any]) -> dict[str, Any]:
    problems = [hide(caller, problem, "error") for problem in row["problems"]]
    filters = row["filters"]
    if filters is not None and not caller.reads_payloads:
        # A text that was searched for in payloads.
        filters = {name: value for name, value in filters.items() if name != "text"}
    return row | {"limit": row["at_most"], "problems": problems, "filters": filters}
