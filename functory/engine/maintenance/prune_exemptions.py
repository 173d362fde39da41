"""Prune exemptions: old trees that are kept, because a part is open or a younger tree refers to them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.database.clock import lowest_id
from functory.engine.database.connection import Tx
from functory.engine.database.schema import (
    buffered_match,
    cancellation,
    compensation,
    event,
    execution,
    firing,
    llm_call,
    open_cancel,
    outbox,
    run,
    slot,
)
from functory.engine.events.outbox import unpublished_ids

OPEN = ("queued", "running")
SETTLED_COMPENSATIONS = ("done", "skipped")

# The order of the reasons; the first that holds is shown. What needs an action comes first, what only takes time last.
_REASON_PRIORITY = {
    reason: rank
    for rank, reason in enumerate(
        (
            "an execution is open",
            "an event is pending",
            "an event is quarantined",
            "a match waits",
            "an event is not published",
            "a cancellation waits",
            "a cancel is open",
            "a concurrency slot is taken",
            "a compensation is open",
            "a call of a language model is open",
            "a run of an agent is open",
            "it fired together with a young or open tree",
            "it is young",
        )
    )
}


def find_exempt(tx: Tx, roots: Sequence[str], cutoff: datetime) -> dict[str, str]:
    """Return those of ``roots`` that may not be deleted, each with the reason."""
    if not roots:
        return {}
    own_event, own_execution = event.c.root_id.in_(roots), execution.c.root_id.in_(roots)
    own_call = llm_call.c.root_id.in_(roots)
    # Batches with old events only: a long outbox is a young one, as a rule.
    unpublished = unpublished_ids().where(outbox.c.first_id < lowest_id(cutoff)).subquery("unpublished")
    other, far = execution.alias("other"), firing.alias("far")
    reasons = [
        _why("it is young", event.c.root_id, own_event, event.c.routed_at >= cutoff),
        _why("it is young", execution.c.root_id, own_execution, execution.c.finished_at >= cutoff),
        _why("it is young", llm_call.c.root_id, own_call, llm_call.c.ended_at >= cutoff),
        _why(
            "a call of a language model is open", llm_call.c.root_id, own_call, llm_call.c.ended_at.is_(None)
        ),
        _why("a run of an agent is open", run.c.root_id, run.c.root_id.in_(roots), run.c.ended_at.is_(None)),
        _why("it is young", run.c.root_id, run.c.root_id.in_(roots), run.c.ended_at >= cutoff),
        _why("an execution is open", execution.c.root_id, own_execution, execution.c.state.in_(OPEN)),
        _why("an event is pending", event.c.root_id, own_event, event.c.state == "pending"),
        _why("an event is quarantined", event.c.root_id, own_event, event.c.state == "quarantined"),
        _why("a match waits", buffered_match.c.root_id, buffered_match.c.root_id.in_(roots)),
        _why("an event is not published", event.c.root_id, own_event, unpublished.c.event_id == event.c.id),
        _why("a cancellation waits", event.c.root_id, own_event, cancellation.c.event_id == event.c.id),
        _why(
            "a cancel is open",
            execution.c.root_id,
            own_execution,
            open_cancel.c.execution_id == execution.c.id,
        ),
        _why(
            "a concurrency slot is taken",
            execution.c.root_id,
            own_execution,
            slot.c.execution_id == execution.c.id,
        ),
        _why(
            "a compensation is open",
            execution.c.root_id,
            own_execution,
            sa.or_(compensation.c.saga_id == execution.c.id, compensation.c.step_id == execution.c.id),
            compensation.c.state.not_in(SETTLED_COMPENSATIONS),
        ),
        # Events that fired together may be of several trees: each tree keeps the others.
        _why(
            "it fired together with a young or open tree",
            firing.c.root_id,
            firing.c.root_id.in_(roots),
            firing.c.joint,
            other.c.id == firing.c.execution_id,
            other.c.root_id != firing.c.root_id,
            _is_recent_or_open(other.c.root_id, cutoff),
        ),
        _why(
            "it fired together with a young or open tree",
            execution.c.root_id,
            own_execution,
            far.c.execution_id == execution.c.id,
            far.c.joint,
            far.c.root_id != execution.c.root_id,
            _is_recent_or_open(far.c.root_id, cutoff),
        ),
    ]
    found: dict[str, str] = {}
    for row in tx.rows(sa.union(*reasons)):
        root, reason = str(row["root"]), row["reason"]
        if root not in found or _REASON_PRIORITY[reason] < _REASON_PRIORITY[found[root]]:
            found[root] = reason
    return found


def _why(reason: str, root: Any, *conditions: Any) -> Any:
    return sa.select(root.label("root"), sa.literal(reason, sa.Text).label("reason")).where(*conditions)


def _is_recent_or_open(root: Any, cutoff: datetime) -> Any:
    """Return the condition that rows of a tree are young or open."""
    events, executions = event.alias("its_event"), execution.alias("its_execution")
    return sa.or_(
        sa.exists().where(
            events.c.root_id == root, sa.or_(events.c.state != "routed", events.c.routed_at >= cutoff)
        ),
        sa.exists().where(
            executions.c.root_id == root,
            sa.or_(executions.c.state.in_(OPEN), executions.c.finished_at >= cutoff),
        ),
    )
