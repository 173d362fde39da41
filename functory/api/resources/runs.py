"""``/runs``: runs of agents. Goals, memos, results and what steps were given are payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from functory.api.access.rights import Caller, Operator, Viewer, caller_of
from functory.api.engine import Engine
from functory.api.idempotency import IdempotencyKey
from functory.api.instants import Since, Until, instant
from functory.api.paging import Before, Limit, Page, StrictRoute, id_of, number_of, page
from functory.api.path_ids import whole
from functory.api.redaction import hide
from functory.api.resources.approvals import shown_question
from functory.api.resources.budgets import shown_meter
from functory.client.functory import Functory
from functory.engine.executions import id_lookup
from functory.engine.executions.runs import reads
from functory.read_models import ReadModels, in_dollars
from functory.rows.agents import NewRun, Run, RunCost, RunRow, Step

router = APIRouter(tags=["runs"], route_class=StrictRoute)


def _run(id_: str, request: Request, engine: Engine) -> str:
    """The run of the path: its id is that of its first execution."""
    scope = caller_of(request).labels
    found = id_lookup.resolve(engine.database, id_, ["execution"], scope)
    reads.check_visible(engine.database, found, scope)
    return found


RunId = Annotated[str, Depends(_run)]
Name = Annotated[str | None, Query(max_length=200)]


@router.post("/agents/{name}/runs", operation_id="runs.start", response_model=Run, status_code=201)
def start(
    name: str,
    body: NewRun,
    request: Request,
    response: Response,
    engine: Engine,
    caller: Operator,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, Any]:
    """Start a run of an agent. An Idempotency-Key that was used before returns the run that it started."""
    engine.agents.get(name, caller.labels)
    row = engine.runs.start(
        name,
        body.goal,
        author=caller.name,
        memo=body.memo,
        user=body.user,
        limits=body.limits,
        idempotency_key=idempotency_key,
    )
    response.headers["location"] = f"{request.scope.get('root_path', '')}/api/v1/runs/{row['id']}"
    return _whole(engine, caller, row["id"])


@router.get("/runs", operation_id="runs.list", response_model=Page[RunRow])
def list_(
    request: Request,
    engine: Engine,
    caller: Viewer,
    agent: Name = None,
    state: Annotated[str | None, Query(max_length=40, description="A state, or open.")] = None,
    root: str | None = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    before: Before = None,
) -> dict[str, Any]:
    """List runs, newest first."""
    clock = engine.database.clock
    rows = engine.runs.list(
        agent=agent,
        state=state,
        root_id=whole(engine, caller, root, "execution", "event"),
        since=instant(clock, since, "since"),
        until=instant(clock, until, "until"),
        before=id_of(before, request),
        limit=limit + 1,
        scope=caller.labels,
    )
    answer = page(rows, limit, request)
    answer["items"] = [hide(caller, row, "goal") for row in ReadModels(engine).runs(answer["items"])]
    return answer


@router.get("/runs/{id_}", operation_id="runs.get", response_model=Run)
def get(id_: RunId, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """A run: its state and why, what it waits for, what it has spent."""
    return _whole(engine, caller, id_)


@router.get("/runs/{id_}/steps", operation_id="runs.steps", response_model=Page[Step])
def steps(
    id_: RunId,
    request: Request,
    engine: Engine,
    caller: Viewer,
    from_step: Annotated[int, Query(ge=1, le=2**31 - 1, description="Only this step and later ones.")] = 1,
    limit: Limit = 50,
    before: Before = None,
) -> dict[str, Any]:
    """The steps of a run, the first one first: what each was given, what it has asked for, what that cost."""
    last = number_of(before, request)
    rows = engine.runs.steps(
        id_, after=from_step - 1 if last is None else last, limit=limit + 1, scope=caller.labels
    )
    answer = page(rows, limit, request, lambda row: row["number"])
    answer["items"] = [_step(caller, row) for row in answer["items"]]
    return answer


@router.get("/runs/{id_}/cost", operation_id="runs.cost", response_model=RunCost)
def cost(id_: RunId, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """What the steps of a run have asked of models, and what its tree has spent, with its limits."""
    found = engine.runs.cost(id_, caller.labels)
    return {
        "models": [in_dollars(row, "cost") for row in found["models"]],
        "tree": found["tree"] and shown_meter(found["tree"]),
    }


@router.post("/runs/{id_}:pause", operation_id="runs.pause", response_model=Run)
def pause(id_: RunId, engine: Engine, caller: Operator) -> dict[str, Any]:
    """Start no further step of a run. What is under way may end."""
    engine.runs.pause(id_, author=caller.name)
    return _whole(engine, caller, id_)


@router.post("/runs/{id_}:resume", operation_id="runs.resume", response_model=Run)
def resume(id_: RunId, engine: Engine, caller: Operator) -> dict[str, Any]:
    """Let a paused run go on."""
    engine.runs.resume(id_, author=caller.name)
    return _whole(engine, caller, id_)


@router.post("/runs/{id_}:cancel", operation_id="runs.cancel", response_model=Run)
def cancel(id_: RunId, engine: Engine, caller: Operator) -> dict[str, Any]:
    """End a run, with its open step and all that it waits for."""
    engine.runs.cancel(id_, author=caller.name)
    return _whole(engine, caller, id_)


def _whole(engine: Functory, caller: Caller, id_: str) -> dict[str, Any]:
    row = engine.runs.get(id_, caller.labels)
    spent = row["spent"] and shown_meter(row["spent"])
    return hide(caller, row, "goal", "detail", "memo", "result") | {
        "spent": spent,
        "usd_spent": spent["usd_spent"] if spent else 0.0,
        "usd_limit": spent and spent["usd_limit"],
        "questions": [shown_question(caller, one) for one in row["questions"]],
    }


def _step(caller: Caller, row: Mapping[str, Any]) -> dict[str, Any]:
    error = row["error"] and hide(caller, row["error"], *(set(row["error"]) - {"type"}))
    return hide(caller, in_dollars(row, "cost"), "input", "result") | {"error": error}
