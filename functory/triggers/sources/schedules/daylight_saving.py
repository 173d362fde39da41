"""Which times a clock on the wall shows once, twice or never, because it is put forward or back.

A job at fixed times of the day runs once a day: right after a gap, and in the first of two equal hours
(:func:`once_a_day`). A job that follows real time runs whenever the clock shows its time (:func:`in_real_time`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

_NONE = timedelta()
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)


def first_wall_time(after: datetime, zone: tzinfo) -> datetime:
    """The earliest time that a clock on the wall shows after ``after``: clocks may be set back within the next day."""
    local = after.astimezone(zone)
    following = (after + _DAY).astimezone(zone)
    back = (local.utcoffset() or _NONE) - (following.utcoffset() or _NONE)
    return local.replace(tzinfo=None) - max(back, _NONE)


def once_a_day(hours: Iterator[datetime], minutes: list[int], zone: tzinfo) -> Iterator[datetime]:
    """The minutes in UTC: the first of two that the clock shows alike; for one in a gap, the end of the gap."""
    for hour in hours:
        for minute in minutes:
            wall = hour.replace(minute=minute)
            while not (shown := _shown(wall, zone)):
                wall += _MINUTE
            yield shown[0]


def in_real_time(hours: Iterator[datetime], minutes: list[int], zone: tzinfo) -> Iterator[datetime]:
    """All minutes in UTC at which the clock shows one of the times."""
    # The clock shows some minutes twice. The second time comes after later minutes that it showed before.
    again: list[datetime] = []
    for hour in hours:
        for minute in minutes:
            shown = _shown(hour.replace(minute=minute), zone)
            while again and shown and again[0] < shown[0]:
                yield again.pop(0)
            yield from shown[:1]
            again += shown[1:]
    yield from again


def _shown(wall: datetime, zone: tzinfo) -> list[datetime]:
    """When in UTC the zone's clock shows ``wall``: once, twice, or never."""
    found: list[datetime] = []
    for fold in (0, 1):
        at = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if at not in found and at.astimezone(zone).replace(tzinfo=None) == wall:
            found.append(at)
    return found
