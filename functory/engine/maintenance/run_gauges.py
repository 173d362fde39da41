"""Gauges of agents' runs: those that are open, and the questions that wait for a person."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from functory.engine.database.schema import approval, run
from functory.engine.database.schema.agents import APPROVAL_KINDS, RUN_OPEN
from functory.engine.database.transaction import Tx

# Name, help, and label.
FAMILIES: tuple[tuple[str, str, str], ...] = (
    (
        "runs",
        "Open runs of agents: running; waiting for a model, for other executions and runs (children), for a person, "
        "for a proposal; paused.",
        "state",
    ),
    (
        "approvals_pending",
        "Questions that wait for a person: ask (a run asks), tool (may a run use it), proposal (may it become active).",
        "kind",
    ),
    ("approval_oldest_seconds", "Age of the oldest question that waits for a person.", "kind"),
)
_OPEN = sa.select(run.c.state, sa.func.count()).where(run.c.ended_at.is_(None)).group_by(run.c.state)
_PENDING = (
    sa.select(
        approval.c.kind, sa.func.count().label("number"), sa.func.min(approval.c.requested_at).label("oldest")
    )
    .where(approval.c.state == "pending")
    .group_by(approval.c.kind)
)


def values(tx: Tx) -> dict[str, Mapping[str, float]]:
    """Return the values of each family by its label. A state or a kind without rows has zero."""
    runs = tx.pairs(_OPEN)
    pending: dict[str, float] = dict.fromkeys(APPROVAL_KINDS, 0)
    ages: dict[str, float] = dict.fromkeys(APPROVAL_KINDS, 0.0)
    for row in tx.rows(_PENDING):
        pending[row["kind"]] = row["number"]
        ages[row["kind"]] = max(0.0, (tx.now - row["oldest"]).total_seconds())
    return {
        "runs": {state: runs.get(state, 0) for state in RUN_OPEN},
        "approvals_pending": pending,
        "approval_oldest_seconds": ages,
    }
