"""The preview of a draft: the newest events that it could match, each judged by the draft and by the stored version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functory.client.functory import Functory
from functory.client.trigger_saves import DraftReview
from functory.engine.access.scopes import Scope
from functory.engine.errors import NotFound
from functory.engine.events import envelope
from functory.engine.firings import trigger_listing
from functory.engine.flow_control import trigger_row
from functory.triggers.analysis.dry_run import render_input
from functory.triggers.analysis.preview import cycle_of, preview_event, preview_types
from functory.triggers.definition import CompiledTrigger, compile_definition

# The name of a draft that has none.
UNNAMED = "draft"


def preview(
    engine: Functory,
    draft: Mapping[str, Any],
    name: str | None,
    *,
    limit: int,
    event_id: str | None = None,
    scope: Scope = None,
) -> dict[str, Any]:
    """Return the rows of :class:`functory.rows.triggers.Preview`. Nothing is saved. Raises :class:`NotFound` for an
    event that does not exist.
    """
    review = engine.trigger_saves.review(name or UNNAMED, draft)
    stored = _stored(engine, name, scope)
    versions = [one for one in (review.compiled, stored) if one is not None]
    types = preview_types(versions, engine.events.types()) if versions else frozenset()
    rows = trigger_listing.newest_events(engine.database, types, limit, scope)
    judged = _judged(engine, review.compiled, stored, rows)
    return {
        "events": judged,
        "counts": {"matched": sum(one["matched"] for one in judged), "of": len(judged)},
        "stored": _counted(stored, judged),
        "input": _input(engine, review.compiled, judged, rows, event_id, scope),
        "cycle": None if not review.cycle or review.graph is None else cycle_of(review.cycle, review.graph),
        "problems": _problems(review),
    }


def _stored(engine: Functory, name: str | None, scope: Scope) -> CompiledTrigger | None:
    if name is None:
        return None
    try:
        return compile_definition(trigger_row.from_mapping(trigger_listing.get(engine.database, name, scope)))
    except NotFound:
        return None


def _judged(
    engine: Functory,
    compiled: CompiledTrigger | None,
    stored: CompiledTrigger | None,
    rows: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    if compiled is None:
        return []
    now = engine.database.clock.now()
    recorded = (
        trigger_listing.firings_of_events(engine.database, stored.id, [row["id"] for row in rows])
        if stored
        else {}
    )
    found: list[dict[str, Any]] = []
    for row in rows:
        verdict = preview_event(compiled, row, now)
        decided = recorded.get(row["id"])
        found.append(
            verdict
            | {
                "event": row,
                "decision": "would fire" if verdict["matched"] else "no match",
                "stored": preview_event(stored, row, now) if stored is not None else None,
                "recorded": decided and decided | {"version": decided["trigger_version"]},
            }
        )
    return found


def _counted(stored: CompiledTrigger | None, judged: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if stored is None:
        return None
    pairs = [(one["stored"]["matched"], one["matched"]) for one in judged]
    return {
        "version": stored.row.version,
        "matched": sum(before for before, _ in pairs),
        "of": len(pairs),
        "added": sum(after and not before for before, after in pairs),
        "removed": sum(before and not after for before, after in pairs),
    }


def _input(
    engine: Functory,
    compiled: CompiledTrigger | None,
    judged: Sequence[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    event_id: str | None,
    scope: Scope,
) -> dict[str, Any] | None:
    """The input for the chosen event, else for the newest that matches, else for the newest."""
    if compiled is None:
        return None
    chosen: Mapping[str, Any] | None
    if event_id is not None:
        chosen = next((row for row in rows if row["id"] == event_id), None)
        chosen = chosen or trigger_listing.event_in_scope(engine.database, event_id, scope)
    else:
        chosen = next((one["event"] for one in judged if one["matched"]), rows[0] if rows else None)
    if chosen is None:
        return None
    made, problem = render_input(compiled, envelope.of_mapping(chosen), engine.functions.get)
    return {"event_id": chosen["id"], "input": made, "problem": problem}


def _problems(review: DraftReview) -> list[dict[str, Any]]:
    return [
        {
            "pointer": one.pointer,
            "what": one.what,
            "why": one.why,
            "try": one.try_,
            "certain": one.certain,
        }
        for one in review.problems
    ]
