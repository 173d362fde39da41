"""The clock of PostgreSQL's server, as this process sees it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

# An answer that took longer than this (seconds) is measured again, this many times at most. The clock of a process is
# wrong by half of it, so ids of two processes that are further apart have the order of their times.
CLOCK_SECONDS = 0.01
CLOCK_TRIES = 5


def measure_server_time(
    connect: Callable[[], Connection], before: Callable[[Connection], None]
) -> tuple[float, datetime]:
    """Return one instant twice: by the local monotonic clock and by the server's clock.

    The connection is opened before, and ``before`` runs a statement on it, so that neither a connect nor a server
    process that was idle adds an error. The error is at most half of the round trip, so slow answers are measured
    again: a clock that is seconds ahead makes the reaper take live leases for lost.
    """
    with connect() as opened:
        # Each statement by itself: BEGIN must not be measured along.
        connection = opened.execution_options(isolation_level="AUTOCOMMIT")
        before(connection)
        best: tuple[float, float, datetime] | None = None
        for _ in range(CLOCK_TRIES):
            asked = time.monotonic()
            server = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
            took = time.monotonic() - asked
            if best is None or took < best[0]:
                best = took, asked + took / 2, server.astimezone(UTC)
            if took <= CLOCK_SECONDS:
                break
        assert best is not None
        return best[1:]
