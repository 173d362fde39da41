"""Canaries: a version of a function gets a share of its new executions, until it is rolled back or promoted.

    start      ∅ → open             a person, or an approved proposal
    advance    open, held → open    a larger share, a later deadline
    hold       open → held          a person, the deadline, a wrong assignment
    promote    open, held → promoted       a person, or the evidence: the version becomes the active one
    roll_back  open, held → rolled_back    a person, or the evidence: the version is marked bad
    stop       open, held → stopped        a person, or another version that becomes active

Each change is one transaction. The registry's lock comes first (:data:`functory.engine.database.counters.FUNCTIONS`):
routers learn of the change with the versions that they keep. :mod:`functory.engine.releases.canary_round` collects the
evidence. The end of a canary that a proposal has started ends the proposal.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database import audit, counters
from functory.engine.database.schema import Id, canary, function
from functory.engine.database.schema.canaries import CANARY_OPEN
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, FunctoryError, Invalid, NotFound
from functory.engine.functions import (
    activation,
    canary_events,
    dependents,
    environments,
    open_canaries,
    version_marks,
    versions,
)
from functory.engine.functions.activation import Change
from functory.engine.functions.canary_assignment import UNITS, Unit
from functory.engine.functions.version_row import VersionRow
from functory.engine.releases import canary_counts, canary_durations, canary_moves, proposal_rows
from functory.engine.releases.canary_evidence import ASSIGNMENT, Decision

LEAST_SHARE, MOST_SHARE = 0.01, 0.5
MOST_HOURS = 720.0
USUAL_SHARE, USUAL_HOURS = 0.1, 72.0
# The author of what the evidence decides.
ENGINE = "functory"


def start(
    tx: Tx,
    name: str,
    number: int,
    *,
    share: float = USUAL_SHARE,
    unit: Unit = "root",
    hours: float = USUAL_HOURS,
    proposal_id: str | None = None,
    author: str = "",
    salt: str | None = None,
) -> dict[str, Any]:
    """Let version ``number`` have a ``share`` of the new executions of a function. Returns the row of the canary.

    ``salt`` is the key of the assignment as hex (default: a random one). Raises :class:`Invalid`; :class:`NotFound`;
    and :class:`Conflict` for a function that has a canary, that is not enabled or that others link, and for a version
    that may not become active.
    """
    _check_share(share)
    _check_hours(hours)
    if unit not in UNITS:
        raise Invalid(f"wrong unit {str(unit)[:40]!r}", f"it is one of {', '.join(UNITS)}")
    counters.bump(tx, counters.FUNCTIONS)
    own = _function(tx, name)
    version = versions.load(tx, name, number)
    if version is None:
        raise versions.missing_error(tx, name, number)
    _check_function(tx, own, number)
    _check_version(tx, version, proposal_id)
    base = versions.load(tx, name, None)
    assert base is not None, "an active version exists"
    edges, tilts = canary_counts.bins(canary_durations.of_version(tx, base))
    row = {
        "id": tx.new_id(),
        "function_id": own["id"],
        "function": name,
        "version": number,
        "base": base.number,
        "proposal_id": proposal_id,
        "unit": unit,
        "share": share,
        "salt": salt or secrets.token_hex(16),
        "state": "open",
        "reason": None,
        "edges": edges,
        "tilts": tilts,
        "stages": [canary_counts.new_stage(share, tx.now)],
        "round": 0,
        "author": author,
        "started_at": tx.now,
        "deadline": tx.now + timedelta(hours=hours),
        "decided_at": None,
        "decided_by": None,
    }
    tx.insert(canary, [row])
    tx.execute(sa.update(function).where(function.c.id == own["id"]).values(canary_id=row["id"]))
    _record(tx, "started", row, author)
    return row


def advance(
    tx: Tx, name: str, *, share: float | None = None, hours: float | None = None, author: str = ""
) -> dict[str, Any]:
    """Raise the ``share`` of the canary of a function, or let it go on for ``hours`` from now. One that was held goes
    on. Returns its row. Raises :class:`Invalid`, :class:`NotFound` and :class:`Conflict`.
    """
    row = _lock(tx, name)
    if row["state"] == "held" and row["reason"] == ASSIGNMENT:
        raise Conflict(
            f"the canary of {name} cannot go on",
            "its units did not get their versions by the share, so that its evidence proves nothing",
            f"functory canary rollback {name}, or stop it and start another one",
        )
    changes: dict[str, Any] = {"state": "open", "reason": None}
    if share is not None:
        _check_share(share)
        if share <= row["share"]:
            raise Invalid(
                f"the share is {row['share']:.0%} already",
                "it only grows: a smaller one would take the version away from units that have it",
                f"functory canary hold {name}, or rollback",
            )
        changes |= {"share": share, "stages": [*row["stages"], canary_counts.new_stage(share, tx.now)]}
    if hours is None and tx.now >= row["deadline"]:
        hours = USUAL_HOURS
    if hours is not None:
        _check_hours(hours)
        changes["deadline"] = tx.now + timedelta(hours=hours)
    elif share is None and row["state"] == "open":
        raise Invalid("nothing to change", "neither a share nor a time was given", "give one: --share 50%")
    return _change(tx, row, "advanced", changes, author)


def hold(tx: Tx, name: str, *, reason: str = "", author: str = "") -> dict[str, Any]:
    """Keep the canary of a function as it is until a person decides: it is not promoted. It is still rolled back by
    evidence. Returns its row. Raises :class:`NotFound`, and :class:`Conflict` for one that is held.
    """
    row = _lock(tx, name)
    if row["state"] == "held":
        raise Conflict(f"the canary of {name} is held", row["reason"] or "", f"functory canary show {name}")
    reason = reason or f"held by {author or 'an operator'}"
    return _change(tx, row, "held", {"state": "held", "reason": reason}, author)


def promote(tx: Tx, name: str, *, reason: str = "", author: str = "") -> dict[str, Any]:
    """Make the version of the canary of a function the active one. Returns the row of the canary.

    Raises :class:`NotFound`, and :class:`Conflict` when the version may not become active.
    """
    row = _lock(tx, name)
    return _promote(tx, row, reason or f"promoted by {author or 'an operator'}", author)


def roll_back(tx: Tx, name: str, *, reason: str = "", author: str = "") -> dict[str, Any]:
    """Take the executions back from the version of the canary of a function, and mark it bad. Those that have not begun
    run with the base. Returns the row of the canary. Raises :class:`NotFound`.
    """
    row = _lock(tx, name)
    return _roll_back(tx, row, reason or f"rolled back by {author or 'an operator'}", author)


def stop(tx: Tx, name: str, *, reason: str = "", author: str = "") -> dict[str, Any]:
    """End the canary of a function without a verdict. Executions that have its version keep it. Returns its row.
    Raises :class:`NotFound`.
    """
    row = _lock(tx, name)
    return _end(tx, row, "stopped", reason or f"stopped by {author or 'an operator'}", author)


def decide(tx: Tx, seen: Mapping[str, Any], decision: Decision) -> dict[str, Any] | None:
    """Do what the evidence of a canary says, as its row was ``seen``. Returns its row; None when it has changed since.
    A version that may not become active is held.
    """
    counters.bump(tx, counters.FUNCTIONS)
    row = tx.first(_BY_ID, {"id": seen["id"]})
    if row is None or any(row[name] != seen[name] for name in ("state", "round", "share")):
        return None
    if decision.action == "roll_back":
        return _roll_back(tx, row, decision.reason, ENGINE)
    if decision.action == "promote":
        try:
            with tx.savepoint():
                return _promote(tx, row, decision.reason, ENGINE)
        except FunctoryError as error:
            decision = Decision("hold", f"it may not become active: {error.reason}")
    return _change(tx, row, "held", {"state": "held", "reason": decision.reason}, ENGINE)


def get(tx: Tx, name: str, scope: Scope = None) -> dict[str, Any]:
    """Return the newest canary of a function. Raises :class:`NotFound`, also for a function outside of ``scope``."""
    of_function = canary.c.function == name, *scopes.function_names(canary.c.function, scope)
    found = tx.first(sa.select(canary).where(*of_function).order_by(canary.c.id.desc()).limit(1))
    if found is None:
        raise NotFound(f"{name} has no canary", try_=f"functory canary start {name}@N")
    return found


def list_(
    tx: Tx,
    *,
    function: str | None = None,
    is_open: bool = False,
    before: str | None = None,
    limit: int = 50,
    scope: Scope = None,
) -> list[dict[str, Any]]:
    """Return canaries, the newest first: those of one ``function``, or only those that are open or held; of functions
    in ``scope``, and older than the one with the id ``before``.
    """
    visible = scopes.function_names(canary.c.function, scope)
    statement = sa.select(canary).where(*visible).order_by(canary.c.id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(canary.c.id < before)
    if function is not None:
        statement = statement.where(canary.c.function == function)
    if is_open:
        statement = statement.where(canary.c.state.in_(CANARY_OPEN))
    return tx.rows(statement)


# Locked: a scheduler may be writing its counts.
_BY_ID = sa.select(canary).where(canary.c.id == sa.bindparam("id", type_=Id)).with_for_update()


def _lock(tx: Tx, name: str) -> dict[str, Any]:
    """Lock the registry, and return the open canary of a function. Raises :class:`NotFound`."""
    counters.bump(tx, counters.FUNCTIONS)
    found = tx.first(
        sa.select(canary).where(canary.c.function == name, canary.c.state.in_(CANARY_OPEN)).with_for_update()
    )
    if found is None:
        raise NotFound(
            f"{name} has no open canary", "it has ended, or was never started", "functory canary list"
        )
    return found


def _function(tx: Tx, name: str) -> dict[str, Any]:
    row = tx.first(sa.select(function).where(function.c.name == name, function.c.state != "deleted"))
    if row is None:
        raise versions.missing_error(tx, name, None)
    return row


def _check_share(share: float) -> None:
    if not LEAST_SHARE <= share <= MOST_SHARE:
        raise Invalid(
            f"wrong share {share:g}", f"it is from {LEAST_SHARE:.0%} to {MOST_SHARE:.0%} of the executions"
        )


def _check_hours(hours: float) -> None:
    if not 0 < hours <= MOST_HOURS:
        raise Invalid(f"wrong time {hours:g} h", f"it is over 0 and at most {MOST_HOURS:g} hours")


def _check_function(tx: Tx, own: Mapping[str, Any], number: int) -> None:
    name = own["name"]
    if own["canary_id"] is not None:
        raise Conflict(
            f"{name} has a canary", "one function has one at a time", f"functory canary show {name}"
        )
    if own["state"] != "enabled" or own["active"] is None:
        raise Conflict(
            f"{name} has no executions to share",
            f"the function is {own['state']}" if own["active"] is not None else "it has no active version",
            f"functory function activate {name}@{number}",
        )
    if own["active"] == number:
        raise Conflict(
            f"{name} v{number} is the active version",
            "it has all executions already",
            f"save the new version without activating it: functory function add FILE --no-activate, "
            f"then functory canary start {name}@N",
        )
    if linking := dependents.linking_functions(tx, name):
        raise Conflict(
            f"{name} is a dependency of {', '.join(linking[:5])}",
            "code that is linked runs inside of other executions, which a canary does not share",
            f'use call("{name}") there, or pin the version: {name}@{own["active"]}',
        )


def _check_version(tx: Tx, version: VersionRow, proposal_id: str | None) -> None:
    """Raise :class:`Conflict` for a version that could not be promoted."""
    problem = activation.version_problem(tx, version, proposal_id)
    if problem is not None:
        raise problem
    environments.check_ready(version)
    needed = dependents.resolve_dependencies(tx, version.name, version.dependencies)
    missing = [one["name"] for one in needed if not one["resolved"]]
    if missing:
        raise Conflict(
            f"{version.name} v{version.number} cannot run",
            f"the dependency {missing[0]} does not exist",
            "functory function list, or register it",
        )


def _change(
    tx: Tx, row: Mapping[str, Any], change: str, values: Mapping[str, Any], author: str
) -> dict[str, Any]:
    tx.execute(sa.update(canary).where(canary.c.id == row["id"]).values(**values))
    new = {**row, **values}
    _record(tx, change, new, author)
    return new


def _end(tx: Tx, row: Mapping[str, Any], state: str, reason: str, author: str, **more: Any) -> dict[str, Any]:
    ended = open_canaries.end(tx, row["id"], state, reason, author)
    assert ended is not None, "the registry is locked"
    _record(tx, state, ended, author, **more)
    proposal_rows.after_canary(tx, ended)
    return ended


def _promote(tx: Tx, row: Mapping[str, Any], reason: str, author: str) -> dict[str, Any]:
    own = _function(tx, row["function"])
    if own["state"] != "enabled":
        raise Conflict(
            f"{own['name']} is {own['state']}",
            "to promote the canary would enable it",
            f"functory function activate {own['name']}@{own['active']}",
        )
    version = versions.load(tx, row["function"], row["version"])
    assert version is not None, "versions are never deleted"
    # First, so that the activation finds no canary to stop.
    ended = _end(tx, row, "promoted", reason, author)
    change = Change(author, None, "promote", proposal_id=row["proposal_id"])
    activation.activate_version(tx, own, version, change)
    return ended


def _roll_back(tx: Tx, row: Mapping[str, Any], reason: str, author: str) -> dict[str, Any]:
    version = versions.load(tx, row["function"], row["version"])
    assert version is not None, "a deleted function has no open canary"
    version_marks.write(tx, version, "bad", reason, author, None, canary_id=row["id"])
    moved = canary_moves.to_base(tx, row)
    return _end(tx, row, "rolled_back", reason, author, moved=moved)


def _record(tx: Tx, change: str, row: Mapping[str, Any], author: str, **more: Any) -> None:
    canary_events.append(tx, change, row, author, **more)
    data = {name: row[name] for name in ("version", "base", "share", "reason") if row[name] is not None}
    audit.append(tx, author, f"canary.{change}", row["function"], data)
