"""Triggers: lists, saves, previews of drafts, firings, and what waits for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from functory.api import trigger_preview
from functory.api.access.rights import Author, Caller, Operator, Viewer, check_fresh, needs_fresh
from functory.api.engine import Engine
from functory.api.paging import Before, Limit, Page, StrictRoute, cursor, id_of, key_of, number_of, page
from functory.api.preconditions import ExpectedVersion, tag
from functory.api.redaction import REDACTED, hide
from functory.client.functory import Functory
from functory.engine.errors import Conflict, NotFound
from functory.engine.events import envelope
from functory.engine.firings import inspection, trigger_listing
from functory.engine.firings.inspection import TriggerInspection
from functory.engine.flow_control import trigger_row
from functory.engine.functions import dependencies
from functory.engine.functions import listing as functions
from functory.read_models import ReadModels
from functory.rows import functions as function_rows
from functory.rows import triggers as rows
from functory.triggers.analysis import cycles
from functory.triggers.analysis.dry_run import dry_run

router = APIRouter(prefix="/triggers", tags=["triggers"], route_class=StrictRoute)

# Characters of a pattern on one line.
MAX_LINE = 300
_ID = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")

State = Literal["enabled", "paused", "shadow"]


@router.get("", operation_id="triggers.list", response_model=Page[rows.TriggerRow])
def list_triggers(
    request: Request,
    engine: Engine,
    caller: Viewer,
    q: Annotated[str | None, Query(description="A part of the name.", max_length=200)] = None,
    state: Annotated[list[State] | None, Query()] = None,
    function: Annotated[str | None, Query(description="Triggers that run this function.")] = None,
    label: Annotated[str | None, Query(description="Triggers with this label.")] = None,
    limit: Limit = 50,
    before: Before = None,
) -> dict[str, Any]:
    """Triggers by name."""
    found = trigger_listing.list_triggers(
        engine.database,
        scope=caller.labels,
        text=q,
        states=state or (),
        label=label,
        names=None if function is None else engine.trigger_targets.by_function().get(function, ()),
        after=key_of(before, request),
        limit=limit,
    )
    models = ReadModels(engine, caller.labels)
    return page(models.triggers(found), limit, request, lambda row: row["name"])


@router.get(":definitions", operation_id="triggers.definitions", response_model=Page[rows.TriggerDefinition])
def list_definitions(
    request: Request, engine: Engine, caller: Viewer, limit: Limit = 50, before: Before = None
) -> dict[str, Any]:
    """Triggers by name with their definitions, and the numbers of all of their decisions."""
    found = trigger_listing.list_triggers(
        engine.database, scope=caller.labels, after=key_of(before, request), limit=limit
    )
    answer = page(found, limit, request, lambda row: row["name"])
    return answer | {"items": ReadModels(engine, caller.labels).definitions(answer["items"])}


@router.get(":graph", operation_id="triggers.graph", response_model=rows.TriggerGraph)
def graph(engine: Engine, caller: Viewer) -> dict[str, Any]:
    """Which trigger may start which, and every cycle. What the labels of the caller hide is left out."""
    found = engine.trigger_saves.stored_graph()
    steps = [step for edges in found.edges.values() for step in edges]
    triggers = engine.triggers.visible_names(found.triggers, caller.labels)
    used = {step.function for step in steps} | {one.emission.subject for one in steps if one.emission.subject}
    seen = functions.visible_names(engine.database, used, caller.labels)

    def visible(step: cycles.Edge) -> bool:
        named = {step.function, step.emission.subject} - {None}
        return {step.trigger, step.target} <= triggers and named <= seen

    return {
        "triggers": [
            {"name": name, "function": one.function}
            for name, one in found.triggers.items()
            if name in triggers
        ],
        "steps": [step.as_json() for step in steps if visible(step)],
        "cycles": [[step.as_json() for step in ring] for ring in found.cycles() if all(map(visible, ring))],
    }


@router.post(":preview", operation_id="triggers.preview", response_model=rows.Preview)
def preview(body: rows.PreviewRequest, engine: Engine, caller: Author) -> dict[str, Any]:
    """Try a draft on the newest events that it could match. Nothing is saved."""
    found = trigger_preview.preview(
        engine, body.draft, body.name, limit=body.limit, event_id=body.event, scope=caller.labels
    )
    return _shown_preview(caller, found)


@router.get("/{name}", operation_id="triggers.get", response_model=rows.Trigger)
def get(
    name: str,
    response: Response,
    engine: Engine,
    caller: Viewer,
    totals: Annotated[bool, Query(description="With the numbers of all of its decisions.")] = False,
) -> dict[str, Any]:
    """A trigger with its definition, and the shortest cycle that it is part of."""
    found = _trigger(engine, caller, name, totals=totals)
    tag(response, found["version"])
    return found


@router.put("/{name}", operation_id="triggers.save", response_model=rows.SavedTrigger)
def save(
    name: str,
    body: rows.TriggerSave,
    response: Response,
    engine: Engine,
    caller: Author,
    expected: ExpectedVersion,
) -> dict[str, Any]:
    """Save a trigger. A definition that can never work is refused, and so is a cycle that it does not accept.

    A new trigger gets the labels that its author is limited to.
    """
    trigger_listing.check_changeable(engine.database, name, caller.labels)
    _check_function(engine, caller, body.definition)
    saved = engine.trigger_saves.save(
        name,
        body.definition,
        author=caller.name,
        shadow=body.shadow,
        expected_version=expected,
        labels=caller.labels or (),
    )
    found = _trigger(engine, caller, name)
    tag(response, found["version"])
    response.status_code = 201 if saved["created"] else 200
    return found | {"created": saved["created"], "warnings": saved["warnings"]}


@router.delete("/{name}", operation_id="triggers.delete", status_code=204, dependencies=[needs_fresh()])
def delete(name: str, engine: Engine, caller: Author) -> None:
    """Delete a trigger. Its firings and versions stay readable."""
    trigger_listing.get(engine.database, name, caller.labels)
    engine.triggers.delete(name, author=caller.name)


@router.get("/{name}/versions", operation_id="triggers.versions", response_model=Page[rows.TriggerVersion])
def list_versions(
    name: str, request: Request, engine: Engine, caller: Viewer, limit: Limit = 50, before: Before = None
) -> dict[str, Any]:
    """The versions of a trigger, newest first."""
    row = trigger_listing.get(engine.database, name, caller.labels)
    found = trigger_listing.list_versions(
        engine.database, row["id"], before=number_of(before, request), limit=limit
    )
    return page(found, limit, request, lambda one: one["number"])


@router.get("/{name}/firings", operation_id="triggers.firings", response_model=Page[rows.FiringRow])
def list_firings(
    name: str,
    request: Request,
    engine: Engine,
    caller: Viewer,
    decision: Annotated[list[Literal["fired", "suppressed"]] | None, Query()] = None,
    reason: Annotated[list[str] | None, Query(max_length=40)] = None,
    limit: Limit = 50,
    before: Before = None,
) -> dict[str, Any]:
    """What the trigger decided, newest event first. With filters a page may have fewer rows and a next."""
    row = trigger_listing.get(engine.database, name, caller.labels)
    found = trigger_listing.list_firings(
        engine.database,
        row["id"],
        decisions=decision or (),
        reasons=reason or (),
        scope=caller.labels,
        before=id_of(before, request),
        limit=limit,
    )
    items = [
        hide(
            caller,
            one
            | {
                "limit": one["limit_value"],
                "value": one["actual_value"],
                "version": one["trigger_version"],
            },
            "subject",
            "detail",
        )
        for one in found.rows
    ]
    return {"items": items, "next": None if found.next is None else cursor(found.next, request)}


@router.get("/{name}/flow", operation_id="triggers.flow", response_model=rows.Flow)
def flow(
    name: str,
    engine: Engine,
    caller: Viewer,
    key: Annotated[str | None, Query(description="Only what waits for this key.")] = None,
) -> dict[str, Any]:
    """What waits in the flow control of a trigger, by key."""
    trigger_listing.get(engine.database, name, caller.labels)
    inspected = inspection.inspect(engine.database, name, key=key)
    advice = engine.inspections.flow_advice(inspected if caller.reads_payloads else _keyless(inspected))
    found = asdict(inspected)
    row = found.pop("trigger")
    definition = row["definition"]
    answer = found | {
        "trigger": name,
        "version": row["version"],
        "state": row["state"],
        "note": row["note"],
        "function": definition["function"],
        "flow": definition.get("flow"),
        "composite": definition.get("composite"),
        "advice": advice,
    }
    return answer if caller.reads_payloads else _without_keys(answer)


@router.post("/{name}:test", operation_id="triggers.test", response_model=rows.DryRun)
def test(name: str, body: rows.TestEvent, engine: Engine, caller: Operator) -> dict[str, Any]:
    """What the trigger would decide about an event by itself. Nothing is started."""
    row = trigger_listing.get(engine.database, name, caller.labels)
    event = _envelope(engine, caller, body.event)
    answer = dry_run(row, event, engine.database.clock.now(), engine.functions.get)
    return _shown_dry_run(caller, answer)


@router.post("/{name}:pause", operation_id="triggers.pause", response_model=rows.Trigger)
def pause(
    name: str, body: rows.Pause, response: Response, engine: Engine, caller: Operator
) -> dict[str, Any]:
    """Pause a trigger. Its matches are suppressed and recorded until it is resumed."""
    trigger_listing.get(engine.database, name, caller.labels)
    engine.triggers.pause(name, note=body.note, author=caller.name)
    return get(name, response, engine, caller)


@router.post("/{name}:resume", operation_id="triggers.resume", response_model=rows.Trigger)
def resume(name: str, response: Response, engine: Engine, caller: Operator) -> dict[str, Any]:
    """Resume a paused trigger, and close its circuit breaker."""
    trigger_listing.get(engine.database, name, caller.labels)
    engine.triggers.resume(name, author=caller.name)
    return get(name, response, engine, caller)


@router.post("/{name}:promote", operation_id="triggers.promote", response_model=rows.Trigger)
def promote(name: str, response: Response, engine: Engine, caller: Author) -> dict[str, Any]:
    """Enable a trigger that is in shadow mode."""
    trigger_listing.get(engine.database, name, caller.labels)
    engine.triggers.promote(name, author=caller.name)
    return get(name, response, engine, caller)


@router.post("/{name}:fire", operation_id="triggers.fire", response_model=rows.Fired)
def fire(name: str, body: rows.Fire, response: Response, engine: Engine, caller: Operator) -> dict[str, Any]:
    """Start the execution of a trigger for a stored event that matches it and that it has not fired for.

    Guards, flow control, a pause and shadow mode do not stop it. With ``dry_run`` nothing is started.
    """
    row = trigger_listing.get(engine.database, name, caller.labels)
    event = _envelope(engine, caller, body.event)
    enabled = row | {"state": "enabled"}
    decided = dry_run(enabled, event, engine.database.clock.now(), engine.functions.get)
    shown = _shown_dry_run(caller, decided)
    if body.dry_run:
        return {"decision": shown, "execution_id": None}
    check_fresh(caller, engine.database.clock.now())
    if not decided["fires"]:
        why = decided["problem"] or "the event does not match"
        raise Conflict(
            f"the trigger {name} does not fire for this event",
            why if caller.reads_payloads else "it does not match, or its input does not fit",
            f"functory trigger test {name} --event {body.event}",
        )
    started = engine.trigger_history.fire(trigger_row.from_mapping(row), body.event, author=caller.name)
    response.status_code = 201
    response.headers["location"] = f"/api/v1/executions/{started['id']}"
    return {"decision": shown, "execution_id": started["id"]}


@router.post("/{name}:labels", operation_id="triggers.labels", response_model=function_rows.Labels)
def label(name: str, body: function_rows.LabelChange, engine: Engine, caller: Author) -> dict[str, Any]:
    """Add and remove labels of a trigger."""
    found = engine.labels.trigger(name, body.add, body.remove, author=caller.name, scope=caller.labels)
    return {"labels": found}


def _trigger(engine: Functory, caller: Caller, name: str, *, totals: bool = False) -> dict[str, Any]:
    row = ReadModels(engine, caller.labels).trigger(name, totals=totals)
    return row | {"failure": row["failure"] and hide(caller, row["failure"], "error")}


def _check_function(engine: Functory, caller: Caller, definition: Mapping[str, Any]) -> None:
    """A caller with labels makes triggers of functions that it sees: a trigger would start the others for it."""
    function = definition.get("function") or definition.get("trigger_function")
    if caller.labels is not None and isinstance(function, str):
        functions.labels_of(engine.database, dependencies.parse_reference(function)[0], caller.labels)


def _envelope(engine: Functory, caller: Caller, given: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(given, str):
        if not _ID.fullmatch(given):
            raise NotFound(f"event {given[:40]!r} not found", "it is not the id of an event")
        return envelope.of_mapping(trigger_listing.event_in_scope(engine.database, given, caller.labels))
    return envelope.completed(given, engine.database.new_id(), engine.database.clock.now(), "/functory/api")


def _shown_clauses(caller: Caller, clauses: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return clauses if caller.reads_payloads else [clause | {"found": REDACTED} for clause in clauses]


def _shown_dry_run(caller: Caller, answer: Mapping[str, Any]) -> dict[str, Any]:
    shown = hide(caller, answer, "input", "problem")
    condition = answer["condition"]
    return shown | {
        "clauses": _shown_clauses(caller, answer["clauses"]),
        "condition": None if condition is None else hide(caller, condition, "problem"),
    }


def _shown_preview(caller: Caller, found: dict[str, Any]) -> dict[str, Any]:
    if caller.reads_payloads:
        return found
    events = [
        hide(caller, one, "reason")
        | {
            "event": hide(caller, one["event"], "subject"),
            "clauses": _shown_clauses(caller, one["clauses"]),
            "stored": None if one["stored"] is None else hide(caller, one["stored"], "reason"),
        }
        for one in found["events"]
    ]
    made = found["input"]
    return found | {
        "events": events,
        "input": None if made is None else hide(caller, made, "input", "problem"),
    }


def _keyless(found: TriggerInspection) -> TriggerInspection:
    """What waits, without the keys that a sentence about it would name."""
    return replace(
        found,
        buffers=inspection.Page(_without_keys(found.buffers.rows), found.buffers.count),
        concurrency_groups=inspection.Page(
            _without_keys(found.concurrency_groups.rows), found.concurrency_groups.count
        ),
    )


def _without_keys(value: Any) -> Any:
    """What waits, with a marker for each key and subject: they are values of events."""
    if isinstance(value, Mapping):
        return {
            name: REDACTED if name in ("key", "subject") and below is not None else _without_keys(below)
            for name, below in value.items()
        }
    return [_without_keys(one) for one in value] if isinstance(value, list | tuple) else value
