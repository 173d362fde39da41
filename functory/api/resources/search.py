"""``/search``: one text looked for in all names and ids."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from functory.api.access.rights import Viewer
from functory.api.engine import Engine
from functory.api.paging import StrictRoute
from functory.engine.executions import global_search
from functory.rows.search import SearchResult

router = APIRouter(prefix="/search", tags=["search"], route_class=StrictRoute)


@router.get("", operation_id="search.list", response_model=list[SearchResult])
def list_(
    engine: Engine,
    caller: Viewer,
    q: Annotated[
        str, Query(min_length=1, max_length=200, description="A part of a name, or how an id begins.")
    ],
) -> list[dict[str, Any]]:
    """Functions, triggers and sources by a part of their name; executions, events, triggers and versions by an id."""
    return global_search.search(engine.database, q, caller.labels)
