"""The circuit breaker of sources: it pauses one that writes more events than its rate, of whatever kind it is.

A loop that leaves the engine and comes back through a source without its lineage, with other content each time, looks
like a busy source. Its rate is all that is left to count. Nothing is counted for that: the numbers are those of the
tallies, by minute, which are about a minute old. So an event costs nothing, and the pause is not exact.

A pause by the breaker loses nothing: messages and files stay where they are, and webhooks refuse requests for a while.
It ends by itself after a time, and the source is then counted anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database import counters
from functory.engine.database.schema import source, tally
from functory.engine.database.transaction import Tx
from functory.engine.serialization import durations
from functory.engine.sources import store as source_store
from functory.engine.sources.store import Hook
from functory.engine.tallies import tallier
from functory.engine.tallies.count import source_key
from functory.engine.tallies.rows import MINUTE

# The rate is an average over this time: a backlog may come as fast as it is read, and a loop is found while it runs.
WINDOW = timedelta(minutes=10)
# Longer than the alert on paused sources waits (FunctorySourceProblem).
COOL_DOWN = timedelta(minutes=10)
AUTHOR = "functory"

_COUNTED = (
    sa.select(tally.c.name, tally.c.begins_at, tally.c["count"])
    .where(
        tally.c.kind == "source",
        tally.c.interval_seconds == int(MINUTE.total_seconds()),
        tally.c.begins_at >= sa.bindparam("since", type_=tally.c.begins_at.type),
    )
    .order_by(tally.c.name)
)  # fmt: skip


@dataclass(frozen=True)
class BusySource:
    """A source, by its id, and the events that it wrote within the window since it was last saved or resumed."""

    source_id: str
    kind: str
    name: str
    config: Mapping[str, Any]
    events: int


def most_events(per_minute: int) -> int:
    """Return the events of a window that a rate allows."""
    return per_minute * int(WINDOW / MINUTE)


def busy(tx: Tx) -> list[BusySource]:
    """Return the enabled sources that have written events within the window, by kind and name."""
    counted_until = tallier.read_cursor(tx)
    if counted_until is None:
        return []
    counted: dict[str, list[tuple[datetime, int]]] = {}
    for row in tx.rows(_COUNTED, {"since": tallier.to_time(counted_until) - WINDOW}):
        counted.setdefault(row["name"], []).append((row["begins_at"], row["count"]))
    if not counted:
        return []
    enabled = sa.select(source).where(source.c.state == "enabled").order_by(source.c.kind, source.c.name)
    found = []
    for row in tx.rows(enabled):
        minutes = counted.get(source_key(row["kind"], row["name"]), [])
        events = sum(number for begins_at, number in minutes if begins_at >= row["updated_at"])
        if events:
            found.append(BusySource(row["id"], row["kind"], row["name"], row["config"], events))
    return found


def pause(tx: Tx, one: BusySource, per_minute: int, hook: Hook | None) -> str | None:
    """enabled → paused, until the cool-down is over. Returns the reason; None when the source is not enabled any more,
    or was saved meanwhile.
    """
    # First, as in every change of a source: of two schedulers, the second finds it paused.
    counters.bump(tx, counters.SOURCES)
    row = tx.first(sa.select(source).where(source.c.id == one.source_id, source.c.state == "enabled"))
    if row is None or row["config"] != one.config:
        return None
    until = tx.now + COOL_DOWN
    why = reason(one.events, per_minute, until)
    source_store.change_state(tx, row, "paused", "source.paused", why, AUTHOR, hook, until)
    return why


def reason(events: int, per_minute: int, until: datetime) -> str:
    """Return why a source is paused, until when, and what lifts it."""
    window = durations.format_duration(WINDOW.total_seconds())
    return (
        f"its breaker has paused it: {events:,} events in {window}, more than {per_minute:,} a minute. It goes on at "
        f"{until:%H:%M:%S} UTC. If it is right, set max_per_minute in its configuration (0: no limit), then resume it"
    )


def cooled_down(tx: Tx) -> list[dict[str, Any]]:
    """Return the rows of the sources whose cool-down is over."""
    return tx.rows(sa.select(source).where(is_open(), source.c.paused_until <= tx.now).order_by(source.c.id))


def resume(tx: Tx, source_id: str, hook: Hook | None) -> bool:
    """paused → enabled after the cool-down; False when another process or a person was first."""
    counters.bump(tx, counters.SOURCES)
    due = sa.select(source).where(source.c.id == source_id, is_open(), source.c.paused_until <= tx.now)
    row = tx.first(due)
    if row is None:
        return False
    source_store.change_state(tx, row, "enabled", "source.resumed", author=AUTHOR, hook=hook)
    return True


def is_open() -> sa.ColumnElement[bool]:
    """Return the condition for a source that its breaker has paused."""
    return sa.and_(source.c.state == "paused", source.c.paused_until.is_not(None))
