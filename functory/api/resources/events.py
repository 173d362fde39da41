"""``/events``: lists and details of events, and what the triggers decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from functory.api import hidden_names
from functory.api.access.rights import Caller, Operator, Viewer
from functory.api.engine import Engine
from functory.api.idempotency import IdempotencyKey
from functory.api.instants import Since, Until, instant
from functory.api.paging import Before, Limit, Page, StrictRoute, cursor, id_of
from functory.api.path_ids import EventId, whole
from functory.api.problem_details import Forbidden
from functory.api.redaction import REDACTED, hide
from functory.engine.executions import event_listing, event_timeline, listing
from functory.engine.executions.event_listing import EventFilter
from functory.read_models import ReadModels
from functory.rows.events import PAYLOADS_OF_ROW, Decision, Emitted, Event, EventRow, NewEvent, NewEvents
from functory.rows.executions import Times
from functory.triggers.analysis.event_explanation import explain

router = APIRouter(prefix="/events", tags=["events"], route_class=StrictRoute)

Many = Annotated[list[str], Query(description="Repeat it for several values, of which one has to fit.")]


@router.get("", operation_id="events.list", response_model=Page[EventRow])
def list_(
    request: Request,
    engine: Engine,
    caller: Viewer,
    type_: Annotated[Many, Query(alias="type")] = [],  # noqa: B006  (FastAPI copies it)
    subject: Annotated[
        str | None, Query(description="Only together with a type. Needs the right payload:read.")
    ] = None,
    state: Many = [],  # noqa: B006
    source: Annotated[
        str | None,
        Query(description="The source of the event exactly, as /functory/webhook/NAME.", max_length=2048),
    ] = None,
    root: str | None = None,
    since: Since = None,
    until: Until = None,
    q: Annotated[
        str | None, Query(description="Text in the data or the subject. Needs the right payload:read.")
    ] = None,
    limit: Limit = 50,
    before: Before = None,
) -> dict[str, Any]:
    """List events, newest first.

    A page may have fewer rows than ``limit`` and still have a ``next``: a page looks at a bounded number of rows.
    """
    if (q is not None or subject is not None) and not caller.reads_payloads:
        raise Forbidden("payload:read", caller.role)
    clock = engine.database.clock
    wanted = EventFilter(
        types=type_,
        subject=subject,
        states=state,
        source=source,
        root=whole(engine, caller, root, "event", "execution"),
        since=instant(clock, since, "since"),
        until=instant(clock, until, "until"),
        text=q,
    )
    found = event_listing.page(
        engine.database, wanted, before=id_of(before, request), limit=limit, scope=caller.labels
    )
    return {
        "items": [hide(caller, row, *PAYLOADS_OF_ROW) for row in found.rows],
        "next": None if found.next is None else cursor(found.next, request),
    }


@router.get("/types", operation_id="events.types", response_model=list[str])
def types(engine: Engine, caller: Viewer) -> list[str]:
    """The types of stored events, for completion: the first 500 in their order."""
    if caller.labels is None:
        return engine.events.types()
    # Of all events a scope may see only some; their types are taken from the newest ones.
    found = event_listing.page(engine.database, EventFilter(), limit=1000, scope=caller.labels)
    return sorted({row["type"] for row in found.rows})


@router.get("/{id_}", operation_id="events.get", response_model=Event)
def get(id_: EventId, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """One event with its data and the recorded decisions of the triggers."""
    row = ReadModels(engine, caller.labels).event(id_)
    return hide(caller, row, *PAYLOADS_OF_ROW, "data", "dedup_key") | {
        "firings": [hide(caller, firing, "detail") for firing in row["firings"]],
        "chain": hidden_names.chain(engine, caller, row["chain"]),
    }


@router.get("/{id_}/decisions", operation_id="events.decisions", response_model=list[Decision])
def decisions(id_: EventId, engine: Engine, caller: Viewer) -> list[dict[str, Any]]:
    """What each trigger decided about the event; without a match the clauses, those with the fewest failures first."""
    answers = explain(
        engine.events.get(id_),
        engine.triggers.definitions(),
        engine.lineage.decisions(id_),
        engine.database.clock.now(),
    )
    return [
        _decision(caller, answer) | {"chain": hidden_names.names(engine, caller, answer.get("chain", ()))}
        for answer in ReadModels(engine, caller.labels).visible_decisions(answers)
    ]


@router.get("/{id_}/times", operation_id="events.times", response_model=Times)
def times(id_: EventId, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """Where the time went: each step of the event and of its executions."""
    rows = event_timeline.read(engine.database, id_)
    if caller.labels is not None:
        visible = listing.visible_ids(engine.database, [row.id for row in rows.executions], caller.labels)
        rows = replace(rows, executions=[row for row in rows.executions if row.id in visible])
    return event_timeline.timeline(rows, engine.database.clock.now()).fields()


@router.post("", operation_id="events.emit", response_model=Emitted, status_code=201)
def emit(
    body: NewEvent | NewEvents,
    engine: Engine,
    caller: Operator,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, Any]:
    """Write one event, or several: all of them or none. An Idempotency-Key that was used before writes nothing."""
    events = [body] if isinstance(body, NewEvent) else body.events
    keys = (
        [None] * len(events)
        if idempotency_key is None
        else [idempotency_key if len(events) == 1 else f"{idempotency_key}:{n}" for n in range(len(events))]
    )
    given = (
        event.model_dump(exclude_none=True) | ({"dedup_key": key} if event.dedup_key is None and key else {})
        for event, key in zip(events, keys, strict=True)
    )
    ids = engine.emit_many(given, author=caller.name)
    return {"ids": ids}


@router.post("/{id_}:release", operation_id="events.release", response_model=EventRow)
def release(id_: EventId, engine: Engine, caller: Operator) -> dict[str, Any]:
    """Send a quarantined event to the router again."""
    engine.events.release(id_, author=caller.name)
    return hide(caller, event_listing.row_of(engine.database, id_), *PAYLOADS_OF_ROW)


def _decision(caller: Caller, answer: Mapping[str, Any]) -> dict[str, Any]:
    clauses = answer.get("clauses") or ()
    # The reason of a trigger that did not match quotes the event.
    hidden = ("detail", "reason") if answer["decision"] == "no match" else ("detail",)
    return hide(caller, answer, *hidden) | {
        "clauses": [clause if caller.reads_payloads else clause | {"found": REDACTED} for clause in clauses],
    }
