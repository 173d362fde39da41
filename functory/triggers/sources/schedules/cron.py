"""Cron expressions: aliases, error messages, and the times at which they are due in a time zone.

Five fields (minute, hour, day of month, month, day of week) have Debian's semantics: a job at fixed times of
the day runs once a day; one with a star in its minutes or hours follows real time. Six fields (seconds first) always
follow real time. What that means while clocks are put forward or back: :mod:`.daylight_saving`.

The fields are read by cronsim. Its own search for times is not used: it loses or doubles times near the gaps of some
zones (a gap at midnight, a gap of half an hour).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

from cronsim import CronSim, CronSimError
from cronsim.cronsim import RANGES, Field

from functory.triggers.sources.schedules import daylight_saving

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

MAX_LENGTH = 200

_FIELDS = ("minute", "hour", "day of month", "month", "day of week")
_NAMES = ("second", *_FIELDS)
_ENDS = {"month": ("JAN", "DEC"), "day of week": ("SUN", "SAT")}
_UNITS = {"second": "s", "minute": "m", "hour": "h", "day of month": "d", "day of week": "d"}
# Where a search for the first time begins when an expression is checked: any time would do.
_SOMETIME = datetime(2026, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_RANGE_OF_ONE = re.compile(r"(?<![^,\s])(\w+)-\1/0*[1-9]\d*(?![^,\s])")
_BAD = re.compile(r"Bad ([a-z-]+)")


def normalize(text: str) -> str:
    """The expression without its alias and with single blanks. Raises ValueError that says what is wrong."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(
            "the expression is empty; write five fields, such as '30 2 * * *' for half past two each day"
        )
    # Crontabs separate fields with tabs, too.
    given = text.replace("\t", " ").strip()
    if len(given) > MAX_LENGTH or not given.isascii() or not given.isprintable():
        raise ValueError(
            f"the expression must have at most {MAX_LENGTH} ASCII characters on one line: "
            "letters, digits and * , - / # @"
        )
    if given.startswith("@"):
        return _alias(given)
    fields = given.split()
    _refuse_foreign(fields)
    try:
        if next(times(given, _SOMETIME, UTC), None) is None:
            raise ValueError(_never(given))
    except (CronSimError, AssertionError, ValueError) as error:
        raise ValueError(_reason(fields, str(error))) from None
    return " ".join(fields)


def check_steps(text: str) -> None:
    """Raise ValueError for a step that is larger than its range: ``*/90`` of the minutes would be due once an hour.

    ``text`` is as :func:`normalize` returns it. It is checked when a schedule is saved: what was stored before goes on.
    """
    fields = text.upper().split()
    for number, field in enumerate(fields, 6 - len(fields)):
        name = _NAMES[number]
        for term in field.split(","):
            whole, slash, step = term.partition("/")
            if slash and whole in ("L", "LW"):
                raise ValueError(f"the {name} field {term!r} is wrong: {whole} is one day, and has no step")
            first, dash, last = whole.partition("-")
            # Sunday has two numbers, and a week has seven days.
            count = 7 if name == "day of week" else len(RANGES[number])
            if dash:
                count = Field(number).int(last) - Field(number).int(first) + 1
            if slash and int(step) > count:
                raise ValueError(
                    f"the step of the {name} field {term!r} is larger than its range of {count}: it would be due once "
                    f"in each range, and not each {step}; {_instead(name, int(step))}"
                )


def times(text: str, after: datetime, zone: tzinfo) -> Iterator[datetime]:
    """The times in UTC later than ``after``, in order. They end when no time follows within 50 years."""
    fields = _read(text)
    minutes = sorted(fields.minutes)
    seconds = [timedelta(seconds=second) for second in sorted(fields.seconds)]
    instants = (
        daylight_saving.once_a_day if _is_at_fixed_times(fields.parts, text) else daylight_saving.in_real_time
    )
    last = after
    for minute in instants(_hours(fields, daylight_saving.first_wall_time(after, zone)), minutes, zone):
        for second in seconds:
            at = minute + second
            if at > last:
                last = at
                yield at


def _read(text: str) -> CronSim:
    """The fields as sets of numbers. Raises what cronsim raises."""
    # cronsim takes 9-9/2 for 9/2: a range of one number would end with its field.
    return CronSim(_RANGE_OF_ONE.sub(r"\g<1>", text.upper()), _SOMETIME)


