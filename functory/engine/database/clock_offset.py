"""Keeps the engine's time from going back when the clock of the database server does.

Every due time, lease and timestamp is the engine's time. It is the server's clock plus an offset, which is zero until
that clock is set back. Then the offset takes the size of the jump, so that the engine's time goes on: what was due in
five seconds is still due in five seconds, ids keep growing, and no lease lives for an hour more. The offset shrinks by
half a second in each second, until the engine's time is the server's again. A jump forward uses up what is left of the
offset, and is followed at once beyond that.

The offset is one row, so that all processes agree, and those that start later. The decisions are pure functions;
:class:`StoredOffset` reads and writes the row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
import structlog
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from functory.engine.database.schema.operations import clock

log = structlog.get_logger("functory.database")

# Seconds of the offset that go away in each second of the server's clock.
CATCH_UP = 0.5
# A clock that goes back by less than this was measured inexactly, or follows another one (NTP): it is followed.
TOLERANCE = timedelta(seconds=1)
# How old the row may become (seconds): a process that starts after a jump knows the time before it this well.
REACHED_SECONDS = 10.0

_ROW = "engine"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Offset:
    """The engine's time is ``ahead`` of the server's clock when that shows ``since``."""

    ahead: timedelta = timedelta(0)
    since: datetime = _EPOCH

    def at(self, server: datetime) -> timedelta:
        """Return what is left of the offset when the server's clock shows ``server``."""
        passed = max(timedelta(0), server - self.since)
        return max(timedelta(0), self.ahead - passed * CATCH_UP)


def corrected(
    server: datetime, offset: Offset, reached: datetime | None, expected: datetime | None
) -> Offset | None:
    """Return the offset with which the engine's time goes on from where it was; None when ``offset`` does that.

    ``server`` is the time that the server's clock shows. ``reached`` is an engine's time that is not after this
    instant, ``expected`` the one of this instant; each is None where it is not known.
    """
    left = offset.at(server)
    known = [time for time in (reached, expected) if time is not None]
    if known and max(known) - (server + left) > TOLERANCE:
        return Offset(max(known) - server, server)
    if expected is not None and left and server + left - expected > TOLERANCE:
        # Set forward, as a clock is that is put right again: the offset is no longer needed, or less of it.
        return Offset(max(timedelta(0), max(known) - server), server)
    return None


class StoredOffset:
    """The offset in the database; ``connect`` opens a connection of it. A look at the server's clock first calls
    :meth:`read`, on the connection that then asks for the time."""

    def __init__(self, connect: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._connect = connect
        self._stored = Offset()
        self._reached: datetime | None = None

    def __call__(self, server: datetime, expected: datetime | None) -> Offset:
        """Return the offset at a look at the server's clock, which shows ``server``.

        ``expected`` is the engine's time at that instant by this process's look before; None for its first look. Only
        later looks write the row: commands that end soon only read it.
        """
        stored, reached = self._stored, self._reached
        changed = corrected(server, stored, reached, expected)
        offset = changed or stored
        now = server + offset.at(server)
        due = reached is None or (now - reached).total_seconds() > REACHED_SECONDS
        if expected is not None and (changed is not None or due):
            self._write(now, offset)
            if changed is not None and changed.ahead > stored.at(server):
                log.warning(
                    "the clock of the database server was set back",
                    seconds=round((changed.ahead - stored.at(server)).total_seconds(), 1),
                    consequence=f"times continue, {changed.ahead.total_seconds():.0f} s ahead of it; "
                    "they come back to it at half speed",
                )
        return offset

    def read(self, connection: Connection) -> None:
        """Read the row, on a connection that begins no transaction."""
        self._reached = None
        # Before its migration the database has no such table, and a server that goes away says so elsewhere.
        with contextlib.suppress(DBAPIError):
            row = connection.execute(_READ).first()
            self._stored, self._reached = Offset(), None
            if row is not None:
                self._stored = Offset(timedelta(microseconds=row.ahead), row.since)
                self._reached = row.reached_at

    def _write(self, reached: datetime, offset: Offset) -> None:
        # A database that takes no writes now gets the row later. Without the last row the time before a jump is known
        # less exactly.
        with contextlib.suppress(DBAPIError), self._connect() as connection:
            # A look at the clock waits for nothing: for no other writer of the row, and for no standby.
            connection.execute(_AT_ONCE)
            ahead = offset.ahead // timedelta(microseconds=1)
            values = {"name": _ROW, "reached_at": reached, "ahead": ahead, "since": offset.since}
            changed = connection.execute(sa.update(clock).where(clock.c.name == _ROW).values(values))
            if not changed.rowcount:
                connection.execute(sa.insert(clock).values(values))
            connection.commit()


_AT_ONCE = sa.text(
    "SELECT set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '200ms', true),"
    " set_config('statement_timeout', '1s', true)"
)
_READ = sa.select(clock.c.reached_at, clock.c.ahead, clock.c.since).where(clock.c.name == _ROW)
