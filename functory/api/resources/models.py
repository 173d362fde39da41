"""``/models``: the language models that functions may ask. Their keys are secrets, which nothing here opens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response

from functory.api.access.rights import Admin, Caller, Operator, Viewer, needs_fresh, needs_no_labels
from functory.api.engine import Engine
from functory.api.paging import StrictRoute
from functory.api.redaction import hide
from functory.client.functory import Functory
from functory.engine.agents import model_tests
from functory.engine.agents.call_listing import ENDED
from functory.engine.errors import Invalid
from functory.engine.events.store import as_id
from functory.read_models import ReadModels, in_dollars
from functory.rows import models as rows

# Models belong to the whole installation: it pays for what is asked of them.
router = APIRouter(
    prefix="/models", tags=["models"], route_class=StrictRoute, dependencies=[needs_no_labels()]
)


@router.get("", operation_id="models.list", response_model=list[rows.Model])
def list_(engine: Engine, caller: Viewer) -> list[dict[str, Any]]:
    """The models by name, with their health and what was asked of them today."""
    return _shown(engine, caller, engine.models.list())


@router.post("", operation_id="models.add", response_model=rows.Model, status_code=201)
def add(
    body: rows.NewModel, request: Request, response: Response, engine: Engine, caller: Admin
) -> dict[str, Any]:
    """Add a model. Functions ask it by its name, and need the grant for it."""
    fields = _fields(body)
    name = fields.pop("name")
    engine.models.add(name, fields, author=caller.name)
    response.headers["location"] = f"{request.scope.get('root_path', '')}/api/v1/models/{name}"
    return _one(engine, caller, name)


@router.get("/{name}", operation_id="models.get", response_model=rows.Model)
def get(name: str, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """A model with its health and what was asked of it today."""
    return _one(engine, caller, name)


@router.patch("/{name}", operation_id="models.update", response_model=rows.Model)
def update(name: str, body: rows.ModelFields, engine: Engine, caller: Admin) -> dict[str, Any]:
    """Change fields of a model; one that is not sent stays. Calls that are sent already keep their prices."""
    changes = _fields(body)
    if not changes:
        raise Invalid("nothing is to be changed", "the body names no field")
    engine.models.update(name, changes, author=caller.name)
    return _one(engine, caller, name)


@router.post("/{name}:enable", operation_id="models.enable", response_model=rows.Model)
def enable(name: str, engine: Engine, caller: Admin) -> dict[str, Any]:
    """Let functions ask a model, and close its circuit breaker."""
    engine.models.set_state(name, "enabled", author=caller.name)
    return _one(engine, caller, name)


@router.post("/{name}:disable", operation_id="models.disable", response_model=rows.Model)
def disable(name: str, engine: Engine, caller: Admin) -> dict[str, Any]:
    """Let no function ask a model. Calls that wait for it fail or go to its fallback."""
    engine.models.set_state(name, "disabled", author=caller.name)
    return _one(engine, caller, name)


@router.delete("/{name}", operation_id="models.remove", status_code=204, dependencies=[needs_fresh()])
def remove(name: str, engine: Engine, caller: Admin) -> None:
    """Delete a model. What was asked of it stays in the list of calls."""
    engine.models.remove(name, author=caller.name)


@router.post("/{name}:test", operation_id="models.test", response_model=rows.ModelTests, status_code=202)
def test(name: str, engine: Engine, caller: Operator) -> dict[str, Any]:
    """Ask a model a few short questions. This costs money. The answers come later: read the tests of the answered
    ``root_id``.
    """
    row = engine.models.get(name)
    return _tests(engine, row, model_tests.start(engine.calls, row))


@router.get("/{name}/tests/{root}", operation_id="models.tests", response_model=rows.ModelTests)
def tests(name: str, root: str, engine: Engine, _caller: Operator) -> dict[str, Any]:
    """The tests of a model that were begun together, as far as they have ended. Their questions are always the same, so
    that neither they nor the answers are payloads.
    """
    return _tests(engine, engine.models.get(name), as_id(root, "call"))


def _tests(engine: Functory, row: Mapping[str, Any], root: str) -> dict[str, Any]:
    found = model_tests.results(engine.calls, row, root)
    return {
        "root_id": root,
        "ended": all(one["state"] in ENDED for one in found),
        "tests": [in_dollars(one, "cost") for one in found],
    }


def _one(engine: Functory, caller: Caller, name: str) -> dict[str, Any]:
    return _shown(engine, caller, [engine.models.get(name)])[0]


def _shown(engine: Functory, caller: Caller, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        row | {"health": hide(caller, row["health"], "problem")} for row in ReadModels(engine).models(found)
    ]


def _fields(body: rows.ModelFields) -> dict[str, Any]:
    return body.model_dump(exclude_unset=True, by_alias=True)
