"""What a run has waited for comes: the answer of a model, the decision of a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.agents import calls, meters
from functory.engine.database.id_lists import one_of
from functory.engine.database.schema import approval, gate_check, llm_call, proposal, run_wait
from functory.engine.database.transaction import Tx
from functory.engine.errors import BudgetExceeded, FunctoryError, ModelFailed
from functory.engine.executions import start
from functory.engine.executions.runs import metric_counts, questions, rows, transitions
from functory.engine.functions import versions

# Open questions that one transaction ends.
PAGE = 100
_CALLS = sa.select(llm_call).where(one_of(llm_call.c.id))
_PROPOSALS = sa.select(proposal).where(one_of(proposal.c.id), proposal.c.ended_at.is_not(None))
# The limits whose names are others for a run.
_REASONS: Mapping[str, str] = {"deadline": "seconds"}


def after_calls(tx: Tx, ended: Sequence[str]) -> None:
    """Go on with the runs that wait for calls of models, which have ended in this transaction."""
    waits = rows.waiters(tx, ended)
    if not waits:
        return
    found = {row["id"]: row for row in tx.rows(_CALLS, {"ids": [wait["target_id"] for wait in waits]})}
    for wait in waits:
        own = rows.lock(tx, wait["run_id"])
        if own["ended_at"] is not None:
            continue
        rows.stop_waiting(tx, own)
        call = found[wait["target_id"]]
        try:
            given = {"kind": "model", **calls.answer(call, replayed=False)}
        except BudgetExceeded as error:
            limit = error.limit["limit"]
            transitions.stop(tx, own, _REASONS.get(limit, limit), error.why, None)
            continue
        except ModelFailed as error:
            problem = {
                "state": error.state,
                "type": "ModelFailed",
                "message": error.reason,
                "call_id": call["id"],
            }
            transitions.go_on_with_problem(tx, own, problem, None)
            continue
        rows.change(tx, own, errors=0)
        transitions.begin(tx, own, "model", given, None)


def after_proposals(tx: Tx, ended: Sequence[str]) -> None:
    """Go on with the runs that wait for proposals, which have ended before this transaction."""
    waits = rows.waiters(tx, ended)
    found = {} if not waits else {row["id"]: row for row in tx.rows(_PROPOSALS, {"ids": list(ended)})}
    for wait in waits:
        own = rows.lock(tx, wait["run_id"])
        if own["ended_at"] is not None:
            continue
        rows.stop_waiting(tx, own)
        given = about_proposal(tx, found[wait["target_id"]])
        if given["state"] == "active":
            rows.change(tx, own, errors=0)
        transitions.begin(tx, own, "proposal", given, None)


def about_proposal(tx: Tx, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a step is given of an ended proposal."""
    checks = tx.rows(
        sa.select(gate_check).where(gate_check.c.proposal_id == row["id"]).order_by(gate_check.c.position)
    )
    shown = {name: row[name] for name in ("id", "function", "version", "state", "reason")}
    reports = [{name: one[name] for name in ("name", "state", "report")} for one in checks]
    return {"kind": "proposal", **shown, "checks": reports}


def waiting_for_proposals(tx: Tx) -> list[str]:
    """Return ended proposals for which a run still waits: the process that ended them has died before it went on."""
    statement = (
        sa.select(run_wait.c.target_id)
        .join(proposal, proposal.c.id == run_wait.c.target_id)
        .where(run_wait.c.kind == "proposal", proposal.c.ended_at.is_not(None))
    )
    return list(tx.execute(statement.order_by(run_wait.c.target_id).limit(PAGE)).scalars())


