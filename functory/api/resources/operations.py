"""What operators look after: kill switches, workers, health, settings, packs, the audit log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from functory.api.access.rights import Admin, Operator, Viewer, needs_fresh, needs_no_labels
from functory.api.engine import Engine
from functory.api.instants import Since, Until, instant
from functory.api.paging import Before, Limit, Page, StrictRoute, cursor, id_of
from functory.api.redaction import hide
from functory.engine.database import audit_pages, migrations
from functory.engine.database.audit_pages import AuditFilter
from functory.engine.executions import worker_registry
from functory.engine.firings import kill_switch
from functory.engine.functions import listing
from functory.engine.maintenance import verifier
from functory.engine.maintenance.invariants import INVARIANTS
from functory.engine.setting_display import setting_rows
from functory.engine.tallies import tallier
from functory.rows import operations as rows

router = APIRouter(route_class=StrictRoute)

_TITLES = {one.code: one.title for one in INVARIANTS} | {tallier.CODE: tallier.TITLE}

Many = Annotated[
    list[str] | None, Query(description="Repeat it for several values, of which one has to fit.")
]


@router.get("/switches", operation_id="switches.list", response_model=list[rows.Switch], tags=["switches"])
def list_switches(engine: Engine, _caller: Viewer) -> list[dict[str, Any]]:
    """The kill switches, and which of them are on."""
    thrown = {row["name"]: row for row in engine.switches.list()}
    off = {"note": None, "author": None, "time": None}
    return [{"name": name, "on": name in thrown, **thrown.get(name, off)} for name in kill_switch.KNOWN]


@router.post(
    "/switches/{name}:halt",
    operation_id="switches.halt",
    response_model=list[rows.Switch],
    tags=["switches"],
    dependencies=[needs_fresh(), needs_no_labels()],
)
def halt(name: str, body: rows.SwitchNote, engine: Engine, caller: Operator) -> list[dict[str, Any]]:
    """Throw a kill switch. ``triggers``: no trigger fires, events wait."""
    engine.switches.throw(name, note=body.note, author=caller.name)
    return list_switches(engine, caller)


@router.post(
    "/switches/{name}:release",
    operation_id="switches.release",
    response_model=list[rows.Switch],
    tags=["switches"],
    dependencies=[needs_no_labels()],
)
def release(name: str, engine: Engine, caller: Operator) -> list[dict[str, Any]]:
    """Release a kill switch. What waited goes on."""
    engine.switches.release(name, author=caller.name)
    return list_switches(engine, caller)


@router.get("/workers", operation_id="workers.list", response_model=list[rows.Worker], tags=["workers"])
def list_workers(engine: Engine, _caller: Viewer) -> list[dict[str, Any]]:
    """The workers that are alive."""
    return worker_registry.alive(engine.database, engine.settings.lease_seconds)


@router.get("/health", operation_id="health.get", response_model=rows.Health, tags=["health"])
def health(request: Request, engine: Engine, _caller: Viewer) -> dict[str, Any]:
    """The parts of the installation, its workers and open work, and the last check of each invariant."""
    alive = worker_registry.alive(engine.database, engine.settings.lease_seconds)
    with engine.database.read() as tx:
        verified = dict(verifier.last_results(tx))
    broker = engine.settings.broker.split(":", 1)[0]
    return {
        "parts": [{"name": name} | part for name, part in request.app.state.health.checks().items()],
        "database": engine.database.dialect,
        "schema": migrations.current(engine.database),
        "broker": "in memory" if engine.settings.embedded else broker,
        "workers": alive,
        "tiers": Counter(worker["isolation"] for worker in alive),
        "slots": sum(worker["slots"] for worker in alive),
        "open": engine.lineage.open_work(),
        "sources": Counter(row["state"] for row in engine.sources.list()),
        "verification": [
            dict(row) | {"what": _TITLES.get(code, code)}
            for code, row in sorted(verified.items(), key=lambda one: (len(one[0]), one[0]))
        ],
    }


@router.get(
    "/status",
    operation_id="health.status",
    response_model=rows.Status,
    tags=["health"],
    dependencies=[needs_no_labels()],
)
def status(request: Request, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """What is there, what is open, and what went wrong within a day."""

    def broker_problem() -> str | None:
        part = request.app.state.health.checks()["broker"]
        return None if part["ok"] else f"{part['what']}: {part['why']}"

    found = engine.inspections.status(broker_problem)
    return found | {"failed_matches": [hide(caller, row, "error") for row in found["failed_matches"]]}


@router.get("/settings", operation_id="settings.list", response_model=list[rows.Setting], tags=["settings"])
def list_settings(engine: Engine, _caller: Admin) -> list[dict[str, Any]]:
    """The settings of this server and where each comes from. Passwords and keys are masked."""
    return setting_rows(engine.settings)


@router.get("/packs", operation_id="packs.list", response_model=list[rows.Pack], tags=["packs"])
def list_packs(engine: Engine, caller: Viewer) -> list[dict[str, Any]]:
    """The packs that functions were imported from, with their functions and the triggers of these."""
    packs: dict[str, list[str]] = defaultdict(list)
    after: str | None = None
    while True:
        found = listing.list_functions(engine.database, scope=caller.labels, after=after, limit=1000)
        for row in found[:1000]:
            pack = _pack_of(row["metadata"])
            if pack is not None:
                packs[pack].append(row["name"])
        if len(found) <= 1000:
            break
        after = found[999]["name"]
    targets = engine.trigger_targets.by_function()
    return [
        {
            "name": name,
            "functions": functions,
            "triggers": sorted(
                engine.triggers.visible_names(
                    [trigger for function in functions for trigger in targets.get(function, ())],
                    caller.labels,
                )
            ),
        }
        for name, functions in sorted(packs.items())
    ]


@router.get("/audit", operation_id="audit.list", response_model=Page[rows.AuditRow], tags=["audit"])
def list_audit(
    request: Request,
    engine: Engine,
    _caller: Admin,
    author: Many = None,
    action: Annotated[list[str] | None, Query(description="An action, or all of a noun: trigger.*")] = None,
    subject: str | None = None,
    refused: bool | None = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    before: Before = None,
) -> dict[str, Any]:
    """Who did what to what, newest first. With filters a page may have fewer rows and a next."""
    clock = engine.database.clock
    wanted = AuditFilter(
        author or (),
        action or (),
        subject,
        refused,
        instant(clock, since, "since"),
        instant(clock, until, "until"),
    )
    found, following = audit_pages.page(engine.database, wanted, before=id_of(before, request), limit=limit)
    return {"items": found, "next": None if following is None else cursor(following, request)}


def _pack_of(metadata: Mapping[str, Any]) -> str | None:
    """The pack that a function was imported from (:mod:`functory.packs.stackstorm.action`)."""
    found = metadata.get("stackstorm")
    action = found.get("action") if isinstance(found, Mapping) else None
    return action.split(".", 1)[0] if isinstance(action, str) and "." in action else None
