"""Invariants of causes, depths and budgets: I11, I12, I13.

Times cannot show that no chain returns to itself, because the clocks of two machines may disagree. Depths can: each
step is one deeper than its cause, so none can come again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import budget, concurrency_group, event, execution, firing, slot
from functory.engine.maintenance.invariants.query import QueryScope, Violations, message_for, violations

# These events report on another event. They are in its tree, and no execution is their cause.
_UNCAUSED_TYPES = ("trigger.suppressed", "trigger.failed")
# What a root's budget counts. Replays and compensations are an operator's or the engine's own.
BUDGETED_CAUSES = ("trigger", "parent", "step", "tool")

_parent = execution.alias("parent")
_by_parent = execution.c.parent_id.is_not(None)
_by_event = sa.and_(execution.c.parent_id.is_(None), execution.c.event_id.is_not(None))
_by_none = sa.and_(execution.c.parent_id.is_(None), execution.c.event_id.is_(None))


def missing_causes(scope: QueryScope) -> Sequence[Violations]:
    """I11: a cause that does not exist, or that is in another tree."""
    return [
        violations(
            message_for(
                (
                    execution.c.id.is_(None),
                    "event {id} ({name}) was caused by an execution that does not exist",
                ),
                (sa.true(), "event {id} ({name}) is in another tree than the execution that caused it"),
            ),
            event.c.id,
            event.c.type,
        )
        .select_from(event)
        .outerjoin(execution, execution.c.id == event.c.cause_execution_id)
        .where(
            event.c.cause_execution_id.is_not(None),
            execution.c.root_id.is_distinct_from(event.c.root_id),
            *scope.ids_since(event.c.id),
        ),
        violations("event {id} ({name}) has no cause and is no root", event.c.id, event.c.type).where(
            event.c.cause_execution_id.is_(None),
            event.c.root_id != event.c.id,
            event.c.type.not_in(_UNCAUSED_TYPES),
            *scope.ids_since(event.c.id),
        ),
        violations(
            message_for(
                (
                    event.c.id.is_(None),
                    "execution {id} of {name} was started by an event that does not exist",
                ),
                (sa.true(), "execution {id} of {name} is in another tree than its event"),
            ),
            execution.c.id,
            execution.c.function,
        )
        .select_from(execution)
        .outerjoin(event, event.c.id == execution.c.event_id)
        .where(
            _by_event, event.c.root_id.is_distinct_from(execution.c.root_id), *scope.ids_since(execution.c.id)
        ),
        violations(
            message_for(
                (_parent.c.id.is_(None), "execution {id} of {name} has a parent that does not exist"),
                (sa.true(), "execution {id} of {name} is in another tree than its parent"),
            ),
            execution.c.id,
            execution.c.function,
        )
        .select_from(execution)
        .outerjoin(_parent, _parent.c.id == execution.c.parent_id)
        .where(
            _by_parent,
            _parent.c.root_id.is_distinct_from(execution.c.root_id),
            *scope.ids_since(execution.c.id),
        ),
        violations(
            "execution {id} of {name} has no cause and is no root", execution.c.id, execution.c.function
        ).where(_by_none, execution.c.root_id != execution.c.id, *scope.ids_since(execution.c.id)),
    ]


def wrong_depths(scope: QueryScope) -> Sequence[Violations]:
    """I12: a depth that is not the cause's own (events) or one more (executions), or that is beyond the limit."""
    together = sa.exists().where(firing.c.execution_id == execution.c.id, firing.c.joint)
    above = execution.c.depth - event.c.depth
    return [
        violations(
            "event {id} ({name}) does not have the depth {number} of its cause",
            event.c.id,
            event.c.type,
            execution.c.depth,
        )
        .select_from(event)
        .join(execution, execution.c.id == event.c.cause_execution_id)
        .where(event.c.depth != execution.c.depth, *scope.ids_since(event.c.id)),
        violations(
            "event {id} ({name}) has no cause and the depth {number}", event.c.id, event.c.type, event.c.depth
        ).where(
            event.c.cause_execution_id.is_(None),
            event.c.depth != 0,
            # A queue continues the depth of another installation's event.
            event.c.source.not_like("/functory/queue/%"),
            event.c.type.not_in(_UNCAUSED_TYPES),
            *scope.ids_since(event.c.id),
        ),
        violations(
            "execution {id} of {name} is not one deeper than its event, at {number}",
            execution.c.id,
            execution.c.function,
            execution.c.depth,
        )
        .select_from(execution)
        .join(event, event.c.id == execution.c.event_id)
        # Of several events that fire together the deepest one counts.
        .where(
            _by_event,
            sa.or_(above < 1, sa.and_(above > 1, sa.not_(together))),
            *scope.ids_since(execution.c.id),
        ),
        violations(
            "execution {id} of {name} is not one deeper than its parent, at {number}",
            execution.c.id,
            execution.c.function,
            execution.c.depth,
        )
        .select_from(execution)
        .join(_parent, _parent.c.id == execution.c.parent_id)
        .where(execution.c.depth != _parent.c.depth + 1, *scope.ids_since(execution.c.id)),
        violations(
            "execution {id} of {name} has the wrong depth {number}",
            execution.c.id,
            execution.c.function,
            execution.c.depth,
        ).where(
            sa.or_(
                sa.and_(execution.c.cause.in_(BUDGETED_CAUSES), execution.c.depth > scope.shape.max_depth),
                sa.and_(_by_none, execution.c.depth != 0),
            ),
            *scope.ids_since(execution.c.id),
        ),
    ]


def exceeded(scope: QueryScope) -> Sequence[Violations]:
    """I13: a root beyond its budget, or charged another number than it caused; a concurrency group beyond its
    capacity."""
    charged = (
        sa.select(execution.c.root_id.label("id"), sa.literal(1, sa.Integer).label("one"))
        .where(
            execution.c.cause.in_(BUDGETED_CAUSES),
            execution.c.id != execution.c.root_id,
            *scope.ids_since(execution.c.root_id),
        )
        .union_all(sa.select(budget.c.root_id, -budget.c.used).where(*scope.ids_since(budget.c.root_id)))
        .subquery()
    )
    left: Any = sa.func.sum(charged.c.one)
    return [
        violations(
            "the root {id} has caused {number} executions, which is more than its budget",
            budget.c.root_id,
            number=budget.c.used,
        ).where(budget.c.used > budget.c.maximum, *scope.ids_since(budget.c.root_id)),
        violations(
            "the root {id} has caused {number} executions more than it was charged for",
            charged.c.id,
            number=left,
        )
        .group_by(charged.c.id)
        .having(left != 0),
        violations(
            "{number} executions have a slot of the concurrency group {name}, which is more than its capacity",
            None,
            concurrency_group.c.text,
            sa.func.count(),
        )
        .select_from(slot)
        .outerjoin(concurrency_group, concurrency_group.c.key == slot.c.group_key)
        .where(sa.text("slot.taken_at IS NOT NULL"))
        .group_by(slot.c.group_key, concurrency_group.c.text)
        # Each was admitted beside fewer than its own capacity; so there are never more than the largest of them.
        .having(sa.func.count() > sa.func.max(slot.c.capacity)),
    ]
