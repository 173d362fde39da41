"""Stored schedules: their due times and their ticks. Each calendar time becomes one event, with any number of writers.

Package :mod:`functory.triggers.sources.schedules` computes the times. This module stores the next time of each schedule
and writes the decisions. The key (schedule, time) of table ``schedule_tick`` makes a tick unique: any number of
tickers, backfills and users may write the same one. Tick, event and next time are one transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database import counters
from functory.engine.database.schema import event, execution, firing, schedule, schedule_tick, source
from functory.engine.database.transaction import Tx
from functory.engine.events import store as event_store
from functory.engine.sources import store as source_store

EVENT_TYPE = "schedule.due"

# The final events of an execution that failed for good.
FAILURE_EVENTS = ("execution.failed", "execution.timed_out", "execution.dead")

# The delay before a schedule that cannot be read is tried again.
RETRY = timedelta(minutes=1)

# Built once, because every ticker runs them in every round.
_NEXT_DUE = sa.select(sa.func.min(schedule.c.next_at)).where(schedule.c.next_at.is_not(None))
_WATCHED_FROM = sa.select(sa.func.min(schedule.c.watched_from)).where(schedule.c.watched_from.is_not(None))
_NEXT_DUE_AND_WATCHED = sa.select(
    _NEXT_DUE.scalar_subquery().label("next_at"), _WATCHED_FROM.scalar_subquery().label("watched_from")
)


@dataclass(frozen=True)
class Tick:
    """A time that becomes an event with ``data``. ``origin`` is ``calendar``, ``backfill`` or ``manual``."""

    time: datetime
    data: Mapping[str, Any]
    origin: str = "calendar"


@dataclass(frozen=True)
class ScheduleDecision:
    """The decision about a due schedule (``row`` as :func:`lock_due` gave it).

    ``next_at`` is when ``fire_at``, the next time, is due; both None when the schedule is over. ``last_at`` is the
    latest decided time, ``missed`` the number of times without an event.
    """

    row: Mapping[str, Any]
    ticks: Sequence[Tick]
    fire_at: datetime | None
    next_at: datetime | None
    last_at: datetime | None
    missed: int


def lock(tx: Tx, source_id: str) -> dict[str, Any] | None:
    """Lock a schedule's row until the commit; None before its first due time is set."""
    statement = sa.select(schedule).where(schedule.c.source_id == source_id)
    return tx.first(statement.with_for_update())


def set_next_due(
    tx: Tx,
    row: Mapping[str, Any],
    *,
    timing: str,
    fire_at: datetime | None,
    next_at: datetime | None,
    watched_from: datetime | None,
) -> None:
    """Set the next due time of the source ``row``, computed from the row's version."""
    values = {
        "version": row["version"],
        "timing": timing,
        "fire_at": fire_at,
        "next_at": next_at,
        "watched_from": watched_from,
    }
    if not tx.insert_missing(schedule, [{"source_id": row["id"], "missed": 0, **values}]):
        tx.execute(sa.update(schedule).where(schedule.c.source_id == row["id"]).values(**values))


def unschedule(tx: Tx, row: Mapping[str, Any]) -> None:
    """Clear the due time until :func:`set_next_due` sets it again."""
    tx.execute(
        sa.update(schedule)
        .where(schedule.c.source_id == row["id"])
        .values(version=row["version"], fire_at=None, next_at=None, watched_from=None)
    )


def next_due(tx: Tx) -> datetime | None:
    """Return the time at which the next schedule is due: the first entry of an index, for any number of schedules."""
    return tx.scalar(_NEXT_DUE)


def next_due_and_watched(tx: Tx) -> tuple[datetime | None, datetime | None]:
    """Return :func:`next_due`, and the earliest time from which a failure pauses a schedule; None when no schedule
    pauses on failure. One statement."""
    row = tx.first(_NEXT_DUE_AND_WATCHED)
    return (None, None) if row is None else (row["next_at"], row["watched_from"])


def lock_due(tx: Tx, limit: int) -> list[dict[str, Any]]:
    """Lock up to ``limit`` due schedules that no other transaction has locked, the longest due first.

    The rows have the schedule's columns and the source's ``name``, ``kind``, ``config`` and ``problem``.
    """
    statement = (
        sa.select(schedule, source.c.kind, source.c.name, source.c.config, source.c.problem)
        # The version: a row that changed after this statement began is not read with its old source.
        .join(source, sa.and_(source.c.id == schedule.c.source_id, source.c.version == schedule.c.version))
        .where(schedule.c.next_at <= tx.now, source.c.state == "enabled")
        .order_by(schedule.c.next_at, schedule.c.source_id)
        .limit(limit)
    )
    return tx.rows(statement.with_for_update(of=schedule, skip_locked=True))


def write_decisions(tx: Tx, rounds: Sequence[ScheduleDecision]) -> dict[tuple[str, datetime], str]:
    """Write the ticks and the new state of each schedule. Returns the events of new ticks by (schedule, time)."""
    new = _insert_ticks(tx, [(one.row, tick) for one in rounds for tick in one.ticks])
    changed = [
        {
            "id_": one.row["source_id"],
            "fire": one.fire_at,
            "next": one.next_at,
            "last": one.last_at or one.row["last_at"],
            "more": one.missed,
        }
        for one in rounds
    ]
    if changed:
        tx.execute(
            sa.update(schedule)
            .where(schedule.c.source_id == sa.bindparam("id_"))
            .values(
                fire_at=sa.bindparam("fire"),
                next_at=sa.bindparam("next"),
                last_at=sa.bindparam("last"),
                missed=schedule.c.missed + sa.bindparam("more"),
            ),
            changed,
        )
    return new


