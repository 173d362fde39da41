"""``/budgets`` and ``/quotas``: what trees, days, keys, agents and users may spend on language models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from functory.api.access.rights import Admin, Approver, Viewer, caller_of, needs_no_labels
from functory.api.engine import Engine
from functory.api.paging import StrictRoute
from functory.engine.executions import id_lookup, listing
from functory.read_models import in_dollars
from functory.rows.models import Meter, MeterChange, Quota, QuotaLimits, QuotaName

router = APIRouter(tags=["budgets"], route_class=StrictRoute)

_TREE = ("usd_limit", "usd_spent", "usd_reserved")
_DAY = ("usd", "usd_spent", "usd_reserved")


def _execution(id_: str, request: Request, engine: Engine) -> str:
    """An execution that the caller sees. The root of what a person has asked is no execution: it has no labels."""
    scope = caller_of(request).labels
    found = id_lookup.resolve(engine.database, id_, ["execution"], scope)
    listing.check_visible(engine.database, found, scope)
    return found


ExecutionOrRoot = Annotated[str, Depends(_execution)]


@router.get("/budgets/{id_}", operation_id="budgets.get", response_model=Meter)
def get(id_: ExecutionOrRoot, engine: Engine, _caller: Viewer) -> dict[str, Any]:
    """What the tree of an execution has spent, and its limits. 404 for one that has asked no model."""
    return shown_meter(engine.budgets.tree(id_))


@router.post("/budgets/{id_}:raise", operation_id="budgets.raise", response_model=Meter)
def raise_(id_: ExecutionOrRoot, body: MeterChange, engine: Engine, caller: Approver) -> dict[str, Any]:
    """Change limits of the tree of an execution. What it has spent stays counted."""
    limits = {name: value for name, value in body.model_dump(exclude_unset=True).items() if value is not None}
    return shown_meter(engine.budgets.raise_tree(id_, limits, author=caller.name))


@router.get(
    "/quotas", operation_id="quotas.list", response_model=list[Quota], dependencies=[needs_no_labels()]
)
def quotas(engine: Engine, _caller: Viewer) -> list[dict[str, Any]]:
    """The quotas with what was used of them today (UTC), and what was used where nothing is limited."""
    return [in_dollars(row, *_DAY) for row in engine.budgets.quotas()]


@router.post(
    "/quotas:set", operation_id="quotas.set", response_model=list[Quota], dependencies=[needs_no_labels()]
)
def set_quota(body: QuotaLimits, engine: Engine, caller: Admin) -> list[dict[str, Any]]:
    """Set what may be spent in a day. A limit that is not sent is none."""
    limits = {"usd": body.usd, "tokens": body.tokens, "calls": body.calls}
    engine.budgets.set_quota(body.scope, body.name, limits, author=caller.name)
    return quotas(engine, caller)


@router.post(
    "/quotas:remove", operation_id="quotas.remove", status_code=204, dependencies=[needs_no_labels()]
)
def remove_quota(body: QuotaName, engine: Engine, caller: Admin) -> None:
    """Delete a quota. For all together the setting ``day_usd`` holds then."""
    engine.budgets.remove_quota(body.scope, body.name, author=caller.name)


def shown_meter(row: Mapping[str, Any]) -> dict[str, Any]:
    """The meter of a tree in dollars."""
    return in_dollars(row, *_TREE)
