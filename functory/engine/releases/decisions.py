"""The decisions about proposals: after their checks, and by people. Each runs in one transaction.

The registry's lock comes first (:data:`functory.engine.database.counters.FUNCTIONS`), then the proposal's row: a
decision may change what is active.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.database import audit, counters
from functory.engine.database.schema import approval, function
from functory.engine.database.transaction import Tx
from functory.engine.errors import AlreadyDecided, Conflict, FunctoryError
from functory.engine.executions.runs import metric_counts, questions
from functory.engine.functions import activation, versions
from functory.engine.functions.activation import Change
from functory.engine.releases import canaries, checks, gate_rules, proposal_rows
from functory.engine.releases.proposal_rows import emit, end, lock_open

KIND = "proposal"


def after_checks(tx: Tx, id_: str) -> None:
    """Decide about a proposal whose checks have all ended; nothing happens for another one."""
    counters.bump(tx, counters.FUNCTIONS)
    own = lock_open(tx, id_) if proposal_rows.is_checked(tx, id_) else None
    if own is None:
        return
    found = checks.of_proposal(tx, id_)
    emit(tx, own, "checked", {"checks": {one["name"]: one["state"] for one in found}}, None)
    failed = next((one for one in found if one["state"] == "failed"), None)
    if failed is not None:
        end(tx, own, "rejected", f"{failed['name']}: {_reason(failed)}", author="")
        return
    is_unproven = any(one["state"] == "warned" and one["name"] in checks.RUN for one in found)
    needed, why = gate_rules.approval_needed(
        own["rules"], own["rights"], is_ephemeral=own["is_ephemeral"], is_unproven=is_unproven
    )
    if needed == "never":
        end(tx, own, "rejected", f"no policy allows it: {', '.join(why)}", author="")
    elif needed == "auto":
        policies = ", ".join(own["policies"]) or "the usual rules"
        _roll_out(tx, own, f"policy {policies}")
    else:
        proposal_rows.change(tx, own, state="waiting")
        _ask(tx, own, needed, why)


def approve(tx: Tx, id_: str, *, question_id: str | None = None, feedback: str, author: str) -> None:
    """Approve a proposal that waits, once by each person; with ``question_id`` only by that question. Raises
    :class:`Conflict`, and :class:`AlreadyDecided` when a person has decided before.
    """
    counters.bump(tx, counters.FUNCTIONS)
    own = _lock_undecided(tx, id_, question_id)
    asked = _pending(tx, own)
    earlier = [one["decided_by"] for one in of_proposal(tx, id_) if one["state"] == "approved"]
    if author in earlier:
        raise Conflict(f"{author or 'you'} approved proposal {id_} already", "it waits for a second person")
    _decide(tx, own, asked, "approved", feedback, author)
    if asked["payload"]["needed"] == "two" and not earlier:
        _ask(tx, own, "two", asked["payload"]["why"])
        return
    _roll_out(tx, own, ", ".join([*earlier, author]))


def reject(tx: Tx, id_: str, *, question_id: str | None = None, feedback: str, author: str) -> None:
    """Reject a proposal that is open. Raises :class:`Conflict` for one that has ended, or whose canary runs, and
    :class:`AlreadyDecided` when a person has decided before.
    """
    own = _lock_undecided(tx, id_, question_id)
    if own["state"] == "canary":
        raise Conflict(
            f"the canary of proposal {id_} runs",
            "it is rolled back, not rejected",
            f"functory canary list --function {own['function']}",
        )
    if own["state"] == "waiting":
        _decide(tx, own, _pending(tx, own), "rejected", feedback, author)
    end(tx, own, "rejected", feedback or f"rejected by {author or 'an operator'}", author=author)


def of_proposal(tx: Tx, id_: str) -> list[dict[str, Any]]:
    """Return the questions about a proposal with what persons decided, the oldest first."""
    return tx.rows(sa.select(approval).where(approval.c.proposal_id == id_).order_by(approval.c.id))


def _roll_out(tx: Tx, own: dict[str, Any], author: str) -> None:
    """Make the version of a proposal the active one."""
    row = tx.first(sa.select(function).where(function.c.id == own["function_id"]).with_for_update())
    version = versions.load(tx, own["function"], own["version"])
    if row is None or version is None:
        end(tx, own, "superseded", "the function was deleted", author=author)
        return
    if row["active"] != own["base_version"]:
        was = f"v{own['base_version']}" if own["base_version"] else "none"
        now = f"v{row['active']}" if row["active"] else "none"
        end(tx, own, "superseded", f"active was {was}, and is {now} now: propose it again", author=author)
        return
    assert version.sha256 == own["sha256"], "versions never change"
    share = own["rules"]["canary"]
    if share and own["base_version"] is not None and not own["is_ephemeral"]:
        _begin_canary(tx, own, share, author)
        return
    change = Change(author, None, "promote", proposal_id=own["id"])
    try:
        activation.activate_version(tx, row, version, change)
    except FunctoryError as error:
        end(tx, own, "rejected", f"it cannot become active: {error.reason}", author=author)
        return
    if not own["is_ephemeral"]:
        proposal_rows.give_to_run(tx, own["function_id"], None)
    end(tx, own, "active", None, author=author)


def _begin_canary(tx: Tx, own: dict[str, Any], share: float, author: str) -> None:
    try:
        canaries.start(tx, own["function"], own["version"], share=share, proposal_id=own["id"], author=author)
    except FunctoryError as error:
        end(tx, own, "rejected", f"it cannot begin its canary: {error.reason}", author=author)
        return
    proposal_rows.change(tx, own, state="canary")


def _ask(tx: Tx, own: Mapping[str, Any], needed: str, why: Sequence[str]) -> None:
    """Write the question whether a proposal may become active."""
    payload = {
        "function": own["function"],
        "version": own["version"],
        "description": own["description"],
        "needed": needed,
        "why": list(why),
        "rights": own["rights"],
    }
    row = {
        "id": tx.new_id(),
        "kind": KIND,
        "state": "pending",
        "root_id": own["root_id"] or own["id"],
        "execution_id": own["execution_id"],
        "proposal_id": own["id"],
        "payload": payload,
        "requested_at": tx.now,
        "expires_at": own["expires_at"],
    }
    tx.insert(approval, [row])
    metric_counts.asked(tx, KIND)
    emit(tx, own, "waiting", {"approval_id": row["id"], "needed": needed, "why": list(why)}, None)


def _lock_undecided(tx: Tx, id_: str, question_id: str | None) -> dict[str, Any]:
    """Return an open proposal, locked. Raises :class:`AlreadyDecided` when its end, or the question, was decided by a
    person; :class:`Conflict` for another end.
    """
    try:
        own = lock_open(tx, id_)
    except Conflict as error:
        last = next((one for one in reversed(of_proposal(tx, id_)) if one["decided_by"]), None)
        if last is None:
            raise
        by, at = last["decided_by"], last["decided_at"]
        decided = f"it was {last['state']} by {by} at {at:%Y-%m-%d %H:%M:%S} UTC"
        raise AlreadyDecided(error.what, f"{error.why}; {decided}", decided_by=by, decided_at=at) from None
    if question_id is not None:
        asked = next(one for one in of_proposal(tx, id_) if one["id"] == question_id)
        if asked["state"] != "pending":
            raise questions.already_decided(tx, question_id)
    return own


def _pending(tx: Tx, own: Mapping[str, Any]) -> dict[str, Any]:
    found = next((one for one in of_proposal(tx, own["id"]) if one["state"] == "pending"), None)
    if found is None:
        raise Conflict(f"proposal {own['id']} is {own['state']}", "it does not wait for a person")
    return found


def _decide(
    tx: Tx, own: Mapping[str, Any], asked: Mapping[str, Any], state: str, feedback: str, author: str
) -> None:
    tx.execute(
        sa.update(approval)
        .where(approval.c.id == asked["id"], approval.c.state == "pending")
        .values(state=state, feedback=feedback or None, decided_by=author, decided_at=tx.now)
    )
    metric_counts.decided(tx, asked, state)
    audit.append(tx, author, f"approval.{state}", asked["id"], {"proposal": own["id"]}, after=own["sha256"])


def _reason(check: Mapping[str, Any]) -> str:
    return str(check["report"].get("problem") or "it failed")