def add_ticks(tx: Tx, row: Mapping[str, Any], ticks: Sequence[Tick]) -> dict[datetime, str]:
    """Write ticks of the source ``row`` outside its calendar. Returns the events of new ticks by time."""
    lock(tx, row["id"])
    new = _insert_ticks(tx, [({**row, "source_id": row["id"]}, tick) for tick in ticks])
    return {time: id_ for (_, time), id_ in new.items()}


def postpone(tx: Tx, row: Mapping[str, Any]) -> None:
    """Retry a schedule later that cannot be decided; its next calendar time does not change."""
    tx.execute(
        sa.update(schedule).where(schedule.c.source_id == row["source_id"]).values(next_at=tx.now + RETRY)
    )


def set_problems(tx: Tx, problems: Mapping[str, str | None]) -> None:
    """Store the problems of schedules, by their ids; None clears one.

    Runs in a transaction of its own: saving a schedule locks its source first, a tick never does.
    """
    for id_, problem in sorted(problems.items()):
        tx.execute(
            sa.update(source)
            .where(source.c.id == id_)
            .values(problem=problem[:2000] if problem else None, problem_at=tx.now if problem else None)
        )


def existing_times(tx: Tx, source_id: str, first: datetime, last: datetime) -> set[datetime]:
    """Return the times from ``first`` to ``last`` that have a tick."""
    found = tx.execute(
        sa.select(schedule_tick.c.fire_time_utc).where(
            schedule_tick.c.schedule_id == source_id, schedule_tick.c.fire_time_utc.between(first, last)
        )
    )
    return set(found.scalars())


def recent_ticks(tx: Tx, source_id: str, limit: int) -> list[dict[str, Any]]:
    """Return the newest ticks by time, each with the first execution that it started, and with the ``reason`` of the
    first trigger that was suppressed for it.
    """
    newest = (
        sa.select(schedule_tick)
        .where(schedule_tick.c.schedule_id == source_id)
        .order_by(schedule_tick.c.fire_time_utc.desc())
        .limit(limit)
        .subquery()
    )
    started = (
        sa.select(execution.c.id)
        .where(execution.c.root_id == newest.c.event_id, execution.c.event_id == newest.c.event_id)
        .order_by(execution.c.id)
        .limit(1)
        .correlate(newest)
        .scalar_subquery()
    )
    stopped = (
        sa.select(firing.c.reason)
        .where(firing.c.event_id == newest.c.event_id, firing.c.decision == "suppressed")
        .order_by(firing.c.trigger_id)
        .limit(1)
        .correlate(newest)
        .scalar_subquery()
    )
    return tx.rows(
        sa.select(newest, started.label("execution_id"), stopped.label("reason")).order_by(
            newest.c.fire_time_utc.desc()
        )
    )


def overview(tx: Tx, source_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the schedule columns of these sources, by source id."""
    rows = tx.rows(sa.select(schedule).where(schedule.c.source_id.in_(sorted(source_ids))))
    return {row["source_id"]: row for row in rows}


def failures(tx: Tx, since: datetime) -> list[dict[str, Any]]:
    """Return enabled schedules with pause on failure whose tick's own execution has failed for good after ``since``.

    The rows are the sources', with ``execution_id``, ``function`` and ``how``; one a schedule, the first failure.
    """
    rows = tx.rows(
        sa.select(
            source,
            execution.c.id.label("execution_id"),
            execution.c.function,
            event.c.type.label("how"),
        )
        .select_from(event)
        .join(schedule_tick, schedule_tick.c.event_id == event.c.root_id)
        .join(schedule, schedule.c.source_id == schedule_tick.c.schedule_id)
        .join(source, source.c.id == schedule.c.source_id)
        .join(
            execution,
            sa.and_(
                execution.c.id == event.c.cause_execution_id, execution.c.event_id == schedule_tick.c.event_id
            ),
        )
        .where(
            event.c.type.in_(FAILURE_EVENTS),
            event.c.id >= event_store.lowest_id_since(since),
            event.c.time >= schedule.c.watched_from,
            source.c.state == "enabled",
        )
        .order_by(source.c.id, event.c.id)
    )
    first: dict[str, dict[str, Any]] = {}
    for row in rows:
        first.setdefault(row["id"], row)
    return list(first.values())


def pause_failed(tx: Tx, source_id: str, note: str) -> bool:
    """enabled → paused because of a failure; False when it is not enabled any more."""
    # First, as in every change of a source: of two processes that see the failure, the second finds it paused.
    counters.bump(tx, counters.SOURCES)
    row = tx.first(sa.select(source).where(source.c.id == source_id, source.c.state == "enabled"))
    if row is None:
        return False
    source_store.change_state(tx, row, "paused", "source.paused", note, author="functory", hook=unschedule)
    return True


def _insert_ticks(
    tx: Tx, wanted: Sequence[tuple[Mapping[str, Any], Tick]]
) -> dict[tuple[str, datetime], str]:
    rows = [
        event_store.record(
            tx, EVENT_TYPE, row["name"], dict(tick.data), source=source_store.event_source(row)
        )
        for row, tick in wanted
    ]
    keys = {made["id"]: (row["source_id"], tick.time) for made, (row, tick) in zip(rows, wanted, strict=True)}
    new = tx.insert_returning(
        schedule_tick,
        [
            {
                "schedule_id": row["source_id"],
                "fire_time_utc": tick.time,
                "event_id": made["id"],
                "origin": tick.origin,
                "time": tx.now,
            }
            for made, (row, tick) in zip(rows, wanted, strict=True)
        ],
        schedule_tick.c.event_id,
    )
    event_store.append(tx, [made for made in rows if made["id"] in new])
    return {key: id_ for id_, key in keys.items() if id_ in new}
