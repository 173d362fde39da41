"""``/agents``: what agents may use and spend. An agent belongs to the function of its steps, with its labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response

from functory.api import hidden_names
from functory.api.access.rights import Author, Caller, Viewer, needs_fresh
from functory.api.engine import Engine
from functory.api.paging import Before, Limit, Page, StrictRoute, number_of, page
from functory.api.problem_details import Forbidden
from functory.api.redaction import hide
from functory.client.functory import Functory
from functory.engine.access.grants import author_grant_kinds
from functory.engine.agents import agent_fields
from functory.engine.errors import Invalid
from functory.rows.agents import Agent, AgentFields, AgentVersion, NewAgent

router = APIRouter(prefix="/agents", tags=["agents"], route_class=StrictRoute)


@router.get("", operation_id="agents.list", response_model=list[Agent])
def list_(engine: Engine, caller: Viewer) -> list[dict[str, Any]]:
    """The agents by name."""
    return _shown(engine, caller, engine.agents.list(caller.labels))


@router.post("", operation_id="agents.add", response_model=Agent, status_code=201)
def add(
    body: NewAgent, request: Request, response: Response, engine: Engine, caller: Author
) -> dict[str, Any]:
    """Add an agent. A caller with labels names functions and agents with these labels only."""
    fields = body.model_dump(exclude_unset=True)
    name = fields.pop("name")
    _check_spending(engine, caller, fields)
    row = engine.agents.add(name, fields, author=caller.name, scope=caller.labels)
    response.headers["location"] = f"{request.scope.get('root_path', '')}/api/v1/agents/{name}"
    return _shown(engine, caller, [row])[0]


@router.get("/{name}", operation_id="agents.get", response_model=Agent)
def get(name: str, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """An agent with its newest definition."""
    return _shown(engine, caller, [engine.agents.get(name, caller.labels)])[0]


@router.patch("/{name}", operation_id="agents.update", response_model=Agent)
def update(name: str, body: AgentFields, engine: Engine, caller: Author) -> dict[str, Any]:
    """Change fields of an agent: a new version of it. One that is not sent stays. Open runs keep their version."""
    changes = body.model_dump(exclude_unset=True)
    if not changes:
        raise Invalid("nothing is to be changed", "the body names no field")
    before = engine.agents.get(name, caller.labels)["definition"]
    _check_spending(engine, caller, changes, before)
    row = engine.agents.update(name, changes, author=caller.name, scope=caller.labels)
    return _shown(engine, caller, [row])[0]


@router.delete("/{name}", operation_id="agents.remove", status_code=204, dependencies=[needs_fresh()])
def remove(name: str, engine: Engine, caller: Author) -> None:
    """Delete an agent. Its runs stay, and open ones go on."""
    engine.agents.set_state(name, "removed", author=caller.name, scope=caller.labels)


@router.post("/{name}:enable", operation_id="agents.enable", response_model=Agent)
def enable(name: str, engine: Engine, caller: Author) -> dict[str, Any]:
    """Let runs of an agent start."""
    return _set_state(engine, caller, name, "enabled")


@router.post("/{name}:disable", operation_id="agents.disable", response_model=Agent)
def disable(name: str, engine: Engine, caller: Author) -> dict[str, Any]:
    """Start no runs of an agent. Open ones go on."""
    return _set_state(engine, caller, name, "disabled")


@router.get("/{name}/versions", operation_id="agents.versions", response_model=Page[AgentVersion])
def list_versions(
    name: str, request: Request, engine: Engine, caller: Viewer, limit: Limit = 50, before: Before = None
) -> dict[str, Any]:
    """The versions of an agent, newest first."""
    number = number_of(before, request)
    found = engine.agents.versions(name, before=number, limit=limit + 1, scope=caller.labels)
    answer = page(found, limit, request, lambda row: row["number"])
    answer["items"] = _shown(engine, caller, answer["items"])
    return answer


def _set_state(engine: Functory, caller: Caller, name: str, state: str) -> dict[str, Any]:
    row = engine.agents.set_state(name, state, author=caller.name, scope=caller.labels)
    return _shown(engine, caller, [row])[0]


def _check_spending(
    engine: Functory, caller: Caller, fields: Mapping[str, Any], before: Mapping[str, Any] | None = None
) -> None:
    """More than the settings allow, and a model where models wait for an operator, need the right to approve: an agent
    is no way around a grant or a budget.
    """
    if caller.may("approve"):
        return
    model = fields.get("model")
    is_new = model is not None and (before is None or model != before["model"])
    if is_new and "model" not in author_grant_kinds(engine.settings):
        raise Forbidden(
            "approve",
            what=f"the model {model} waits for an operator",
            why="FUNCTORY_AUTHOR_GRANTS has no model",
        )
    given = {name: value for name, value in (fields.get("limits") or {}).items() if value is not None}
    kept = before["limits"] if before else {}
    usual = agent_fields.usual_limits(engine.settings)
    changed = {
        name: value
        for name, value in agent_fields.check_limits(given).items()
        if name in agent_fields.TREE and value != kept.get(name)
    }
    if (name := agent_fields.above(changed, usual)) is not None:
        raise Forbidden(
            "approve",
            what=f"the limit {name}={changed[name]} is above that of the settings",
            why=f"FUNCTORY_TREE_{name.upper()} is {usual[name]}",
            try_="a lower limit, or ask someone with the right approve",
        )


def _shown(engine: Functory, caller: Caller, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found = hidden_names.definitions(engine, caller, [row["definition"] for row in rows])
    return [
        {**row, "definition": hide(caller, definition, "memo")}
        for row, definition in zip(rows, found, strict=True)
    ]
