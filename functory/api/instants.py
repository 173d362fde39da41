"""Times in query parameters: an instant, or how long ago it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Query

from functory.engine.database.clock import Clock
from functory.engine.errors import Invalid
from functory.engine.serialization import durations

Since = Annotated[
    str | None, Query(description="The earliest time: RFC 3339, or a duration ago such as 15m.")
]
Until = Annotated[str | None, Query(description="The time before which: RFC 3339, or a duration ago.")]


def instant(clock: Clock, text: str | None, what: str) -> datetime | None:
    """Return the time of a parameter; None without one. Raises :class:`Invalid`."""
    if text is None:
        return None
    try:
        # A plus sign that was not escaped arrives as a space.
        at = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        at = None
    if at is not None:
        if at.tzinfo is None:
            raise Invalid(f"wrong {what} {text[:40]!r}", "the time has no zone", f"{text[:40]}Z for UTC")
        return _within(at.astimezone(UTC), what)
    try:
        return _within(clock.now() - timedelta(seconds=durations.parse(text, what)), what)
    except (Invalid, OverflowError):
        raise Invalid(
            f"wrong {what} {text[:40]!r}",
            "it is neither a time nor a duration",
            f"{what}=15m, or {what}=2026-01-31T08:00:00Z",
        ) from None


def _within(at: datetime, what: str) -> datetime:
    if at.year < 1970:
        raise Invalid(f"wrong {what}", "it is before 1970")
    return at
