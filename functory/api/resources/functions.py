"""Functions: lists, versions, differences, saves and checks."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from functory.api import source_faults
from functory.api.access.rights import Author, Caller, Operator, Viewer, needs_fresh
from functory.api.engine import Engine
from functory.api.instants import Since, instant
from functory.api.paging import Before, Limit, Page, StrictRoute, key_of, number_of, page
from functory.api.preconditions import ExpectedVersion, tag
from functory.client.functory import Functory
from functory.client.trigger_saves import BrokenTrigger
from functory.engine.errors import Invalid, NotFound
from functory.engine.executions import version_use
from functory.engine.functions import listing
from functory.read_models import ReadModels
from functory.rows import functions as rows
from functory.rows.base import Number
from functory.rows.descriptions import Description, DescriptionText, FoundFunction

router = APIRouter(prefix="/functions", tags=["functions"], route_class=StrictRoute)

State = Literal["enabled", "disabled"]


@router.get("", operation_id="functions.list", response_model=Page[rows.FunctionRow])
def list_functions(
    request: Request,
    engine: Engine,
    caller: Viewer,
    q: Annotated[str | None, Query(description="A part of the name.", max_length=200)] = None,
    state: Annotated[list[State] | None, Query()] = None,
    label: Annotated[str | None, Query(description="Functions with this label.")] = None,
    limit: Limit = 50,
    before: Before = None,
) -> dict[str, Any]:
    """Functions by name."""
    found = listing.list_functions(
        engine.database,
        scope=caller.labels,
        text=q,
        states=state or (),
        label=label,
        after=key_of(before, request),
        limit=limit,
    )
    answer = page(found, limit, request, lambda row: row["name"])
    return answer | {"items": ReadModels(engine, caller.labels).functions(answer["items"])}


@router.get(":active", operation_id="functions.active", response_model=Page[rows.Function])
def list_active(
    request: Request, engine: Engine, caller: Viewer, limit: Limit = 50, before: Before = None
) -> dict[str, Any]:
    """Functions by name, each with its active version, or its newest one while none is active."""
    found = listing.list_functions(
        engine.database, scope=caller.labels, after=key_of(before, request), limit=limit
    )
    answer, models = page(found, limit, request, lambda row: row["name"]), ReadModels(engine, caller.labels)
    return answer | {"items": [models.function(row["name"]) for row in answer["items"]]}


@router.get(":search", operation_id="functions.search", response_model=list[FoundFunction])
def search(
    engine: Engine,
    caller: Viewer,
    q: Annotated[str, Query(max_length=4000, description="What the function shall do.")],
    count: Annotated[int, Query(ge=1, le=100, description="Number of functions.")] = 12,
) -> list[dict[str, Any]]:
    """Find functions by name, description and parameters, and with the setting embedding_model by their meaning: the
    best first.
    """
    return engine.tools.search(q, count, scope=caller.labels)


@router.get("/{name}", operation_id="functions.get", response_model=rows.Function)
def get(name: str, response: Response, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """A function with its active version, or its newest one while none is active."""
    found = ReadModels(engine, caller.labels).function(name)
    tag(response, found["active"])
    return found


@router.put("/{name}", operation_id="functions.save", response_model=rows.SavedFunction)
def save(
    name: str,
    body: rows.FunctionSave,
    response: Response,
    engine: Engine,
    caller: Author,
    expected: ExpectedVersion,
) -> dict[str, Any]:
    """Save a function. A new one needs a source; an existing one keeps every field that is not given.

    A new function gets the labels that its author is limited to.
    """
    listing.check_changeable(engine.database, name, caller.labels)
    row = _store(engine, caller, name, body, expected)
    contract = (
        engine.trigger_saves.contract(engine.functions.get(name, row["number"])) if row["created"] else []
    )
    found = ReadModels(engine, caller.labels).function(name, row["number"])
    tag(response, found["active"])
    response.status_code = 201 if row["created"] else 200
    return found | {
        "created": row["created"],
        "inactive_reason": row["inactive_reason"],
        "contract": [_broken(one) for one in contract],
    }


@router.delete("/{name}", operation_id="functions.delete", status_code=204, dependencies=[needs_fresh()])
def delete(name: str, engine: Engine, caller: Author, force: bool = False) -> None:
    """Delete a function. Its executions and versions stay readable. With ``force`` also one that others use."""
    listing.labels_of(engine.database, name, caller.labels)
    engine.functions.delete(name, force=force, author=caller.name)


@router.get("/{name}/versions", operation_id="functions.versions", response_model=Page[rows.VersionRow])
def list_versions(
    name: str, request: Request, engine: Engine, caller: Viewer, limit: Limit = 50, before: Before = None
) -> dict[str, Any]:
    """The versions of a function, newest first."""
    found = listing.list_versions(
        engine.database, name, scope=caller.labels, before=number_of(before, request), limit=limit
    )
    return page(found, limit, request, lambda row: row["number"])


@router.get("/{name}/versions/{number}", operation_id="functions.version", response_model=rows.Function)
def version(name: str, number: Number, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """One version of a function."""
    return ReadModels(engine, caller.labels).function(name, number)


@router.get(
    "/{name}/versions/{number}/modules", operation_id="functions.modules", response_model=dict[str, str]
)
def modules(name: str, number: Number, engine: Engine, caller: Viewer) -> dict[str, str]:
    """The texts of the modules of one's own of a version, by dotted name."""
    listing.labels_of(engine.database, name, caller.labels)
    return engine.functions.modules(name, number)


