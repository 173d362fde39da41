"""Sources of events of every kind, and what only schedules have: times to come, ticks, backfill."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from functory.api.access.rights import Author, Operator, Viewer, needs_fresh, needs_no_labels
from functory.api.engine import Engine
from functory.api.paging import StrictRoute
from functory.api.preconditions import ExpectedVersion, tag
from functory.api.redaction import hide
from functory.client.functory import Functory
from functory.client.schedules import KIND as SCHEDULE
from functory.client.schedules import MAX_NEXT_TIMES, Schedules, after_clock_changes
from functory.engine.errors import Invalid, NotFound
from functory.read_models import ReadModels
from functory.rows import sources as rows
from functory.triggers.sources.registry import find_plugin, installed_plugins

# Sources belong to the whole installation: their events may start any trigger.
router = APIRouter(
    prefix="/sources", tags=["sources"], route_class=StrictRoute, dependencies=[needs_no_labels()]
)

# Changes of the clocks that the preview of a schedule has.
SHOWN_CHANGES = 4


def _known_kind(kind: str) -> str:
    if kind not in installed_plugins():
        raise NotFound(
            f"there are no sources of the kind {kind[:40]!r}", f"known are: {', '.join(installed_plugins())}"
        )
    return kind


Kind = Annotated[str, Depends(_known_kind)]


@router.get("", operation_id="sources.all", response_model=list[rows.SourceRow])
def list_all(engine: Engine, _caller: Viewer) -> list[dict[str, Any]]:
    """The sources of all kinds."""
    return ReadModels(engine).sources()


@router.get(":configs", operation_id="sources.configs", response_model=list[rows.Source])
def list_configs(
    engine: Engine,
    _caller: Viewer,
    kind: Annotated[str | None, Query(description="Only sources of this kind.", max_length=200)] = None,
) -> list[dict[str, Any]]:
    """Sources by kind and name, with their configurations."""
    return ReadModels(engine).all_sources(kind)


@router.get("/kinds", operation_id="sources.kinds", response_model=list[rows.Kind])
def kinds(_engine: Engine, _caller: Viewer) -> list[dict[str, Any]]:
    """The kinds of sources that are installed, with the schema of their configuration."""
    found = [find_plugin(kind) for kind in installed_plugins()]
    return [
        {
            "kind": plugin.kind,
            "summary": plugin.summary,
            "types": list(plugin.types),
            "config_schema": plugin.Config.model_json_schema(),
        }
        for plugin in found
    ]


@router.post("/schedule:preview", operation_id="schedules.preview", response_model=rows.PreviewedTimes)
def preview(body: rows.SchedulePreview, engine: Engine, _caller: Author) -> dict[str, Any]:
    """The next times of a schedule that is not saved, in UTC and in its zone, and the first ones after the clocks
    change. It is asked while a person types, so what
    is wrong so far is an answer and no error."""
    try:
        found = engine.schedules.preview(body.config, MAX_NEXT_TIMES)
    except Invalid as error:
        return {"times": [], "after_changes": [], "problem": error.why or error.what}
    changes = after_clock_changes(found)[:SHOWN_CHANGES]
    return {"times": found[: body.count], "after_changes": changes, "problem": None}


@router.get("/{kind}", operation_id="sources.list", response_model=list[rows.SourceRow])
def list_sources(kind: Kind, engine: Engine, _caller: Viewer) -> list[dict[str, Any]]:
    """The sources of a kind, by name."""
    return ReadModels(engine).sources(kind)


@router.get("/{kind}/{name}", operation_id="sources.get", response_model=rows.Source)
def get(kind: Kind, name: str, response: Response, engine: Engine, _caller: Viewer) -> dict[str, Any]:
    """A source with its configuration."""
    row = ReadModels(engine).source(kind, name)
    tag(response, row["version"])
    return row


@router.put("/{kind}/{name}", operation_id="sources.save", response_model=rows.SavedSource)
def save(
    kind: Kind,
    name: str,
    body: rows.SourceSave,
    response: Response,
    engine: Engine,
    caller: Author,
    expected: ExpectedVersion,
) -> dict[str, Any]:
    """Save a source. A schedule with a function gets the trigger that runs it."""
    if kind == SCHEDULE:
        saved = _schedules(engine, caller.name).save(
            name, function=body.function, input=body.input, expected_version=expected, **body.config
        )
    else:
        _refuse_function(kind, body)
        saved = engine.sources.save(kind, name, body.config, author=caller.name, expected_version=expected)
    row = ReadModels(engine).source(kind, name)
    tag(response, row["version"])
    response.status_code = 201 if saved["created"] else 200
    return row | {"created": saved["created"], "warnings": saved.get("warnings", [])}


@router.delete("/{kind}/{name}", operation_id="sources.delete", status_code=204, dependencies=[needs_fresh()])
def delete(kind: Kind, name: str, engine: Engine, caller: Author) -> None:
    """Delete a source. Its events stay. A schedule's own trigger is deleted too."""
    if kind == SCHEDULE:
        _schedules(engine, caller.name).delete(name)
    else:
        engine.sources.delete(kind, name, author=caller.name)


