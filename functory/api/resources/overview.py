"""``/overview``: whether anything is wrong now."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from functory.api.access.rights import Viewer
from functory.api.engine import Engine
from functory.api.overview import Overviews
from functory.api.paging import StrictRoute
from functory.rows.overview import Overview

router = APIRouter(prefix="/overview", tags=["overview"], route_class=StrictRoute)


@router.get("", operation_id="overview.get", response_model=Overview)
def get(request: Request, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """What needs a person, the last hour, what fails, what guards have stopped, and the workers."""
    state = request.app.state
    if not hasattr(state, "overviews"):
        # Two first readers may each make one; the second one stays.
        state.overviews = Overviews(engine)
    return state.overviews.of(caller.labels)
