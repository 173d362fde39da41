"""Activation: which version of a function runs, since when and why; the only code that writes ``function.active``.

Each change of the active version ends the open row of table ``activation`` and adds the next one, in the transaction
of the change. The registry's lock (:data:`functory.engine.database.counters.FUNCTIONS`) is held by the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa
from msgspec.structs import asdict, replace

from functory.engine.database.schema import activation, function, proposal
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, Refused, VersionChanged
from functory.engine.events.causation import Cause
from functory.engine.functions import (
    dependents,
    environments,
    function_events,
    open_canaries,
    privilege_escalation,
    version_marks,
)
from functory.engine.functions.analysis import inspection
from functory.engine.functions.privilege_escalation import VersionRights
from functory.engine.functions.version_row import VersionRow

Reason = Literal["save", "activate", "promote", "rollback", "force"]

_CHANGED = "the function was changed meanwhile"
_LOOK = "look at the newer version, then save again on top of it"


@dataclass(frozen=True)
class Change:
    """A change of the active version: who makes it, in which execution, and why. ``force`` takes what is refused
    otherwise: a version that is marked bad, or whose executions would all fail.
    """

    author: str
    cause: Cause | None = None
    reason: Reason = "activate"
    force: bool = False
    proposal_id: str | None = None


def activate_version(tx: Tx, row: Mapping[str, Any], version: VersionRow, change: Change) -> VersionRow:
    """Make ``version`` the active one of function ``row``. Returns its new row.

    Raises :class:`Conflict` for a version that is marked bad or has a finding of its inspection (not with ``force``),
    that has no packages, or that would close a cycle of dependencies; :class:`Refused` for more rights than the cause
    has.
    """
    name, number = version.name, version.number
    if row["active"] == number and row["state"] == "enabled":
        return version
    reason = change.reason
    problem = None if row["active"] == number else version_problem(tx, version, change.proposal_id)
    if problem is not None:
        if not change.force:
            raise problem
        reason = "force"
    # The dependencies of an inactive version may have changed: check for cycles again.
    dependents.resolve_dependencies(tx, name, version.dependencies)
    privilege_escalation.check(tx, change.cause, VersionRights.of(version), version.dependencies)
    environments.check_ready(version)
    switch(tx, row, number, change, reason)
    data = function_events.version_data(asdict(version)) | {
        "previous_version": row["active"],
        "author": change.author,
        "reason": reason,
    }
    function_events.append(tx, "function.activated", name, data, change.cause)
    return replace(version, active=number, state="enabled")


def check_force(force: bool, cause: Cause | None) -> None:
    """Refuse ``force`` in a running function: only a person may take a version that is known to be bad."""
    if force and cause is not None:
        raise Refused(
            f"{cause.function} may not use force",
            "an execution cannot activate what is marked bad or whose executions would fail",
            "a person may: functory function activate NAME@N --force",
        )


def version_problem(tx: Tx, version: VersionRow, proposal_id: str | None = None) -> Conflict | None:
    """Return the reason not to activate a version without force; None when there is none. A version that waits at the
    gate, or was rejected there, becomes active by its proposal alone.
    """
    refused = gate_problem(tx, version.function_id, version.name, version.number, proposal_id)
    if refused is not None:
        return refused
    name, number = version.name, version.number
    mark = version_marks.load(tx, version.function_id).get(number)
    if mark is not None and mark["mark"] == "bad":
        return Conflict(f"{name} v{number} is marked bad", version_marks.why(mark), _try(name, number))
    found = inspection.find(version.findings)
    return inspection_error(name, number, *found) if found is not None else None


def gate_problem(
    tx: Tx, function_id: str, name: str, number: int, proposal_id: str | None = None
) -> Conflict | None:
    """Return the error about a version that was proposed and has not passed the gate; None for every other one, and for
    one that the proposal ``proposal_id`` lets through.
    """
    proposed = tx.first(
        sa.select(proposal.c.id, proposal.c.state)
        .where(proposal.c.function_id == function_id, proposal.c.version == number)
        .order_by(proposal.c.id.desc())
        .limit(1)
    )
    if proposed is not None and proposed["state"] != "active" and proposed["id"] != proposal_id:
        return Conflict(
            f"{name} v{number} has not passed the gate",
            f"its proposal is {proposed['state'].replace('_', ' ')}",
            f"functory proposal show {proposed['id']}",
        )
    return None


def inspection_error(name: str, number: int, kind: str, text: str) -> Conflict:
    """Return the error about activating a version with a finding of its inspection."""
    return Conflict(f"{name} v{number} {inspection.PROBLEMS[kind]}", text, _try(name, number))


def _try(name: str, number: int) -> str:
    return f"save a mended version, or functory function activate {name}@{number} --force"


def switch(tx: Tx, row: Mapping[str, Any], number: int, change: Change, reason: Reason) -> None:
    """Write that version ``number`` of function ``row`` is active from now on."""
    if row["active"] != number:
        end(tx, row["id"], change.author)
        open_canaries.stop(tx, row["id"], f"v{number} became the active version", change.author)
        tx.insert(
            activation,
            [
                {
                    "id": tx.new_id(),
                    "function_id": row["id"],
                    "function": row["name"],
                    "version": number,
                    "previous": row["active"],
                    "reason": reason,
                    "proposal_id": change.proposal_id,
                    "author": change.author,
                    "cause_execution_id": change.cause.execution_id if change.cause else None,
                    "at": tx.now,
                }
            ],
        )
    tx.execute(
        sa.update(function)
        .where(function.c.id == row["id"])
        .values(active=number, state="enabled", updated_at=tx.now)
    )


def end(tx: Tx, function_id: str, author: str) -> None:
    """End the open activation of a function, if it has one."""
    tx.execute(
        sa.update(activation)
        .where(activation.c.function_id == function_id, activation.c.ended_at.is_(None))
        .values(ended_at=tx.now, ended_by=author)
    )


def clear(tx: Tx, row: Mapping[str, Any], author: str) -> None:
    """Write that function ``row`` has no active version from now on."""
    end(tx, row["id"], author)
    open_canaries.stop(tx, row["id"], "the function was deleted", author)
    tx.execute(sa.update(function).where(function.c.id == row["id"]).values(active=None))


def history(tx: Tx, function_id: str) -> list[dict[str, Any]]:
    """Return the activations of a function, the newest first."""
    return tx.rows(
        sa.select(activation)
        .where(activation.c.function_id == function_id)
        .order_by(activation.c.ended_at.is_(None).desc(), activation.c.at.desc(), activation.c.id.desc())
    )


def check_expected(row: Mapping[str, Any] | None, expected: int | None) -> None:
    """Raise :class:`Conflict` when the active version of function ``row`` is not the expected one."""
    if expected is None:
        return
    active = row["active"] if row else None
    if (active or 0) != expected:
        why = f"you expected version {expected}, active is {active if active is not None else 'none'}"
        raise VersionChanged(_CHANGED, why, _LOOK, base=expected, current=active or 0)


def changed_meanwhile(why: str) -> Conflict:
    """Return the error for a function that another process changed."""
    return Conflict(_CHANGED, why, _LOOK)
