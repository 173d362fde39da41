"""Parses cron expressions with cronsim; adds aliases and error messages.

Five fields (minute, hour, day of month, month, day of week) have Debian's semantics: a job at fixed times of
the day runs once a day, right after a gap of daylight saving and in the first of two equal hours; one with a star
in its minutes or hours follows real time. Six fields (seconds first) always follow real time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo

from cronsim import CronSim, CronSimError

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
# Where a search for the first time begins when an expression is checked: any time would do.
_SOMETIME = datetime(2026, 1, 1, tzinfo=UTC)
_BAD = re.compile(r"Bad ([a-z-]+)")


def normalize(text: str) -> str:
    """The expression without its alias and with single blanks. Raises ValueError that says what is wrong."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(
            "the expression is empty; write five fields, such as '30 2 * * *' for half past two each day"
        )
    if len(text) > MAX_LENGTH or not text.isascii() or not text.isprintable():
        raise ValueError(
            f"the expression must have at most {MAX_LENGTH} ASCII characters: letters, digits and * , - / # @"
        )
    given = text.strip()
    if given.startswith("@"):
        return _alias(given)
    fields = given.split()
    _refuse_foreign(fields)
    try:
        if next(CronSim(given, _SOMETIME), None) is None:
            raise ValueError(_never(given))
    except (CronSimError, AssertionError, ValueError) as error:
        raise ValueError(_reason(fields, str(error))) from None
    return " ".join(fields)


def times(text: str, after: datetime, zone: tzinfo) -> Iterator[datetime]:
    """The times in UTC later than ``after``, in order. They end when no time follows within 50 years."""
    last = after
    for found in CronSim(text, after.astimezone(zone)):
        at = found.astimezone(UTC)
        # A search that begins in the second of two equal hours would give times of the first again.
        if at > last:
            last = at
            yield at


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
    names = _FIELDS if len(fields) == 5 else ("second", *_FIELDS)
    field = fields[names.index(name)] if name in names else ""
    if name == "day of month" and re.fullmatch(r"[\d,*/-]+", field) and _is_real_day(field):
        return _never(" ".join(fields))
    return f"the {name} field {field!r} is wrong; {_HINTS.get(name, '')}".rstrip("; ")


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
