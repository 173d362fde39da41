"""Backtests: a trigger or a draft decides again on stored events, as a job."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from functory.api.access.rights import Author, Caller
from functory.api.engine import Engine
from functory.api.idempotency import IdempotencyKey
from functory.api.instants import instant
from functory.api.paging import Before, Limit, Page, StrictRoute, id_of, page
from functory.api.problem_details import Forbidden
from functory.api.redaction import hide
from functory.engine.errors import NotFound
from functory.engine.firings import trigger_listing
from functory.rows.backtests import Backtest, BacktestCreate, BacktestRow
from functory.triggers import definition

router = APIRouter(prefix="/backtests", tags=["backtests"], route_class=StrictRoute)


@router.post("", operation_id="backtests.create", response_model=Backtest, status_code=201)
def create(
    body: BacktestCreate,
    response: Response,
    engine: Engine,
    caller: Author,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, Any]:
    """Begin a backtest. It decides on the events of all functions, so a caller with labels may not."""
    if caller.labels is not None:
        raise Forbidden(
            "no labels",
            what="this concerns the whole installation",
            why="a backtest counts events of all functions",
        )
    begin = instant(engine.database.clock, body.since, "since")
    assert begin is not None
    if body.draft is not None:
        # A wrong draft is refused now, and not by the job.
        definition.parse(body.draft)
    try:
        trigger_listing.get(engine.database, body.trigger)
    except NotFound:
        if body.draft is None:
            raise
    row = engine.backtests.create(
        body.trigger,
        body.draft,
        begin,
        author=caller.name,
        idempotency_key=None if idempotency_key is None else f"{caller.name}:{idempotency_key}"[:255],
    )
    response.headers["location"] = f"/api/v1/backtests/{row['id']}"
    return _shown(caller, row)


@router.get("", operation_id="backtests.list", response_model=Page[BacktestRow])
def list_backtests(
    request: Request, engine: Engine, caller: Author, limit: Limit = 50, before: Before = None
) -> dict[str, Any]:
    """Backtests, newest first. Callers that are limited by labels see their own."""
    found = engine.backtests.list(before=id_of(before, request), limit=limit + 1, author=_own(caller))
    answer = page(found, limit, request)
    answer["items"] = [_shown(caller, row) for row in answer["items"]]
    return answer


@router.get("/{id_}", operation_id="backtests.get", response_model=Backtest)
def get(id_: str, engine: Engine, caller: Author) -> dict[str, Any]:
    """A backtest, how far it is, and its result."""
    return _shown(caller, engine.backtests.get(id_, _own(caller)))


@router.delete("/{id_}", operation_id="backtests.cancel", response_model=Backtest)
def cancel(id_: str, engine: Engine, caller: Author) -> dict[str, Any]:
    """Stop a backtest. A partial result stays."""
    return _shown(caller, engine.backtests.cancel(id_, author=caller.name, own=caller.labels is not None))


def _own(caller: Caller) -> str | None:
    return None if caller.labels is None else caller.name


def _shown(caller: Caller, row: dict[str, Any]) -> dict[str, Any]:
    return hide(caller, row, "problem")