@router.get("/{name}/diff", operation_id="functions.diff", response_model=rows.Difference)
def diff(
    name: str,
    engine: Engine,
    caller: Viewer,
    a: Annotated[Number, Query()],
    b: Annotated[Number, Query()],
) -> dict[str, Any]:
    """Two versions side by side: a unified diff, both sources, and the other fields that differ."""
    listing.labels_of(engine.database, name, caller.labels)
    return ReadModels(engine).difference(name, a, b)


@router.get("/{name}/stats", operation_id="functions.stats", response_model=rows.FunctionStats)
def stats(name: str, engine: Engine, caller: Viewer, since: Since = "24h") -> dict[str, Any]:
    """Executions, failures and percentiles over time and of each version, calls, and advice."""
    listing.labels_of(engine.database, name, caller.labels)
    begin = instant(engine.database.clock, since or "24h", "since")
    assert begin is not None
    return engine.inspections.function_stats(name, begin)


@router.get("/{name}/use", operation_id="functions.use", response_model=rows.VersionUse)
def use(
    name: str,
    engine: Engine,
    caller: Viewer,
    first: Annotated[Number, Query(alias="from", description="The first version.")],
    last: Annotated[
        Number | None, Query(alias="to", description="The last version; the same without it.")
    ] = None,
) -> dict[str, Any]:
    """What executions of these versions have touched: to be looked at after a wrong version."""
    listing.labels_of(engine.database, name, caller.labels)
    return version_use.of_versions(engine.database, name, first, last or first, scope=caller.labels)


@router.get("/{name}/history", operation_id="functions.history", response_model=list[rows.ActivationRow])
def history(name: str, engine: Engine, caller: Viewer) -> list[dict[str, Any]]:
    """Which version was active when, newest first."""
    listing.labels_of(engine.database, name, caller.labels)
    return engine.functions.history(name)


@router.get("/{name}/dependents", operation_id="functions.dependents", response_model=list[rows.Dependent])
def dependents(name: str, engine: Engine, caller: Viewer) -> list[dict[str, str]]:
    """The functions and triggers that use a function."""
    listing.labels_of(engine.database, name, caller.labels)
    return _dependents(engine, caller, name)


