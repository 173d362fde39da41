"""``/gate-policies``: what proposals must show, and who approves them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from functory.api.access.rights import Admin, Viewer, needs_fresh, needs_no_labels
from functory.api.engine import Engine
from functory.api.paging import StrictRoute
from functory.engine.functions import listing
from functory.rows.proposals import FunctionGate, GatePolicy, GatePolicySet

router = APIRouter(tags=["proposals"], route_class=StrictRoute)

_WHOLE = [needs_no_labels()]


@router.get(
    "/gate-policies", operation_id="gate_policies.list", response_model=list[GatePolicy], dependencies=_WHOLE
)
def list_(engine: Engine, _caller: Viewer) -> list[dict[str, Any]]:
    """The policies by name. Where several apply, the strictest of all rules holds."""
    return engine.gate_policies.list()


@router.get(
    "/gate-policies/{name}", operation_id="gate_policies.get", response_model=GatePolicy, dependencies=_WHOLE
)
def get(name: str, engine: Engine, _caller: Viewer) -> dict[str, Any]:
    """One policy."""
    return engine.gate_policies.get(name)


@router.put(
    "/gate-policies/{name}",
    operation_id="gate_policies.set",
    response_model=GatePolicy,
    dependencies=[*_WHOLE, needs_fresh()],
)
def set_(name: str, body: GatePolicySet, engine: Engine, caller: Admin) -> dict[str, Any]:
    """Make or replace a policy. Proposals that are open keep the rules with which they were made."""
    rules = body.rules.model_dump(exclude_none=True)
    return engine.gate_policies.set(
        name, rules, functions=body.functions, labels=body.labels, author=caller.name
    )


@router.delete(
    "/gate-policies/{name}",
    operation_id="gate_policies.remove",
    status_code=204,
    dependencies=[*_WHOLE, needs_fresh()],
)
def remove(name: str, engine: Engine, caller: Admin) -> None:
    """Remove a policy."""
    engine.gate_policies.remove(name, author=caller.name)


@router.get("/functions/{name}/gate", operation_id="functions.gate", response_model=FunctionGate)
def of_function(name: str, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """The rules for proposals of a function, and the policies that they come from."""
    if caller.labels is not None:
        listing.labels_of(engine.database, name, caller.labels)
    return engine.gate_policies.rules_for(name)
