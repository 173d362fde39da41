"""The invariant of schedules: I14."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from functory.engine.database.schema import event, schedule, schedule_tick, source
from functory.engine.maintenance.invariants.query import QueryScope, Violations, message_for, violations
from functory.engine.sources.schedules import EVENT_TYPE


def mistimed(scope: QueryScope) -> Sequence[Violations]:
    """I14: a tick without its event, an event without its tick or with two, a schedule that is due and does not tick,
    or that has no next time and is not over.

    That a time has one tick is the table's key; what is due next is decided in the transaction that writes the ticks
    before it, so that no time is passed over.
    """
    # Ticks are deleted after a while, their events are not.
    remembered = scope.now_id(timedelta(hours=1) - timedelta(days=scope.shape.receipt_days))
    event_id = schedule_tick.c.event_id
    broken = [
        violations(
            message_for(
                (event.c.id.is_(None), "a tick of schedule {name} has no event"),
                (sa.true(), "a tick of schedule {name} has the event {id}, which belongs to something else"),
            ),
            event_id,
            source.c.name,
        )
        .select_from(schedule_tick)
        .join(source, source.c.id == schedule_tick.c.schedule_id)
        .outerjoin(event, event.c.id == event_id)
        .where(
            event.c.type.is_distinct_from(EVENT_TYPE),
            sa.or_(event.c.id.is_not(None), scope.unpruned(schedule_tick.c.time)),
            *scope.ids_since(event_id),
        ),
        violations("the event {id} belongs to {number} ticks", event_id, number=sa.func.count())
        .where(*scope.ids_since(event_id))
        .group_by(event_id)
        .having(sa.func.count() > 1),
        violations("the event {id} of schedule {name} has no tick", event.c.id, event.c.subject)
        .select_from(event)
        .outerjoin(schedule_tick, event_id == event.c.id)
        .where(
            event.c.type == EVENT_TYPE,
            event_id.is_(None),
            event.c.id >= remembered,
            *scope.ids_since(event.c.id),
        ),
        violations("schedule {name} has not been planned since it was changed", source.c.id, source.c.name)
        .select_from(source)
        .outerjoin(schedule, schedule.c.source_id == source.c.id)
        .where(
            source.c.kind == "schedule",
            source.c.state == "enabled",
            schedule.c.version.is_distinct_from(source.c.version),
        ),
        violations("the next time of schedule {name} is before its last one", source.c.id, source.c.name)
        .select_from(schedule)
        .join(source, source.c.id == schedule.c.source_id)
        .where(schedule.c.next_at.is_not(None), schedule.c.fire_at <= schedule.c.last_at),
    ]
    if scope.drained:
        return broken
    return [
        *broken,
        violations("schedule {name} is due and does not tick", source.c.id, source.c.name)
        .select_from(schedule)
        .join(source, source.c.id == schedule.c.source_id)
        .where(schedule.c.next_at < scope.overdue_cutoff(), source.c.state == "enabled"),
    ]
