"""Which tools a run uses only when a person agrees: by their names, or by what they may do with all their grants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.access.grants import NOTHING, Grants
from functory.engine.agents import tools
from functory.engine.database.schema import function, proposal
from functory.engine.database.transaction import Tx
from functory.engine.errors import Refused
from functory.engine.functions import dependencies, grant_approvals, versions
from functory.engine.functions.version_row import VersionRow


def grants_of(tx: Tx, version: VersionRow) -> Grants:
    """Return all that a version and its dependencies declare, or were allowed by an operator. They share a process."""
    codes = dependencies.closure(version, lambda name, pin: versions.load(tx, name, pin))
    allowed = grant_approvals.load(tx, [(code.name, code.sha256) for code in codes.values()])
    found = NOTHING
    for grants in (*(code.declared_grants for code in codes.values()), *allowed.values()):
        found = found | grants
    return found


def effect_of(tx: Tx, version: VersionRow) -> tools.Effect:
    """Return what a version may do at most."""
    return tools.effect_of(grants_of(tx, version))


def is_needed(tx: Tx, definition: Mapping[str, Any], version: VersionRow) -> bool:
    """Return True for a tool that an agent uses only when a person agrees."""
    asked = definition.get("ask_before", [])
    return bool(asked) and (version.name in asked or effect_of(tx, version) in asked)


def check_allowed(tx: Tx, own: Mapping[str, Any], name: str) -> None:
    """Raise :class:`Refused` for a function that a run may not use: it uses the tools of its agent, and the functions
    that it has proposed itself and that have passed the gate. An ephemeral function is of one run alone.
    """
    if name in proposed(tx, own["id"]):
        return
    tools.check_allowed(own["definition"], name)
    owner = tx.scalar(sa.select(function.c.run_id).where(function.c.name == name))
    if owner is not None and owner != own["id"]:
        raise Refused(f"this run may not use {name[:80]!r}", f"it exists for run {owner} alone")


def proposed(tx: Tx, run_id: str) -> list[str]:
    """Return the functions that a run has proposed and whose proposals have become active."""
    statement = sa.select(proposal.c.function).where(
        proposal.c.run_id == run_id, proposal.c.state == "active"
    )
    return list(tx.execute(statement.distinct().order_by(proposal.c.function)).scalars())


def tools_of(tx: Tx, own: Mapping[str, Any]) -> list[str]:
    """Return the functions that a run may use as tools, some of them only with consent."""
    return sorted({*own["definition"].get("tools", []), *proposed(tx, own["id"])})


def reads_outside(tx: Tx, own: Mapping[str, Any]) -> bool:
    """Return True if a tool of a run may reach a host."""
    found = (versions.load(tx, name, None) for name in tools_of(tx, own))
    return any(version is not None and bool(grants_of(tx, version).hosts) for version in found)


def callable_tools(tx: Tx, own: Mapping[str, Any]) -> list[str]:
    """Return the tools that code of a run may call by itself: those that need no consent."""
    definition, found = own["definition"], []
    for name in tools_of(tx, own):
        version = versions.load(tx, name, None)
        if version is not None and not is_needed(tx, definition, version):
            found.append(name)
    return found
