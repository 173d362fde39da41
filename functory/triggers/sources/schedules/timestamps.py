"""Parses and formats timestamps: ISO 8601, with an offset or in the local time of a zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

# No schedule is meant beyond these years; within them arithmetic with zones is safe.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2500, 1, 1, tzinfo=UTC)

_TEXT = re.compile(r"(?a:\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?)")


def parse_timestamp(text: str, zone: tzinfo) -> datetime:
    """Return the time in UTC. Without an offset it is a time in ``zone``; a date alone is its first second.

    A time that happens twice means the first one. Raises ValueError for a time that the clocks skip when they are put
    forward, and for anything that is not a timestamp.
    """
    if not isinstance(text, str) or not _TEXT.fullmatch(text):
        raise ValueError(
            f"{str(text)[:40]!r} is not a timestamp; write 2026-12-24T18:00, or 2026-12-24T18:00:00+01:00"
        )
    try:
        read = datetime.fromisoformat(text)
        found = read.astimezone(UTC) if read.tzinfo is not None else _local(read, zone, len(text) == 10)
    except OverflowError:
        raise ValueError(f"{text} is out of range") from None
    if not EARLIEST <= found < LATEST:
        raise ValueError(f"{text} is out of range: from {EARLIEST:%Y} to {LATEST.year - 1} are taken")
    return found


def format_timestamp(time: datetime) -> str:
    """A UTC timestamp as it is stored and sent: ``2026-12-24T17:00:00Z``."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _local(read: datetime, zone: tzinfo, is_date: bool) -> datetime:
    placed = read.replace(tzinfo=zone)
    found = placed.astimezone(UTC)
    real = found.astimezone(zone)
    if real.replace(tzinfo=None) == read:
        return found
    if is_date:
        # Some zones put the clocks forward at midnight: the day begins at one.
        return found
    before = (found - timedelta(hours=3)).astimezone(zone).utcoffset()
    gap = (real.utcoffset() or timedelta()) - (before or timedelta())
    raise ValueError(
        f"{read.isoformat()} does not happen in {zone}: the clocks are put forward by {gap} over it; "
        f"perhaps meant is {real.replace(tzinfo=None).isoformat()}"
    )
