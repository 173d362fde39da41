"""Activation: which version of a function runs; a change that conflicts with another change is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import function
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict
from functory.engine.events.causation import Cause
from functory.engine.functions import dependents, environments, function_events, privilege_escalation


def activate_version(
    tx: Tx, row: Mapping[str, Any], version: dict[str, Any], author: str, cause: Cause | None
) -> dict[str, Any]:
    """Make ``version`` the active one of function ``row``. Returns its new row."""
    name, number = version["name"], version["number"]
    if row["active"] == number and row["state"] == "enabled":
        return version
    # The dependencies of an inactive version may have changed: check for cycles again.
    dependents.resolve_dependencies(tx, name, version["dependencies"])
    privilege_escalation.check(tx, cause, version)
    environments.check_ready(version)
    tx.execute(
        sa.update(function)
        .where(function.c.id == row["id"])
        .values(active=number, state="enabled", updated_at=tx.now)
    )
    data = function_events.version_data(version) | {"previous_version": row["active"], "author": author}
    function_events.append(tx, "function.activated", name, data, cause)
    return version | {"active": number, "state": "enabled"}


def check_expected(row: Mapping[str, Any] | None, expected: int | None) -> None:
    """Raise :class:`Conflict` when the active version of function ``row`` is not the expected one."""
    if expected is None:
        return
    active = row["active"] if row else None
    if (active or 0) != expected:
        raise changed_meanwhile(
            f"you expected version {expected}, active is {active if active is not None else 'none'}"
        )


def changed_meanwhile(why: str) -> Conflict:
    """Return the error for a function that another process changed."""
    return Conflict(
        "the function was changed meanwhile",
        why,
        "look at the newer version, then save again on top of it",
    )