def _is_at_fixed_times(parts: list[str], text: str) -> bool:
    return len(text.split()) == 5 and not parts[1].startswith("*") and not parts[2].startswith("*")


def _hours(fields: CronSim, start: datetime) -> Iterator[datetime]:
    """The hours of the wall clock in which the expression has times, from the hour of ``start`` on."""
    hours = sorted(fields.hours)
    first = start.replace(minute=0, second=0, microsecond=0)
    day = first.replace(hour=0)
    found = day.year
    while day.year <= min(found + 50, datetime.max.year - 1):
        if day.month not in fields.months:
            day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
            continue
        if fields.match_day(day.date()):
            found = day.year
            yield from (at for hour in hours if (at := day.replace(hour=hour)) >= first)
        day += _DAY


def _alias(given: str) -> str:
    known = ALIASES.get(given.lower())
    if known is not None:
        return known
    if given.lower() == "@reboot":
        raise ValueError(
            "@reboot is not supported: a schedule does not know when a machine starts; "
            "emit an event when it starts, and write a trigger for that event"
        )
    raise ValueError(f"there is no alias {given}; the aliases are {', '.join(sorted(ALIASES))}")


def _refuse_foreign(fields: list[str]) -> None:
    """Refuse the syntax of other cron programs; the error names the alternative."""
    if re.fullmatch(r"(CRON_)?TZ=.*", fields[0], re.IGNORECASE):
        raise ValueError("an expression has no time zone; set timezone instead")
    if any("H" in field.upper().replace("THU", "") for field in fields):
        raise ValueError("H (Jenkins' hash) is not supported; name a time, and spread the load with jitter")
    if "?" in "".join(fields):
        raise ValueError("? (of Quartz) is not supported; write *")
    if len(fields) not in (5, 6):
        raise ValueError(
            f"the expression has {len(fields)} fields; there must be five"
            " (minute hour day month weekday), or six with seconds first"
        )


def _reason(fields: list[str], said: str) -> str:
    found = _BAD.fullmatch(said)
    if found is None:
        return said or "it cannot be read"
    name = found[1].replace("-", " ")
    names = _FIELDS if len(fields) == 5 else _NAMES
    field = fields[names.index(name)] if name in names else ""
    if name == "day of month" and re.fullmatch(r"[\d,*/-]+", field) and _is_real_day(field):
        return _never(" ".join(fields))
    hint = _falling_range(name, field) or _HINTS.get(name, "")
    return f"the {name} field {field!r} is wrong; {hint}".rstrip("; ")


def _falling_range(name: str, field: str) -> str:
    """Return how to write a range that begins behind its end; empty without one."""
    number = _NAMES.index(name) if name in _NAMES else -1
    for term in field.upper().split(","):
        first, dash, last = term.partition("/")[0].partition("-")
        try:
            falls = number >= 0 and dash and Field(number).int(first) > Field(number).int(last)
        except CronSimError:
            continue
        if falls:
            least, most = str(RANGES[number][0]), str(RANGES[number][-1])
            least, most = _ENDS.get(name, (least, most)) if first.isalpha() else (least, most)
            return f"a range must rise: write {_range(first, most)},{_range(least, last)} for {first}-{last}"
    return ""


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first}-{last}"


def _instead(name: str, step: int) -> str:
    unit = _UNITS.get(name)
    return (
        f"use every {step}{unit} instead (--every {step}{unit})"
        if unit
        else "write the months that are meant"
    )


_HINTS = {
    "second": "0 to 59",
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day of month": "1 to 31, L for the last day, LW for the last working day",
    "month": "1 to 12, or JAN to DEC",
    "day of week": "0 to 7 (both ends are Sunday), SUN to SAT, MON#1 for the first Monday, 5L for the last Friday",
}


def _is_real_day(field: str) -> bool:
    """True if the field alone is valid: then the given months do not have the day."""
    try:
        CronSim(f"0 0 {field} * *", _SOMETIME)
    except (CronSimError, AssertionError, ValueError):
        return False
    return True


def _never(text: str) -> str:
    return f"{text!r} never happens: no such day is in these months"