@router.get("/{name}/description", operation_id="functions.description", response_model=Description)
def description(name: str, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """The description of a function, which belongs to no version."""
    listing.labels_of(engine.database, name, caller.labels)
    return engine.annotations.get(name) or {}


@router.put("/{name}/description", operation_id="functions.describe", response_model=Description)
def describe(name: str, body: DescriptionText, engine: Engine, caller: Author) -> dict[str, Any]:
    """Describe a function for models that choose tools, and for people. It makes no new version."""
    listing.labels_of(engine.database, name, caller.labels)
    return engine.annotations.describe(name, body.text, author=caller.name) or {}


@router.post("/{name}:check", operation_id="functions.check", response_model=rows.Check)
def check(name: str, body: rows.FunctionDraft, engine: Engine, caller: Author) -> dict[str, Any]:
    """Check a draft as a save would, and save nothing: findings, schemas, and the triggers that it would break."""
    listing.check_changeable(engine.database, name, caller.labels)
    declared = body.declared()
    try:
        found = engine.functions.check(name, declared)
    except Invalid as error:
        return {"problem": source_faults.fault(error, declared.get("source"))}
    return found | {
        "problem": None,
        "dependents": _dependents(engine, caller, name),
        "contract": [_broken(one) for one in engine.trigger_saves.contract(found)],
    }


@router.post("/{name}:activate", operation_id="functions.activate", response_model=rows.Function)
def activate(
    name: str,
    body: rows.Activate,
    response: Response,
    engine: Engine,
    caller: Author,
    expected: ExpectedVersion,
) -> dict[str, Any]:
    """Make a version the active one."""
    listing.labels_of(engine.database, name, caller.labels)
    engine.functions.activate(
        name, body.version, author=caller.name, expected_version=expected, force=body.force
    )
    return get(name, response, engine, caller)


@router.post("/{name}:rollback", operation_id="functions.rollback", response_model=rows.Function)
def rollback(
    name: str, body: rows.Rollback, response: Response, engine: Engine, caller: Author
) -> dict[str, Any]:
    """Go back to an earlier version. The version that is left is marked bad."""
    listing.labels_of(engine.database, name, caller.labels)
    engine.functions.rollback(
        name,
        to=body.to,
        from_version=body.from_version,
        force=body.force,
        keep_mark=body.keep_mark,
        author=caller.name,
    )
    return get(name, response, engine, caller)


@router.post("/{name}:rename", operation_id="functions.rename", response_model=rows.RenameReport)
def rename(name: str, body: rows.Rename, engine: Engine, caller: Author) -> dict[str, Any]:
    """Give a function a new name. The former one stays with its executions: disabled, or as an alias that calls the
    new one. Refused while something uses the former name, unless ``alias``.
    """
    listing.labels_of(engine.database, name, caller.labels)
    listing.check_changeable(engine.database, body.to, caller.labels)
    report = engine.functions.rename(
        name, body.to, alias=body.alias, dry_run=body.dry_run, author=caller.name, scope=caller.labels
    )
    return asdict(report) | {"is_refused": report.is_refused}


@router.post("/{name}:disable", operation_id="functions.disable", response_model=rows.Function)
def disable(name: str, response: Response, engine: Engine, caller: Author) -> dict[str, Any]:
    """Stop new executions. Versions stay."""
    listing.labels_of(engine.database, name, caller.labels)
    engine.functions.disable(name, author=caller.name)
    return get(name, response, engine, caller)


@router.post("/{name}:enable", operation_id="functions.enable", response_model=rows.Function)
def enable(name: str, response: Response, engine: Engine, caller: Author) -> dict[str, Any]:
    """Let executions start again, with the version that was active."""
    listing.labels_of(engine.database, name, caller.labels)
    engine.functions.enable(name, author=caller.name)
    return get(name, response, engine, caller)


@router.post("/{name}:mark", operation_id="functions.mark", response_model=rows.Function)
def mark(name: str, body: rows.MarkVersion, engine: Engine, caller: Author) -> dict[str, Any]:
    """Mark a version good or bad. A bad one is activated only by force."""
    listing.labels_of(engine.database, name, caller.labels)
    engine.functions.mark(name, body.version, body.mark, reason=body.reason, author=caller.name)
    return ReadModels(engine, caller.labels).function(name, body.version)


@router.post("/{name}:labels", operation_id="functions.labels", response_model=rows.Labels)
def label(name: str, body: rows.LabelChange, engine: Engine, caller: Author) -> dict[str, Any]:
    """Add and remove labels of a function."""
    found = engine.labels.function(name, body.add, body.remove, author=caller.name, scope=caller.labels)
    return {"labels": found}


@router.post("/{name}:log-policy", operation_id="functions.log_policy", response_model=rows.LogPolicy)
def log_policy(name: str, body: rows.LogPolicyChange, engine: Engine, caller: Operator) -> dict[str, str]:
    """Set which log lines of a function's executions are kept, from its next attempts on."""
    return {
        "log_policy": engine.log_policies.set(name, body.log_policy, author=caller.name, scope=caller.labels)
    }


def _store(
    engine: Functory, caller: Caller, name: str, body: rows.FunctionSave, expected: int | None
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "author": caller.name,
        "expected_version": expected,
        "activate": body.activate,
        "force": body.force,
        "renew": body.renew,
    }
    declared = body.declared()
    try:
        engine.functions.get(name)
    except NotFound:
        if "source" not in declared:
            raise
        return engine.functions.save(
            declared.pop("source"), name=name, labels=caller.labels or (), **options, **declared
        )
    return engine.functions.update(name, **options, **declared)


def _dependents(engine: Functory, caller: Caller, name: str) -> list[dict[str, str]]:
    found = [tuple(text.split(" ", 1)) for text in engine.functions.dependents(name)]
    functions = listing.visible_names(
        engine.database, [other for kind, other in found if kind == "function"], caller.labels
    )
    triggers = engine.triggers.visible_names(
        [other for kind, other in found if kind == "trigger"], caller.labels
    )
    seen = {"function": functions, "trigger": triggers}
    return [{"kind": kind, "name": other} for kind, other in found if other in seen[kind]]


def _broken(one: BrokenTrigger) -> dict[str, Any]:
    problem = one.problem
    return {
        "trigger": one.trigger,
        "what": problem.what,
        "why": problem.why,
        "try": problem.try_,
        "certain": problem.certain,
    }
