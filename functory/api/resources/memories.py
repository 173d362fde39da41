"""``/memories``: what agents, their runs and functions remember. The texts are payloads. Memories have no labels, and
callers with labels see none.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from functory.api.access.rights import Author, Caller, PayloadReader, Viewer, needs_fresh, needs_no_labels
from functory.api.engine import Engine
from functory.api.paging import Before, Limit, Page, StrictRoute, id_of, page
from functory.api.path_ids import whole
from functory.api.redaction import hide
from functory.client.functory import Functory
from functory.engine.errors import Invalid
from functory.engine.executions import id_lookup
from functory.rows.memories import AddedMemory, Forgotten, FoundMemory, Memory, MemorySource, NewMemory

router = APIRouter(
    prefix="/memories", tags=["memories"], route_class=StrictRoute, dependencies=[needs_no_labels()]
)


def _memory(id_: str, engine: Engine) -> str:
    """The memory of the path."""
    return id_lookup.resolve(engine.database, id_, ["memory"])


MemoryId = Annotated[str, Depends(_memory)]
Agent = Annotated[str | None, Query(max_length=200, description="Memories of this agent.")]
Run = Annotated[str | None, Query(description="Memories of this run alone.")]
Shared = Annotated[bool, Query(description="Memories that all code may read.")]


@router.get("", operation_id="memories.list", response_model=Page[Memory])
def list_(
    request: Request,
    engine: Engine,
    caller: Viewer,
    agent: Agent = None,
    run: Run = None,
    shared: Shared = False,
    kind: Annotated[Literal["fact", "episode", "lesson"] | None, Query()] = None,
    limit: Limit = 50,
    before: Before = None,
) -> dict[str, Any]:
    """List memories, newest first."""
    scope, owner = _place(engine, caller, agent, run, shared)
    found = engine.memory.list(
        scope=scope, owner=owner, kind=kind, before=id_of(before, request), limit=limit + 1
    )
    answer = page(found, limit, request)
    answer["items"] = [hide(caller, row, "text") for row in answer["items"]]
    return answer


@router.get(":search", operation_id="memories.search", response_model=list[FoundMemory])
def search(
    engine: Engine,
    caller: PayloadReader,
    q: Annotated[str, Query(max_length=4000, description="Words, or a question.")],
    agent: Agent = None,
    run: Run = None,
    shared: Shared = False,
    count: Annotated[int, Query(ge=1, le=100, description="Number of memories.")] = 5,
) -> list[dict[str, Any]]:
    """Find memories by their words, and with the setting embedding_model by their meaning: the best first."""
    scope, owner = _place(engine, caller, agent, run, shared)
    return engine.memory.search(q, count, scope=scope, owner=owner)


@router.post(
    "",
    operation_id="memories.add",
    response_model=AddedMemory,
    status_code=201,
    responses={200: {"model": AddedMemory, "description": "The text was stored already."}},
)
def add(
    body: NewMemory, request: Request, response: Response, engine: Engine, caller: Author
) -> dict[str, Any]:
    """Store a memory. The same text is stored once, and becomes more important: then the status is 200."""
    scope, owner = _place(engine, caller, body.agent, body.run, False)
    row = engine.memory.add(
        body.text,
        kind=body.kind,
        scope=scope or "shared",
        owner=owner or "",
        importance=body.importance,
        days=body.days,
        author=caller.name,
    )
    response.status_code = 201 if row["added"] else 200
    response.headers["location"] = f"{request.scope.get('root_path', '')}/api/v1/memories/{row['id']}"
    return hide(caller, row, "text")


@router.get("/{id_}", operation_id="memories.get", response_model=Memory)
def get(id_: MemoryId, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """A memory, and where it comes from."""
    return hide(caller, engine.memory.get(id_), "text")


@router.delete("/{id_}", operation_id="memories.forget", status_code=204, dependencies=[needs_fresh()])
def forget(id_: MemoryId, engine: Engine, caller: Author) -> None:
    """Delete a memory. Nothing of its text and its vectors is kept."""
    engine.memory.forget(id_, author=caller.name)


@router.post(
    ":forget", operation_id="memories.forget_source", response_model=Forgotten, dependencies=[needs_fresh()]
)
def forget_source(body: MemorySource, engine: Engine, caller: Author) -> dict[str, int]:
    """Delete all memories from one execution, or from all executions of one run."""
    count = engine.memory.forget_source(
        execution=whole(engine, caller, body.execution, "execution"),
        run_id=whole(engine, caller, body.run, "execution"),
        author=caller.name,
    )
    return {"count": count}


def _place(
    engine: Functory, caller: Caller, agent: str | None, run: str | None, shared: bool
) -> tuple[str | None, str | None]:
    """The scope and the owner that are named; (None, None) without any."""
    if sum((agent is not None, run is not None, shared)) > 1:
        raise Invalid("wrong owner", "memories are of one agent, of one run, or shared", "name one of them")
    if agent is not None:
        return "agent", agent
    if run is not None:
        return "run", whole(engine, caller, run, "execution")
    return ("shared", "") if shared else (None, None)
