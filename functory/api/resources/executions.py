"""``/executions``: lists, details and parts of executions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from functory.api import bounded_reads, hidden_names, payloads
from functory.api.access.rights import Caller, PayloadReader, Viewer
from functory.api.engine import Engine
from functory.api.instants import Since, Until, instant
from functory.api.paging import Before, Limit, Page, StrictRoute, cursor, id_of
from functory.api.path_ids import ExecutionId, whole
from functory.api.problem_details import Forbidden
from functory.api.redaction import hide
from functory.engine.executions import detail, event_timeline, listing, tree_reads, worker_registry
from functory.engine.executions.listing import ExecutionFilter
from functory.explanations import executions as explanations
from functory.read_models import ReadModels
from functory.rows.executions import Attempt, Execution, ExecutionRow, LogLine, Span, Times, Trace, Why

router = APIRouter(prefix="/executions", tags=["executions"], route_class=StrictRoute)

# Lines of one answer; a log may have a megabyte of them.
MAX_LINES = 5000

Many = Annotated[list[str], Query(description="Repeat it for several values, of which one has to fit.")]


@router.get("", operation_id="executions.list", response_model=Page[ExecutionRow])
def list_(
    request: Request,
    engine: Engine,
    caller: Viewer,
    function: Many = [],  # noqa: B006  (FastAPI copies it)
    state: Many = [],  # noqa: B006
    trigger: Many = [],  # noqa: B006
    cause: Many = [],  # noqa: B006
    event: str | None = None,
    parent: str | None = None,
    root: str | None = None,
    replay_of: str | None = None,
    version: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
    roots: bool = False,
    unresolved: bool = False,
    since: Since = None,
    until: Until = None,
    q: Annotated[
        str | None, Query(description="Text in the input or the error. Needs the right payload:read.")
    ] = None,
    limit: Limit = 50,
    before: Before = None,
) -> dict[str, Any]:
    """List executions, newest first; those of one trigger in the order of their events.

    A page may have fewer rows than ``limit`` and still have a ``next``: a page looks at a bounded number of rows.
    """
    if q is not None and not caller.reads_payloads:
        raise Forbidden("payload:read", caller.role)
    clock = engine.database.clock
    wanted = ExecutionFilter(
        functions=function,
        states=state,
        triggers=trigger,
        causes=cause,
        event=whole(engine, caller, event, "event"),
        parent=whole(engine, caller, parent, "execution"),
        root=whole(engine, caller, root, "execution", "event"),
        replay_of=whole(engine, caller, replay_of, "execution"),
        version=version,
        roots=roots,
        unresolved=unresolved,
        since=instant(clock, since, "since"),
        until=instant(clock, until, "until"),
        text=q,
    )
    found = listing.page(
        engine.database, wanted, before=id_of(before, request), limit=limit, scope=caller.labels
    )
    return {
        "items": [hide(caller, row, "about") for row in found.rows],
        "next": None if found.next is None else cursor(found.next, request),
    }


@router.get("/{id_}", operation_id="executions.get", response_model=Execution)
def get(id_: ExecutionId, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """Everything about one execution, without its input and its result."""
    row = ReadModels(engine, caller.labels).execution(id_)
    steps = [hide(caller, step, "problem") for step in row["compensations"]]
    return _with_error(caller, hide(caller, row, "about", "warnings")) | {
        "compensations": steps,
        "undoes": row["undoes"] and hide(caller, row["undoes"], "problem"),
        "slots": [hide(caller, slot, "group") for slot in row["slots"]],
        "event": row["event"] and hide(caller, row["event"], "subject"),
        "error_source": row["error_source"] if caller.reads_payloads else None,
        "chain": hidden_names.chain(engine, caller, row["chain"]),
    }


@router.get("/{id_}/attempts", operation_id="executions.attempts", response_model=list[Attempt])
def attempts(id_: ExecutionId, engine: Engine, caller: Viewer) -> list[dict[str, Any]]:
    """The attempts of an execution, the first one first."""
    return [_with_error(caller, row) for row in engine.executions.attempts(id_)]


@router.get("/{id_}/spans", operation_id="executions.spans", response_model=list[Span])
def spans(id_: ExecutionId, engine: Engine, caller: Viewer) -> list[dict[str, Any]]:
    """The functions that the execution called in its process, in their order."""
    return [_with_error(caller, hide(caller, row, "input", "output")) for row in engine.executions.spans(id_)]


@router.get("/{id_}/trace", operation_id="executions.trace", response_model=Trace)
def trace(
    id_: ExecutionId,
    engine: Engine,
    caller: Viewer,
    budget: Annotated[
        int, Query(ge=1, le=tree_reads.MAX_BUDGET, description="Number of nodes of the outline.")
    ] = 200,
) -> dict[str, Any]:
    """What happened in an execution, for a picture over time: the outline of what it caused, its attempts and spans."""
    outline = tree_reads.outline(engine.database, id_, at=id_, limit=budget, scope=caller.labels)
    hidden = {name: [hide(caller, node, "about") for node in outline[name]] for name in ("path", "nodes")}
    return {
        "outline": outline | hidden,
        "attempts": attempts(id_, engine, caller),
        "spans": spans(id_, engine, caller),
    }


@router.get("/{id_}/logs", operation_id="executions.logs", response_model=list[LogLine])
def logs(
    id_: ExecutionId,
    engine: Engine,
    caller: Viewer,
    after: Annotated[
        str | None,
        Query(pattern=r"^\d{1,9}\.\d{1,9}$", description="Only lines after this one: its fence.seq."),
    ] = None,
    tail: Annotated[
        int | None, Query(ge=1, le=MAX_LINES, description="Only the last lines: their number.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LINES)] = MAX_LINES,
    fence: Annotated[
        int | None, Query(ge=0, le=2**31 - 1, description="Only lines of this attempt: its fence.")
    ] = None,
) -> list[dict[str, Any]]:
    """What the execution has printed and logged, in its order."""
    place = None
    if after is not None:
        of, _, seq = after.partition(".")
        place = int(of), int(seq)
    rows = engine.executions.logs(id_, after=place, tail=tail, limit=limit, fence=fence)
    return [hide(caller, row, "text") for row in rows]


@router.get(
    "/{id_}/input",
    operation_id="executions.input",
    responses={200: {"content": {"application/json": {}}}},
    response_class=Response,
)
@bounded_reads.unlimited
def input_(id_: ExecutionId, request: Request, engine: Engine, caller: PayloadReader) -> Response:
    """The input of the execution: its JSON text."""
    return payloads.answer(request, detail.payload(engine.database, id_, "input"), f"{id_}-input.json")


@router.get(
    "/{id_}/result",
    operation_id="executions.result",
    responses={200: {"content": {"application/json": {}}}},
    response_class=Response,
)
@bounded_reads.unlimited
def result(id_: ExecutionId, request: Request, engine: Engine, caller: PayloadReader) -> Response:
    """The result of the execution: its JSON text. 404 while it has none."""
    return payloads.answer(request, detail.payload(engine.database, id_, "result"), f"{id_}-result.json")


@router.get("/{id_}/why", operation_id="executions.why", response_model=Why)
def why(id_: ExecutionId, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """Why the execution ran, waits or failed, and what to do."""
    found = hidden_names.around_execution(engine, caller, engine.lineage.cause(id_))
    if not caller.reads_payloads:
        found = _without_payloads(found)
    database, settings = engine.database, engine.settings
    waiting = hidden_names.visible_executions(
        engine,
        caller,
        [
            row
            for state in ("queued", "running")
            for row in engine.executions.list(parent_id=id_, state=state)
        ],
    )
    alive = len(worker_registry.alive(database, settings.lease_seconds))
    said = explanations.explain(
        found, children=waiting, workers=alive, embedded=settings.embedded, format_time=explanations.utc_time
    )
    shown = explanations.fields(found, said, waiting)
    return shown | {"suppressed": [hide(caller, row, "detail") for row in shown["suppressed"]]}


@router.get("/{id_}/times", operation_id="executions.times", response_model=Times)
def times(id_: ExecutionId, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """Where the time went: each step of the execution, since the event that started it."""
    rows = event_timeline.read_execution(engine.database, id_)
    return event_timeline.timeline(rows, engine.database.clock.now()).fields()


def _with_error(caller: Caller, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row whose error has only its type, unless the caller may read payloads."""
    return {
        **row,
        "error": row["error"] and hide(caller, row["error"], *(set(row["error"]) - {"type"})),
    }


def _without_payloads(found: Mapping[str, Any]) -> dict[str, Any]:
    """What :meth:`Lineage.cause` returns, without what sentences would quote."""

    def without(row: Mapping[str, Any] | None, **values: Any) -> Any:
        return row and {name: values.get(name, value) for name, value in row.items()}

    error = found["execution"]["error"]
    return {
        **found,
        "execution": without(found["execution"], error=error and {"type": error.get("type", "error")}),
        "event": without(found["event"], subject=None),
        "plan": [without(step, problem="the reason is hidden") for step in found["plan"]],
        "stopped": [without(row, detail=None) for row in found["stopped"]],
    }