def decide(
    tx: Tx,
    id_: str,
    state: str,
    *,
    answer: Any = None,
    feedback: str = "",
    always: Sequence[str] | None = None,
    author: str,
) -> dict[str, Any]:
    """pending → ``state`` for one question, and go on with its run. Decided once: raises
    :class:`AlreadyDecided` for one that is decided already.

    A question of a step is ``answered``, ``rejected`` or ``expired``; the one about a tool is ``approved``, ``edited``
    (``answer`` holds the arguments), ``rejected`` or ``expired``. ``always`` names arguments of a tool: calls with the
    same values of them need no consent for the rest of the run.
    """
    found = tx.first(sa.select(approval).where(approval.c.id == id_))
    assert found is not None
    own = rows.lock(tx, found["run_id"])
    values = {
        "state": state,
        "answer": answer,
        "feedback": feedback or None,
        "decided_by": author,
        "decided_at": tx.now,
    }
    changed = tx.execute(
        sa.update(approval).where(approval.c.id == id_, approval.c.state == "pending").values(values)
    ).rowcount
    if not changed:
        raise questions.already_decided(tx, id_)
    metric_counts.decided(tx, found, state)
    decided = {**found, **values}
    if found["kind"] == "tool":
        _after_consent(tx, own, decided, always)
        return decided
    rows.stop_waiting(tx, own, id_)
    rows.change(tx, own, errors=0)
    given = {
        "kind": "answer",
        "decision": state,
        "answer": answer,
        "feedback": feedback or None,
        "by": None if state == "expired" else author,
    }
    transitions.begin(tx, own, "answer", given, None)
    return decided


def _after_consent(
    tx: Tx, own: dict[str, Any], decided: Mapping[str, Any], always: Sequence[str] | None
) -> None:
    """Start the tool that a person has allowed, or let its call have an error as its result."""
    pending, payload = own["pending"], decided["payload"]
    call = next(one for one in pending["calls"] if one.get("approval") == decided["id"])
    del call["approval"]
    if decided["state"] in ("approved", "edited"):
        arguments = decided["answer"] if decided["state"] == "edited" else payload["arguments"]
        try:
            row = _allowed_call(tx, own, payload, arguments)
        except FunctoryError as error:
            call["error"] = {"state": "refused", "type": type(error).__name__, "message": error.reason}
        else:
            if not transitions.take_executions(tx, own, 1, None):
                return
            start.write(tx, [row])
            rows.wait_for(tx, own, "execution", [row["id"]])
            call["target"] = row["id"]
            tx.wake("executions")
        if always is not None:
            rule = {"tool": payload["tool"], "arguments": {name: arguments[name] for name in always}}
            rows.change(tx, own, allowed=[*own["allowed"], rule])
    else:
        message = decided["feedback"] or "no person has allowed it"
        call["error"] = {"state": decided["state"], "type": "Rejected", "message": message}
    left = rows.stop_waiting(tx, own, decided["id"])
    rows.change(tx, own, pending=pending)
    if not left:
        transitions.go_on_with_results(tx, own, None)
    elif not any("approval" in one for one in pending["calls"]):
        # The time in which it waited for persons is over.
        waited = (tx.now - own["waiting_since"]).total_seconds()
        meters.extend_deadline(tx, own["root_id"], waited)
        rows.change(tx, own, state="waiting_children", waiting_since=None)


def _allowed_call(
    tx: Tx, own: Mapping[str, Any], payload: Mapping[str, Any], arguments: Any
) -> dict[str, Any]:
    """Return the execution of a tool that was allowed: of the version that the person has seen."""
    version = versions.load(tx, payload["tool"], payload["version"])
    if version is None:
        raise start.missing_version_error(tx, payload["tool"], payload["version"])
    start.check_enabled(version.name, version.number, version.state)
    return transitions.tool_row(tx, rows.step_execution(tx, own), version, arguments)


def expire(tx: Tx) -> int:
    """End the questions whose time is over. Returns their number."""
    statement = sa.select(approval.c.id).where(
        approval.c.state == "pending", approval.c.expires_at <= tx.now, approval.c.run_id.is_not(None)
    )
    ids = list(tx.execute(statement.order_by(approval.c.expires_at).limit(PAGE)).scalars())
    for id_ in ids:
        decide(tx, id_, "expired", author="")
    return len(ids)
