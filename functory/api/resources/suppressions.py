"""Suppressed matches: what guards and pauses have stopped, and how it runs after all."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from msgspec.structs import asdict

from functory.api.access.rights import Operator, Viewer
from functory.api.engine import Engine
from functory.api.paging import Before, Limit, Page, StrictRoute, cursor, texts_of
from functory.api.redaction import hide
from functory.engine.errors import Invalid
from functory.engine.events.store import as_id
from functory.engine.firings import trigger_listing
from functory.engine.firings.suppressed_matches import MatchFilter, SuppressedMatches
from functory.rows.operations import (
    Replayed,
    ReplayMatch,
    ResumedMatches,
    ResumeMatches,
    SuppressedFiring,
    Suppression,
)

router = APIRouter(prefix="/suppressions", tags=["suppressions"], route_class=StrictRoute)


@router.get("", operation_id="suppressions.list", response_model=Page[Suppression])
def list_suppressions(
    request: Request,
    engine: Engine,
    caller: Viewer,
    trigger: str | None = None,
    reason: Annotated[list[str] | None, Query()] = None,
    root: str | None = None,
    limit: Limit = 50,
    before: Before = None,
) -> dict[str, Any]:
    """Suppressed matches by trigger, tree and reason, each with a count, the latest first."""
    found, following = trigger_listing.list_suppressions(
        engine.database,
        scope=caller.labels,
        name=trigger,
        reasons=reason or (),
        root_id=root,
        before=texts_of(before, request, 4),
        limit=limit,
    )
    return {"items": found, "next": None if following is None else cursor(following, request)}


@router.get("/matches", operation_id="suppressions.matches", response_model=Page[SuppressedFiring])
def matches(
    request: Request,
    engine: Engine,
    caller: Viewer,
    trigger: str | None = None,
    reason: Annotated[list[str] | None, Query()] = None,
    limit: Limit = 50,
    before: Before = None,
) -> dict[str, Any]:
    """Suppressed matches that were not resumed, one by one, by trigger, then by event. Without a reason, those that
    tell of a fault. A page may have fewer rows than ``limit`` and still have a ``next``.
    """
    if trigger is not None and caller.labels is not None:
        trigger_listing.get(engine.database, trigger, caller.labels)
    place = texts_of(before, request, 2)
    after = None if place is None else (as_id(place[0], "trigger"), as_id(place[1], "event"))
    which = MatchFilter(trigger, None, reason or (), caller.labels)
    found = next(SuppressedMatches(engine.database).pages(which, after), [])
    shown = [hide(caller, asdict(match), "detail") for match in found[:limit]]
    last = shown[-1:] and cursor([shown[-1]["trigger_id"], shown[-1]["event_id"]], request)
    return {"items": shown, "next": last or None}


@router.post(":replay", operation_id="suppressions.replay", response_model=Replayed, status_code=201)
def replay(body: ReplayMatch, engine: Engine, caller: Operator) -> dict[str, Any]:
    """Fire one suppressed match once. Its execution gets its place in the causal tree."""
    trigger_listing.get(engine.database, body.trigger, caller.labels)
    row = engine.trigger_history.replay(body.trigger, body.event, author=caller.name)
    return {"execution_id": row["id"]}


@router.post(":resume", operation_id="suppressions.resume", response_model=ResumedMatches)
def resume(body: ResumeMatches, engine: Engine, caller: Operator) -> dict[str, Any]:
    """Fire all suppressed matches of a trigger, a tree or a reason, once each. With ``dry_run`` they are counted."""
    if not (body.trigger or body.root or body.reasons or body.everything):
        raise Invalid(
            "no suppressed matches were named",
            "without a trigger, a root or a reason all of them would start",
        )
    if caller.labels is not None and body.trigger is None:
        raise Invalid("name a trigger", "you may only resume the matches of triggers with your labels")
    if body.trigger is not None:
        trigger_listing.get(engine.database, body.trigger, caller.labels)
    done = engine.trigger_history.resume(
        trigger=body.trigger,
        root=body.root,
        reasons=body.reasons,
        dry_run=body.dry_run,
        author=caller.name,
    )
    return {
        "dry_run": body.dry_run,
        "total": done.counts.total(),
        "matches": [
            {"trigger": name, "reason": reason, "count": count}
            for (name, reason), count in sorted(done.counts.items())
        ],
        "failed": done.failed_count,
        "problems": [hide(caller, one, "error") for one in done.failed],
    }
