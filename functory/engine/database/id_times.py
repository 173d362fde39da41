"""The time in an id: a UUID of version 7 begins with the milliseconds of its making (RFC 9562). Pure."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The latest datetime, as the milliseconds of a UUIDv7.
_LATEST = 253_402_300_799_000


def time_of_id(id_: str) -> datetime:
    """Return the time in a UUIDv7, in milliseconds."""
    milliseconds = min(int(id_.replace("-", "")[:12], 16), _LATEST)
    return _EPOCH + timedelta(milliseconds=milliseconds)


def lowest_id(at: datetime) -> str:
    """Return the lowest UUIDv7 of a time: every id made before it, by the same clock, is lower."""
    # No id has a time before 1970. A clock that was never set begins there, and looks back from there.
    milliseconds = max(0, (at - _EPOCH) // timedelta(milliseconds=1))
    return str(uuid.UUID(int=(milliseconds << 80) | (7 << 76) | (2 << 62)))
