"""Schedules: a kind of source whose events are times of a calendar.

``Config`` says when (:mod:`cron`, an interval, moments), :class:`Calendar` gives the times, :func:`decide` says which
of those that are due become events; ``triggers.sources.ticker`` writes them. Zones and moments are read in
modules of their own.
"""

from triggers.sources.schedules.calendar import Calendar
from triggers.sources.schedules.config import Config
from triggers.sources.schedules.moments import moment
from triggers.sources.schedules.plan import GRACE, CatchUp, Plan, Tick, decide
from triggers.sources.schedules.schedule import Schedule, check_ahead, tick_of

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
