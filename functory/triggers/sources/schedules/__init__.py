"""Schedules: a kind of source whose events are times of a calendar.

``Config`` says when (:mod:`cron`, an interval, moments), :class:`Calendar` gives the times, :func:`decide` says which
of those that are due become events; ``triggers.sources.schedules.ticker`` writes them. Zones and moments are read in
modules of their own.
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
