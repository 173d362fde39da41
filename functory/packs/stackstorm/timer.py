"""Checks the parameters of StackStorm's three timers, and translates them to configurations of schedules.

Fields of ``core.st2.CronTimer`` are those of APScheduler (days of the week from 0 for Monday). A crontab writes them
in another order, and numbers the days of the week differently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from functory.packs.stackstorm.report import LeftOut

TIMERS = ("core.st2.IntervalTimer", "core.st2.DateTimer", "core.st2.CronTimer")

_UNITS = ("weeks", "days", "hours", "minutes", "seconds")
_WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_RANGES = {
    "year": (1970, 9999),
    "month": (1, 12),
    "day": (1, 31),
    "week": (1, 53),
    "day_of_week": (0, 6),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}
_NAMES = {"day_of_week": _WEEK, "month": _MONTHS}
_PART = re.compile(r"(?:\*|([a-z0-9]+)(?:-([a-z0-9]+))?)(?:/([0-9]+))?")


def schedule_config(trigger: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The times of a schedule (``cron``, ``every`` or ``at``, and ``timezone``) that fires when the timer does.

    Raises :class:`LeftOut`.
    """
    wrong = check_timer(trigger, parameters)
    if wrong:
        raise LeftOut(f"its timer is wrong: {wrong}", "correct the rule")
    zone = {"timezone": parameters["timezone"]} if isinstance(parameters.get("timezone"), str) else {}
    if trigger == "core.st2.IntervalTimer":
        # An interval is the same in every zone.
        return {"every": f"{parameters['delta']}{parameters['unit'][0]}"}
    if trigger == "core.st2.DateTimer":
        return {"at": [parameters["date"]], **zone}
    line = cron_line(parameters)
    if line is None:
        raise LeftOut(
            f"a cron line cannot say its times: {dict(parameters)}",
            "make several schedules, or one with --every or --at: functory schedule add",
        )
    return {"cron": line, **zone}


def check_timer(trigger: str, parameters: Mapping[str, Any]) -> str | None:
    """The fault of a timer's parameters; None when they are right."""
    known = {
        "core.st2.IntervalTimer": {"unit", "delta", "timezone"},
        "core.st2.DateTimer": {"date", "timezone"},
    }
    allowed = known.get(trigger, {*_RANGES, "timezone"})
    unknown = sorted(set(parameters) - allowed)
    if unknown:
        return f"{trigger} has no parameter {unknown[0]}; it has " + ", ".join(sorted(allowed))
    if trigger == "core.st2.DateTimer":
        return None if isinstance(parameters.get("date"), str) else "core.st2.DateTimer needs a date"
    if trigger == "core.st2.IntervalTimer":
        unit, delta = parameters.get("unit"), parameters.get("delta")
        whole = isinstance(delta, int) and not isinstance(delta, bool) and delta > 0
        return (
            None
            if unit in _UNITS and whole
            else "core.st2.IntervalTimer needs a unit (weeks … seconds) and a whole delta"
        )
    for name, value in parameters.items():
        if name != "timezone" and not _fits(name, value):
            low, high = _RANGES[name]
            return f"{name} is {value!r}; it takes *, */2, a number from {low} to {high}, ranges and lists of them"
    return None


def cron_line(parameters: Mapping[str, Any]) -> str | None:
    """Minute, hour, day, month and day of the week as a crontab has them; None when a crontab cannot."""
    given = {
        name: str(value) for name, value in parameters.items() if value is not None and name != "timezone"
    }
    if given.get("year", "*") != "*" or given.get("week", "*") != "*" or given.get("second", "0") != "0":
        return None
    if "last" in given.values():
        return None
    # APScheduler: fields below the smallest given one have their lowest value, fields above it any value.
    order = ("second", "minute", "hour", "day_of_week", "day", "month")
    smallest = min((order.index(name) for name in given if name in order), default=0)
    lowest = {"minute": "0", "hour": "0", "day_of_week": "*", "day": "1", "month": "1"}
    fields = {name: given.get(name, "*" if order.index(name) > smallest else lowest[name]) for name in lowest}
    fields["day_of_week"] = _week(fields["day_of_week"])
    return " ".join(fields[name] for name in ("minute", "hour", "day", "month", "day_of_week"))


def _fits(name: str, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return False
    if name == "day" and str(value) == "last":
        return True
    return all(_part_fits(name, part.strip().lower()) for part in str(value).split(","))


def _part_fits(name: str, part: str) -> bool:
    match = _PART.fullmatch(part)
    if match is None or match[3] == "0":
        return False
    low, high = _RANGES[name]
    ends = [_number(name, end) for end in match.groups()[:2] if end is not None]
    if any(end is None or not low <= end <= high for end in ends):
        return False
    return len(ends) < 2 or ends[0] <= ends[1]  # type: ignore[operator]


def _number(name: str, text: str) -> int | None:
    names = _NAMES.get(name, ())
    if text in names:
        return names.index(text) + _RANGES[name][0]
    return int(text) if text.isdigit() else None


def _week(text: str) -> str:
    return re.sub(r"(?<![/0-9])[0-6](?![0-9])", lambda match: _WEEK[int(match[0])], text)
