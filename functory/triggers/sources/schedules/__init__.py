"""Schedules: a kind of source whose events are times of a calendar.

``Config`` says when (:mod:`cron`, an interval, moments), :class:`Calendar` gives the times, :func:`decide` says which
of those that are due become events; ``triggers.sources.schedules.ticker`` writes them. Zones and moments are read in
modules of their own.
"""

from functory.triggers.sources.schedules.calendar import Calendar
from functory.triggers.sources.schedules.config import Config
from functory.triggers.sources.schedules.misfire import GRACE, CatchUp, Plan, Tick, decide
from functory.triggers.sources.schedules.plugin import Schedule, check_ahead, tick_of
from functory.triggers.sources.schedules.timestamps import moment

__all__ = [
    "GRACE",
    "Calendar",
    "CatchUp",
    "Config",
    "Plan",
    "Schedule",
    "Tick",
    "check_ahead",
    "decide",
    "moment",
    "tick_of",
]
