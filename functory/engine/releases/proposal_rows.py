"""Rows of proposals: found, locked, changed, ended, with their events. The other modules of this room decide when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database import audit
from functory.engine.database.schema import approval, canary, execution, function, gate_check, proposal, run
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, NotFound
from functory.engine.events import store as event_store
from functory.engine.events.causation import CAUSE_COLUMNS, Cause, CausingExecution
from functory.engine.executions.runs import rows as run_rows
from functory.engine.functions.analysis import findings, inspection
from functory.engine.functions.version_row import VersionRow
from functory.engine.releases import checks, version_rights
from functory.engine.releases.checks import MUTANTS, RIGHTS, STATIC, TESTS

_OPEN_CHECK = (
    sa.select(gate_check.c.proposal_id)
    .where(gate_check.c.proposal_id == proposal.c.id, gate_check.c.state.in_(("pending", "running")))
    .exists()
)
_CHECKED = sa.and_(proposal.c.state == "checking", ~_OPEN_CHECK)


def load(tx: Tx, id_: str, scope: Scope = None) -> dict[str, Any]:
    """Return a proposal. Raises :class:`NotFound`, also for one of a function outside of ``scope``."""
    visible = scopes.function_names(proposal.c.function, scope)
    found = tx.first(sa.select(proposal).where(proposal.c.id == id_, *visible))
    if found is None:
        raise NotFound(f"proposal {id_} not found", try_="functory proposal list")
    return found


def lock_open(tx: Tx, id_: str) -> dict[str, Any]:
    """Return an open proposal, locked until the commit. Raises :class:`NotFound` and :class:`Conflict`."""
    load(tx, id_)
    found = tx.first(sa.select(proposal).where(proposal.c.id == id_).with_for_update())
    assert found is not None
    if found["ended_at"] is not None:
        raise Conflict(
            f"proposal {id_} is {found['state'].replace('_', ' ')}", found["reason"] or "it has ended"
        )
    return found


def is_checked(tx: Tx, id_: str) -> bool:
    """Return True for a proposal whose checks have all ended, and that was not decided yet."""
    return tx.scalar(sa.select(proposal.c.id).where(proposal.c.id == id_, _CHECKED)) is not None


def checked(tx: Tx, limit: int) -> list[str]:
    """Return the proposals whose checks have all ended, and that were not decided yet."""
    statement = sa.select(proposal.c.id).where(proposal.c.ended_at.is_(None), _CHECKED)
    return list(tx.execute(statement.order_by(proposal.c.id).limit(limit)).scalars())


def overdue(tx: Tx, limit: int) -> list[dict[str, Any]]:
    """Return, locked, the proposals that nothing and no person decided in time. A canary ends by itself."""
    return tx.rows(
        sa.select(proposal)
        .where(proposal.c.ended_at.is_(None), proposal.c.state != "canary", proposal.c.expires_at <= tx.now)
        .order_by(proposal.c.id)
        .limit(limit)
        .with_for_update()
    )


def open_of_version(tx: Tx, version: VersionRow) -> dict[str, Any] | None:
    """Return the open proposal of a version."""
    return tx.first(
        sa.select(proposal).where(
            proposal.c.function_id == version.function_id,
            proposal.c.version == version.number,
            proposal.c.ended_at.is_(None),
        )
    )


def of_execution(tx: Tx, version: VersionRow, execution_id: str) -> dict[str, Any] | None:
    """Return the newest proposal of a version that an execution has made."""
    return tx.first(
        sa.select(proposal)
        .where(
            proposal.c.function_id == version.function_id,
            proposal.c.version == version.number,
            proposal.c.execution_id == execution_id,
        )
        .order_by(proposal.c.id.desc())
        .limit(1)
    )


def ended(tx: Tx, id_: str) -> list[str]:
    """Return the proposal if it has ended, else nothing."""
    statement = sa.select(proposal.c.id).where(proposal.c.id == id_, proposal.c.ended_at.is_not(None))
    return list(tx.execute(statement).scalars())


def outlived(tx: Tx, limit: int) -> list[str]:
    """Return the functions that still exist for runs that have ended."""
    statement = (
        sa.select(function.c.name)
        .join(run, run.c.id == function.c.run_id, isouter=True)
        .where(
            function.c.run_id.is_not(None),
            function.c.state != "deleted",
            sa.or_(run.c.id.is_(None), run.c.ended_at.is_not(None)),
        )
    )
    return list(tx.execute(statement.order_by(function.c.name).limit(limit)).scalars())


def write_checks(tx: Tx, own: Mapping[str, Any], version: VersionRow) -> None:
    """Write the checks of a new proposal. Those that need no sandbox have ended already."""
    rules, tests = own["rules"], own["tests"]
    found = [_static(version), _rights(tx, own, version)]
    if tests:
        found.append((TESTS, "pending", {}))
        if rules["mutants"] > 0:
            found.append((MUTANTS, "pending", {}))
    elif rules["tests"] != "off":
        state = "failed" if rules["tests"] == "required" else "warned"
        found.append((TESTS, state, {"problem": "the proposal has no tests"}))
    is_failed = any(state == "failed" for _, state, _ in found)
    rows = [
        checks.new_row(tx, own["id"], name, "skipped" if is_failed and state == "pending" else state, report)
        for name, state, report in found
    ]
    tx.insert(gate_check, rows)


def _static(version: VersionRow) -> tuple[str, str, dict[str, Any]]:
    report = {"findings": version.findings, "warnings": version.warnings}
    problem = version.environment_error
    if problem is not None:
        return STATIC, "failed", {**report, "problem": problem}
    broken = inspection.find(version.findings)
    if broken is not None:
        return STATIC, "failed", {**report, "problem": broken[1]}
    danger = next((one for one in version.findings if one["severity"] == "danger"), None)
    if danger is not None:
        return STATIC, "failed", {**report, "problem": findings.summary(danger)}
    return STATIC, "warned" if version.findings or version.warnings else "passed", report


def _rights(tx: Tx, own: Mapping[str, Any], version: VersionRow) -> tuple[str, str, dict[str, Any]]:
    untried = version_rights.untried_dependency(tx, version)
    if untried is not None:
        problem = f"it depends on {untried}, which has never been active"
        return RIGHTS, "failed", {**own["rights"], "problem": problem}
    return RIGHTS, "passed", dict(own["rights"])


def change(tx: Tx, own: dict[str, Any], **values: Any) -> None:
    """Change a proposal, in the database and in ``own``."""
    values["updated_at"] = tx.now
    tx.execute(sa.update(proposal).where(proposal.c.id == own["id"]).values(**values))
    own.update(values)


def end(tx: Tx, own: dict[str, Any], state: str, reason: str | None, *, author: str) -> None:
    """End a proposal, its open checks and its open questions. Its event and its audit entry come with it."""
    change(tx, own, state=state, reason=reason, ended_at=tx.now)
    checks.end_open(tx, own["id"])
    outcome = "expired" if state == "expired" else "withdrawn"
    run_rows.withdraw_questions(tx, approval.c.proposal_id == own["id"], outcome)
    if author:
        audit.append(tx, author, f"proposal.{state}", own["function"], {"proposal": own["id"]})
    verb = "activated" if state == "active" else state
    emit(tx, own, verb, {"reason": reason, "author": author}, None)
    tx.wake("gate", "answers")


# What a canary that has ended says about its proposal.
_AFTER_CANARY = {"promoted": "active", "rolled_back": "rolled_back", "stopped": "withdrawn"}


def after_canary(tx: Tx, ended: Mapping[str, Any]) -> None:
    """End the proposal of a canary that has ended."""
    if ended["proposal_id"] is None:
        return
    own = tx.first(sa.select(proposal).where(proposal.c.id == ended["proposal_id"]).with_for_update())
    if own is not None and own["state"] == "canary":
        end(tx, own, _AFTER_CANARY[ended["state"]], ended["reason"], author=ended["decided_by"] or "")


def ended_canaries(tx: Tx, limit: int) -> list[dict[str, Any]]:
    """Return the ended canaries whose proposals do not know it: another version that became active has stopped them."""
    return tx.rows(
        sa.select(canary)
        .join(proposal, proposal.c.id == canary.c.proposal_id)
        .where(proposal.c.state == "canary", canary.c.state.in_(_AFTER_CANARY))
        .order_by(canary.c.id)
        .limit(limit)
    )


def emit(tx: Tx, own: Mapping[str, Any], verb: str, data: Mapping[str, Any], cause: Cause | None) -> None:
    """Write an event about a proposal; its subject is the function. Without a ``cause`` the execution that proposed it
    is one: guards count what triggers start.
    """
    known = {
        "proposal_id": own["id"],
        "function": own["function"],
        "version": own["version"],
        "base_version": own["base_version"],
        "run_id": own["run_id"],
        "root_id": own["root_id"],
    }
    source = f"/functory/proposals/{own['id']}"
    found = cause or _cause(tx, own)
    record = event_store.record(
        tx, f"proposal.{verb}", own["function"], {**known, **data}, source=source, cause=found
    )
    event_store.append(tx, [record])


def _cause(tx: Tx, own: Mapping[str, Any]) -> Cause | None:
    if own["execution_id"] is None:
        return None
    statement = sa.select(*CAUSE_COLUMNS).where(execution.c.id == own["execution_id"])
    row = tx.one(CausingExecution, statement)
    return None if row is None else Cause.from_row(row)


def give_to_run(tx: Tx, function_id: str, run_id: str | None) -> None:
    """Write for which run a function exists; None: for all."""
    tx.execute(sa.update(function).where(function.c.id == function_id).values(run_id=run_id))
