"""The source kind ``schedule``: saves, pauses, resumes and deletes schedules. The ticker writes their ticks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid
from functory.engine.sources import schedules
from functory.triggers.sources.plugin import SourcePlugin
from functory.triggers.sources.schedules import cron
from functory.triggers.sources.schedules.calendar import MICROSECOND
from functory.triggers.sources.schedules.config import ScheduleConfig
from functory.triggers.sources.schedules.timestamps import format_timestamp


class ScheduleSource(SourcePlugin):
    """Events at times of a calendar.

    A schedule that is new, resumed, or has changed times starts at the present: earlier times give no events. Any
    other change keeps the due times. The natural key of a tick is its time.
    """

    kind = "schedule"
    summary = "events at times: cron, intervals, timestamps"
    types = (schedules.EVENT_TYPE,)
    Config = ScheduleConfig

    def check(self, config: ScheduleConfig) -> None:
        try:
            cron.check_steps(config.cron or "")
        except ValueError as error:
            raise Invalid("wrong schedule", f"cron: {error}") from None

    def on_enabled(self, tx: Tx, row: Mapping[str, Any], config: ScheduleConfig) -> None:
        known = schedules.lock(tx, row["id"])
        goes_on = known is not None and known["next_at"] is not None and known["timing"] == config.timing
        if known is not None and goes_on:
            fire_at, watched = known["fire_at"], known["watched_from"] or tx.now
        else:
            if known is None or known["version"] != row["version"]:
                require_future_time(config, tx.now)
            fire_at, watched = config.calendar.next(tx.now), tx.now
        schedules.set_next_due(
            tx,
            row,
            timing=config.timing,
            fire_at=fire_at,
            next_at=due_at(row["id"], config, fire_at),
            watched_from=watched if config.pause_on_failure else None,
        )

    def on_disabled(self, tx: Tx, row: Mapping[str, Any], config: ScheduleConfig | None) -> None:
        known = schedules.lock(tx, row["id"])
        is_changed = known is not None and known["version"] != row["version"]
        if config is not None and row["state"] == "paused" and is_changed:
            require_future_time(config, tx.now)
        schedules.unschedule(tx, row)


def due_at(key: str, config: ScheduleConfig, fire_at: datetime | None) -> datetime | None:
    """The due time of a calendar time: the same time plus its jitter."""
    if fire_at is None:
        return None
    _, due = next(config.calendar.due_times(key, fire_at - MICROSECOND), (fire_at, fire_at))
    return due


def make_tick(
    name: str,
    config: ScheduleConfig,
    time: datetime,
    now: datetime,
    *,
    late: timedelta | None = None,
    origin: str = "calendar",
    overlap: str | None = None,
) -> schedules.Tick:
    """The tick of a time, with the data of its event. ``late``: the delay after its due time (default: ``time``)."""
    return schedules.Tick(
        time,
        {
            "schedule": name,
            "fire_time": format_timestamp(time),
            "local_time": config.calendar.local(time).isoformat(),
            "late_seconds": round(max(0.0, (now - time if late is None else late).total_seconds()), 6),
            "backfill": origin == "backfill",
            "manual": origin == "manual",
            "overlap": overlap or config.overlap,
            "data": config.data,
        },
        origin,
    )


def require_future_time(config: ScheduleConfig, now: datetime) -> None:
    """Raise :class:`Invalid` when the schedule has no time after ``now``."""
    if config.calendar.next(now) is not None:
        return
    if config.at is not None:
        last = config.calendar.local(max(config.calendar.at))
        raise Invalid(
            "the schedule would never fire",
            f"{last.isoformat()} is past; now is {config.calendar.local(now).isoformat(timespec='seconds')} "
            f"in {config.timezone}",
            "name a time in the future",
        )
    raise Invalid(
        "the schedule would never fire",
        f"{config.when} has no time from now"
        + (f" to its end, {config.end}" if config.end else " within 50 years"),
        "change the expression, or its end",
    )
