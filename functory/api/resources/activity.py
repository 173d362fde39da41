"""``/activity``: what happens now."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from functory.api.access.rights import Viewer
from functory.api.engine import Engine
from functory.api.paging import StrictRoute
from functory.rows.activity import Activity

router = APIRouter(prefix="/activity", tags=["activity"], route_class=StrictRoute)


@router.get("", operation_id="activity.get", response_model=Activity)
def get(
    engine: Engine,
    caller: Viewer,
    minutes: Annotated[int, Query(ge=1, le=60, description="Minutes of executions that have ended.")] = 5,
    count: Annotated[int, Query(ge=1, le=100, description="Number of functions, and of executions.")] = 20,
) -> dict[str, Any]:
    """The functions that are busiest, and the executions that have run longest, as ``functory top`` shows them."""
    return engine.inspections.activity(minutes=minutes, count=count, scope=caller.labels)
