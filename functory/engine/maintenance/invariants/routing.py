"""Invariants from event to execution: I1, I2, I3."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from functory.engine.database.schema import (
    buffered_match,
    decided_by_version,
    event,
    execution,
    firing,
    routing_queue,
    trigger_version,
)
from functory.engine.events.kill_switch import HALTED
from functory.engine.events.outbox import unpublished_ids
from functory.engine.maintenance.invariants.query import QueryScope, Violations, message_for, violations

# Events before the first pending one that show whether a router is on its way to it.
PRECEDING_EVENTS = 200

_PENDING = routing_queue.c.quarantined.is_(False)
_QUEUED = routing_queue.c.event_id == event.c.id
# While triggers are halted, events stay pending.
NOT_HALTED = sa.not_(HALTED)


def unrouted(scope: QueryScope) -> Sequence[Violations]:
    """I1: events that are pending for too long, while no router comes nearer to them; a queue that is not that of the
    open events.
    """
    waits = (
        violations("event {id} ({name}) is not routed", event.c.id, event.c.type)
        .select_from(routing_queue)
        .join(event, _QUEUED)
        .where(_PENDING, NOT_HALTED, *scope.ids_since(routing_queue.c.event_id))
    )
    if scope.drained:
        return [waits, *_wrong_queues(scope)]
    old = routing_queue.c.event_id < scope.overdue_cutoff_id()
    due = sa.or_(routing_queue.c.route_after.is_(None), routing_queue.c.route_after < scope.overdue_cutoff())
    earlier = event.alias("earlier")
    # Routers go by the order of ids: in a backlog that shrinks, what comes right before was routed just now.
    head = sa.select(routing_queue.c.event_id).where(_PENDING, old, due)
    head = head.order_by(routing_queue.c.event_id).limit(1).scalar_subquery()
    before = (
        sa.select(earlier.c.routed_at)
        .where(earlier.c.id < head, earlier.c.state == "routed")
        .order_by(earlier.c.id.desc())
        .limit(PRECEDING_EVENTS)
        .subquery()
    )
    moving = sa.exists(sa.select(before.c.routed_at).where(before.c.routed_at > scope.overdue_cutoff()))
    return [waits.where(old, due, sa.not_(moving)), *_wrong_queues(scope)]


def _wrong_queues(scope: QueryScope) -> Sequence[Violations]:
    """Open events without their one row of the queue, other events with one, and batches of the outbox with events that
    do not exist.
    """
    of_event = sa.select(routing_queue.c.event_id).where(
        _QUEUED, routing_queue.c.quarantined == (event.c.state == "quarantined")
    )
    unpublished = unpublished_ids().subquery("unpublished")
    return [
        violations("event {id} is {name} and not in the routing queue", event.c.id, event.c.state).where(
            event.c.state != "routed", sa.not_(sa.exists(of_event)), *scope.ids_since(event.c.id)
        ),
        violations(
            message_for(
                (event.c.id.is_(None), "the routing queue has event {id}, which does not exist"),
                (sa.true(), "event {id} is {name} and in the routing queue"),
            ),
            routing_queue.c.event_id,
            event.c.state,
        )
        .select_from(routing_queue)
        .outerjoin(event, _QUEUED)
        .where(
            sa.or_(
                event.c.id.is_(None),
                event.c.state != sa.case((_PENDING, "pending"), else_="quarantined"),
            ),
            *scope.ids_since(routing_queue.c.event_id),
        ),
        violations("the outbox has event {id}, which does not exist", unpublished.c.event_id)
        .select_from(unpublished)
        .outerjoin(event, event.c.id == unpublished.c.event_id)
        .where(event.c.id.is_(None), *scope.ids_since(unpublished.c.event_id)),
    ]


def undecided(scope: QueryScope) -> Sequence[Violations]:
    """I2: a firing whose event is not routed or whose trigger version does not exist, and a match that still waits
    after its decision. The table's key excludes a second firing.
    """
    of_match = sa.and_(
        firing.c.trigger_id == buffered_match.c.trigger_id, firing.c.event_id == buffered_match.c.event_id
    )
    return [
        violations(
            message_for(
                (event.c.id.is_(None), "a firing belongs to event {id}, which does not exist"),
                (sa.true(), "event {id} has a firing and is {name}"),
            ),
            firing.c.event_id,
            event.c.state,
        )
        .select_from(firing)
        .outerjoin(event, event.c.id == firing.c.event_id)
        .where(sa.or_(event.c.id.is_(None), event.c.state != "routed"), *scope.ids_since(firing.c.event_id)),
        violations(
            "a firing of event {id} names version {number} of its trigger, which does not exist",
            firing.c.event_id,
            number=firing.c.trigger_version,
        )
        .select_from(firing)
        .outerjoin(trigger_version, decided_by_version)
        .where(trigger_version.c.number.is_(None), *scope.ids_since(firing.c.event_id)),
        violations("event {id} waits for a trigger that has decided about it", buffered_match.c.event_id)
        .select_from(buffered_match)
        .join(firing, of_match)
        .where(*scope.ids_since(buffered_match.c.event_id)),
        violations(
            "event {id} waits for a trigger and is not routed", buffered_match.c.event_id, event.c.state
        )
        .select_from(buffered_match)
        .outerjoin(event, event.c.id == buffered_match.c.event_id)
        .where(
            sa.or_(event.c.id.is_(None), event.c.state != "routed"),
            *scope.ids_since(buffered_match.c.event_id),
        ),
    ]


def unstarted(scope: QueryScope) -> Sequence[Violations]:
    """I3: a firing that has no execution or another firing's execution; an execution without its firing."""
    fired = firing.c.decision == "fired"
    # Several events that started an execution together each have a firing of it.
    strange = sa.or_(
        sa.and_(
            execution.c.id.is_(None),
            # Of those that fired together some may be kept longer than the tree of the execution.
            sa.or_(sa.not_(firing.c.joint), scope.unpruned(firing.c.time)),
        ),
        sa.and_(execution.c.id.is_not(None), execution.c.trigger_id.is_distinct_from(firing.c.trigger_id)),
        sa.and_(sa.not_(firing.c.joint), execution.c.event_id.is_distinct_from(firing.c.event_id)),
    )
    mine = sa.and_(
        firing.c.trigger_id == execution.c.trigger_id,
        firing.c.event_id == execution.c.event_id,
    )
    return [
        violations(
            message_for(
                (firing.c.execution_id.is_(None), "event {id} fired without an execution"),
                (execution.c.id.is_(None), "event {id} fired, and its execution does not exist"),
                (sa.true(), "event {id} fired an execution of another match"),
            ),
            firing.c.event_id,
        )
        .select_from(firing)
        .outerjoin(execution, execution.c.id == firing.c.execution_id)
        .where(fired, strange, *scope.ids_since(firing.c.event_id)),
        violations("event {id} was suppressed and has an execution", firing.c.event_id).where(
            firing.c.decision == "suppressed",
            sa.or_(firing.c.execution_id.is_not(None), firing.c.reason.is_(None)),
            *scope.ids_since(firing.c.event_id),
        ),
        violations("execution {id} of {name} has no firing", execution.c.id, execution.c.function)
        .select_from(execution)
        .outerjoin(firing, mine)
        .where(
            execution.c.cause == "trigger",
            sa.or_(firing.c.event_id.is_(None), firing.c.execution_id.is_distinct_from(execution.c.id)),
            *scope.ids_since(execution.c.id),
        ),
    ]
