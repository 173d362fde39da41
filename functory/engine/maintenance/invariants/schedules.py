"""Schedules: I14."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from functory.engine.database.schema import event, schedule, schedule_tick, source
from functory.engine.maintenance.invariants.query import Found, Look, found, words_of
from functory.engine.sources.schedules import TYPE


def mistimed(look: Look) -> Sequence[Found]:
    """I14: a tick without its event, an event without its tick or with two, a schedule that is due and does not tick,
    or that has no next time and is not over.

    That a time has one tick is the table's key; what is due next is decided in the transaction that writes the ticks
    before it, so that no time is passed over.
    """
    # Ticks are forgotten after a while, their events are not.
    remembered = look.now_id(timedelta(hours=1) - timedelta(days=look.shape.receipt_days))
    told = schedule_tick.c.event_id
    broken = [
        found(
            words_of(
                (event.c.id.is_(None), "a tick of schedule {name} has no event"),
                (sa.true(), "a tick of schedule {name} has the event {id}, which is of something else"),
            ),
            told,
            source.c.name,
        )
        .select_from(schedule_tick)
        .join(source, source.c.id == schedule_tick.c.schedule_id)
        .outerjoin(event, event.c.id == told)
        .where(
            event.c.type.is_distinct_from(TYPE),
            sa.or_(event.c.id.is_not(None), look.unpruned(schedule_tick.c.time)),
            *look.recent(told),
        ),
        found("the event {id} is of {number} ticks", told, number=sa.func.count())
        .where(*look.recent(told))
        .group_by(told)
        .having(sa.func.count() > 1),
        found("the event {id} of schedule {name} has no tick", event.c.id, event.c.subject)
        .select_from(event)
        .outerjoin(schedule_tick, told == event.c.id)
        .where(
            event.c.type == TYPE,
            told.is_(None),
            event.c.id >= remembered,
            *look.recent(event.c.id),
        ),
        found("schedule {name} has not been planned since it was changed", source.c.id, source.c.name)
        .select_from(source)
        .outerjoin(schedule, schedule.c.source_id == source.c.id)
        .where(
            source.c.kind == "schedule",
            source.c.state == "enabled",
            schedule.c.version.is_distinct_from(source.c.version),
        ),
        found("the next time of schedule {name} is before its last one", source.c.id, source.c.name)
        .select_from(schedule)
        .join(source, source.c.id == schedule.c.source_id)
        .where(schedule.c.next_at.is_not(None), schedule.c.fire_at <= schedule.c.last_at),
    ]
    if look.drained:
        return broken
    return [
        *broken,
        found("schedule {name} is due and does not tick", source.c.id, source.c.name)
        .select_from(schedule)
        .join(source, source.c.id == schedule.c.source_id)
        .where(schedule.c.next_at < look.latest(), source.c.state == "enabled"),
    ]
