"""``/calls``: what was asked of language models, and what it cost. Requests and answers are payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from functory.api.access.rights import Caller, Viewer
from functory.api.engine import Engine
from functory.api.instants import Since, Until, instant
from functory.api.paging import Before, Limit, Page, StrictRoute, id_of, page
from functory.api.path_ids import whole
from functory.api.redaction import hide
from functory.engine.executions import id_lookup
from functory.read_models import in_dollars
from functory.rows.models import Call, CallRow, Cost

router = APIRouter(prefix="/calls", tags=["calls"], route_class=StrictRoute)

Name = Annotated[str | None, Query(max_length=200)]


@router.get("", operation_id="calls.list", response_model=Page[CallRow])
def list_(
    request: Request,
    engine: Engine,
    caller: Viewer,
    model: Name = None,
    state: Name = None,
    root: str | None = None,
    execution: str | None = None,
    function: Name = None,
    agent: Name = None,
    user: Name = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    before: Before = None,
) -> dict[str, Any]:
    """List calls, newest first, without their requests and answers."""
    clock = engine.database.clock
    rows = engine.calls.list(
        model=model,
        state=state,
        root_id=whole(engine, caller, root, "execution", "event"),
        execution_id=whole(engine, caller, execution, "execution"),
        function=function,
        agent=agent,
        user=user,
        since=instant(clock, since, "since"),
        until=instant(clock, until, "until"),
        before=id_of(before, request),
        limit=limit + 1,
        scope=caller.labels,
    )
    answer = page(rows, limit, request)
    answer["items"] = [_shown(caller, row) for row in answer["items"]]
    return answer


# Before the route with an id: a cost is no call.
@router.get(":cost", operation_id="calls.cost", response_model=list[Cost])
def cost(
    engine: Engine,
    caller: Viewer,
    by: Annotated[str, Query(max_length=20, description="model, agent, user, function or day")] = "model",
    since: Since = None,
) -> list[dict[str, Any]]:
    """Calls, tokens and cost in sum: of each model, agent, user, function or day (UTC)."""
    at = instant(engine.database.clock, since, "since")
    return [in_dollars(row, "cost") for row in engine.calls.cost(by, since=at, scope=caller.labels)]


@router.get("/{id_}", operation_id="calls.get", response_model=Call)
def get(id_: str, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """A call with its request, its answer, its tries, and the text so far while the answer streams."""
    found = id_lookup.resolve(engine.database, id_, ["call"], caller.labels)
    row = hide(
        caller, _shown(caller, engine.calls.get(found, caller.labels)), "request", "response", "partial"
    )
    return row | {"tried": [hide(caller, in_dollars(one, "cost"), "problem") for one in row["tried"]]}


def _shown(caller: Caller, row: Mapping[str, Any]) -> dict[str, Any]:
    error = row["error"] and hide(caller, row["error"], "message", "answer")
    return in_dollars(row, "cost", "reserved") | {"error": error}
