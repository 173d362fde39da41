"""Finds time zones by their IANA names; an error suggests similar names."""

from __future__ import annotations

import difflib
import re
from datetime import UTC, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

# Entries of the zone database that are no zones: one differs between machines, the other means "unknown".
_NO_ZONES = frozenset({"localtime", "Factory"})
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+/-]{0,63}")
_OFFSET = re.compile(r"(UTC|GMT)?[+-]\d{1,2}(:?\d\d)?")


@cache
def get_timezone(name: str) -> tzinfo:
    """The zone ``Area/City`` or ``UTC``. Raises ValueError with similar names."""
    if name in ("UTC", "Etc/UTC"):
        # Arithmetic with it is several times as fast, and cronsim knows it.
        return UTC
    if isinstance(name, str) and _NAME.fullmatch(name) and name not in _NO_ZONES:
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            pass
    raise ValueError(_why(name))


def _why(name: str) -> str:
    shown = repr(name)[:80]
    if not available_timezones():
        return f"{shown} cannot be looked up: this machine has no time zones; install the package tzdata"
    if isinstance(name, str) and _OFFSET.fullmatch(name):
        return f"{shown} is an offset, which knows no daylight saving; name a place, such as Europe/Berlin"
    close = _close(name) if isinstance(name, str) else []
    hint = (
        f"did you mean {', '.join(close)}?" if close else "for example UTC, Europe/Berlin, America/New_York"
    )
    return f"{shown} is no IANA time zone; {hint}"


def _close(name: str) -> list[str]:
    """At most three similar names."""
    known = {known.casefold(): known for known in sorted(available_timezones() - _NO_ZONES)}
    wanted = name.strip().replace(" ", "_").casefold()[:64]
    if wanted in known:
        return [known[wanted]]
    places = [known[key] for key in known if "/" in key and key.rsplit("/", 1)[1] == wanted]
    if places:
        return places[:3]
    return [known[key] for key in difflib.get_close_matches(wanted, known, n=3, cutoff=0.7)]
