"""Frames of the stream as bytes (HTML standard, server-sent events), and the cursor that each carries as its id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

# Milliseconds after which a browser connects again.
RETRY_MILLISECONDS = 1000
# A cursor of this age or older is not continued.
RESUMED_SECONDS = 600.0

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def cursor(time: datetime) -> str:
    """Return the cursor of a time: what was committed before it has been sent."""
    return str((time - _EPOCH) // timedelta(milliseconds=1))


def time_of(text: str, now: datetime) -> datetime | None:
    """Return the time of a cursor; None for one that is too old, or that this server did not make."""
    if not text.isascii() or not text.isdecimal() or len(text) > 14:
        return None
    time = _EPOCH + timedelta(milliseconds=int(text))
    age = (now - time).total_seconds()
    # Servers measure the time of the database each by itself: another one may be a little ahead.
    return time if -5.0 <= age <= RESUMED_SECONDS else None


def frame(event: str, data: Mapping[str, Any], at: str = "") -> bytes:
    """Return one frame. ``at`` is its cursor."""
    return b"".join(
        (
            b"id: %s\n" % at.encode() if at else b"",
            b"event: %s\ndata: " % event.encode(),
            # JSON on one line: a line end inside of a text is escaped.
            orjson.dumps(data, default=str),
            b"\n\n",
        )
    )


def rows(topic: str, given: Sequence[Any], at: str) -> bytes:
    """Return a frame of rows that were added or have changed."""
    return frame("rows", {"topic": topic, "rows": given}, at)


def opening(at: str) -> bytes:
    """Return what a stream begins with."""
    return b"retry: %d\nid: %s\n: open\n\n" % (RETRY_MILLISECONDS, at.encode())


def comment(at: str) -> bytes:
    """Return what keeps an idle stream open, and moves its cursor."""
    return b"id: %s\n: still here\n\n" % at.encode()


BYE = frame("bye", {})
