"""Schedules: a source whose events are the times of a calendar.

:class:`ScheduleConfig` defines the times (:mod:`cron`, an interval, or listed timestamps), :class:`Calendar` computes
them, and :func:`decide_ticks` decides which due times become events. ``functory.triggers.sources.schedules.ticker``
writes the events. Time zones and timestamps are parsed in modules of their own.
"""

from functory.triggers.sources.schedules.calendar import Calendar
from functory.triggers.sources.schedules.config import ScheduleConfig
from functory.triggers.sources.schedules.misfire import (
    MISFIRE_GRACE,
    CatchUp,
    DueTick,
    TickDecision,
    decide_ticks,
)
from functory.triggers.sources.schedules.plugin import ScheduleSource, make_tick, require_future_time
from functory.triggers.sources.schedules.timestamps import parse_timestamp

__all__ = [
    "MISFIRE_GRACE",
    "Calendar",
    "CatchUp",
    "ScheduleConfig",
    "TickDecision",
    "ScheduleSource",
    "DueTick",
    "require_future_time",
    "decide_ticks",
    "parse_timestamp",
    "make_tick",
]