@router.post("/{kind}/{name}:pause", operation_id="sources.pause", response_model=rows.Source)
def pause(kind: Kind, name: str, body: rows.PauseSource, engine: Engine, caller: Operator) -> dict[str, Any]:
    """Pause a source: it writes no more events."""
    engine.sources.pause(kind, name, note=body.note, author=caller.name)
    return ReadModels(engine).source(kind, name)


@router.post("/{kind}/{name}:resume", operation_id="sources.resume", response_model=rows.ResumedSource)
def resume(kind: Kind, name: str, engine: Engine, caller: Operator) -> dict[str, Any]:
    """Resume a source. Times of a schedule that passed meanwhile are not caught up."""
    paused_at, passed = None, 0
    if kind == SCHEDULE:
        paused_at, passed = _schedules(engine, caller.name).resume(name)
    else:
        engine.sources.resume(kind, name, author=caller.name)
    return ReadModels(engine).source(kind, name) | {"paused_at": paused_at, "passed": passed}


@router.get("/schedule/{name}/next", operation_id="schedules.next", response_model=list[rows.NextTime])
def next_times(
    name: str, engine: Engine, _caller: Viewer, count: Annotated[int, Query(ge=1, le=1000)] = 3
) -> list[dict[str, Any]]:
    """The next times of a schedule, in UTC and in its zone."""
    return engine.schedules.next(name, count)


@router.get("/schedule/{name}/ticks", operation_id="schedules.ticks", response_model=rows.Ticks)
def ticks(
    name: str, engine: Engine, _caller: Viewer, limit: Annotated[int, Query(ge=1, le=1000)] = 50
) -> dict[str, Any]:
    """The newest times that became events, and how many passed without one, with the reason where one is known."""
    row = engine.schedules.get(name)
    return {"items": engine.schedules.ticks(name, limit)} | row


@router.post(
    "/schedule/{name}:trigger",
    operation_id="schedules.trigger",
    response_model=rows.TriggeredSchedule,
    status_code=201,
)
def trigger(name: str, body: rows.FireSchedule, engine: Engine, caller: Operator) -> dict[str, Any]:
    """Fire a schedule now, beside its times."""
    return {"event_id": _schedules(engine, caller.name).trigger(name, overlap=body.overlap)}


@router.post(
    "/schedule/{name}:backfill", operation_id="schedules.backfill", response_model=rows.BackfillAnswer
)
def backfill(name: str, body: rows.BackfillRequest, engine: Engine, caller: Operator) -> dict[str, Any]:
    """Fire the times of a range that have no event. With ``dry_run``, which is the default, they are only listed."""
    schedules = _schedules(engine, caller.name)
    items = schedules.backfill_rows(name, body.from_, body.until, overlap=body.overlap, dry_run=body.dry_run)
    return {"dry_run": body.dry_run, "items": items}


@router.get("/file/{name}/files", operation_id="watches.files", response_model=rows.KnownFiles)
def files(
    name: str, engine: Engine, caller: Viewer, limit: Annotated[int, Query(ge=1, le=100_000)] = 1000
) -> dict[str, Any]:
    """The files that a watch knows, in the order of their paths, and the number of all."""
    found = engine.sources.files(name, limit)
    return {
        "items": [hide(caller, row, "path", "problem") for row in found],
        "count": engine.sources.count_files(name),
    }


@router.post("/file/{name}:rescan", operation_id="watches.rescan", status_code=204)
def rescan(name: str, body: rows.Rescan, engine: Engine, _caller: Operator) -> None:
    """Compare all files of a watch with the known ones now. No event is written twice."""
    engine.sources.rescan(name, content=body.content)


def _schedules(engine: Functory, author: str) -> Schedules:
    return engine.schedules.by(author)


def _refuse_function(kind: str, body: rows.SourceSave) -> None:
    if body.function is not None or body.input is not None:
        raise Invalid(
            f"a {kind} runs no function itself", "only a schedule has one", "save a trigger for its events"
        )
