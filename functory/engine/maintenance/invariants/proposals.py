"""Invariants of proposals: I28, I29."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import activation, approval, function, gate_check, proposal
from functory.engine.database.schema.releases import PROPOSAL_OPEN
from functory.engine.maintenance.invariants.query import QueryScope, Violations, message_for, violations


def ungated_versions(scope: QueryScope) -> Sequence[Violations]:
    """I28: a version that was proposed, that no proposal has let through, and that is active without force."""
    passed = proposal.alias("passed")
    let_through = (
        sa.select(passed.c.id)
        .where(
            passed.c.function_id == function.c.id,
            passed.c.version == function.c.active,
            passed.c.state == "active",
        )
        .exists()
    )
    proposed = (
        sa.select(proposal.c.id)
        .where(proposal.c.function_id == function.c.id, proposal.c.version == function.c.active)
        .exists()
    )
    return [
        violations(
            "version {number} of function {name} has not passed the gate and is active without force",
            None,
            function.c.name,
            function.c.active,
        )
        .select_from(function)
        .join(
            activation,
            sa.and_(activation.c.function_id == function.c.id, activation.c.ended_at.is_(None)),
        )
        .where(
            proposed,
            sa.not_(let_through),
            activation.c.reason != "force",
            *scope.times_since(function.c.updated_at),
        )
    ]


def wrong_proposals(scope: QueryScope) -> Sequence[Violations]:
    """I29: a proposal that waits for no person, or for two at a time, and one that has ended with something open."""
    questions = _count(approval, approval.c.proposal_id == proposal.c.id, approval.c.state == "pending")
    running = _count(
        gate_check,
        gate_check.c.proposal_id == proposal.c.id,
        gate_check.c.state.in_(("pending", "running")),
    )
    is_open = proposal.c.state.in_(PROPOSAL_OPEN)
    wrong = (
        (
            is_open != proposal.c.ended_at.is_(None),
            "proposal {id} of {name} has ended without a time, or has a time and is open",
        ),
        (
            sa.and_(proposal.c.state == "waiting", questions != 1),
            "proposal {id} of {name} waits, and has not one open question",
        ),
        (
            sa.and_(proposal.c.state != "waiting", questions > 0),
            "proposal {id} of {name} does not wait, and has an open question",
        ),
        (
            sa.and_(proposal.c.state != "checking", running > 0),
            "proposal {id} of {name} is not checked any more, and has an open check",
        ),
    )
    return [
        violations(message_for(*wrong), proposal.c.id, proposal.c.function)
        .select_from(proposal)
        .where(sa.or_(*(condition for condition, _ in wrong)), *scope.ids_since(proposal.c.id))
    ]


def _count(table: sa.Table, *conditions: sa.ColumnElement[bool]) -> Any:
    return sa.select(sa.func.count()).select_from(table).where(*conditions).scalar_subquery()
