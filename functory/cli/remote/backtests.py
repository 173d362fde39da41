"""Backtests of a server: made as jobs, and followed to their end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functory.engine.errors import Conflict, FunctoryError
from functory.remote.client import RemoteFunctory
from functory.remote.handle import pauses_without_end

_OPEN = ("waiting", "running")


@dataclass(frozen=True)
class Result:
    """As :class:`functory.triggers.analysis.backtest.Comparison`."""

    values: Mapping[str, Any]

    def as_json(self) -> Mapping[str, Any]:
        """The result as the server sent it."""
        return self.values


def run(
    server: RemoteFunctory,
    name: str,
    draft: Mapping[str, Any] | None,
    *,
    since: datetime,
    progress: Callable[[int, int | None], None] | None = None,
) -> Result:
    """Make a backtest and wait for its end; when the wait is broken off, it is cancelled. Raises :class:`Conflict` for
    one that somebody cancelled.
    """
    job = server.backtests.create(trigger=name, draft=draft, since=since.isoformat())
    try:
        pauses = pauses_without_end()
        while job.state in _OPEN:
            time.sleep(next(pauses))
            job = server.backtests.get(job.id)
            if progress is not None:
                progress(job.done, job.total)
    except KeyboardInterrupt:
        server.backtests.cancel(job.id)
        raise
    if job.state == "cancelled":
        raise Conflict(f"the backtest of {name} was cancelled", f"backtest {job.id}", "begin it again")
    if job.result is None:
        problem = job.problem if isinstance(job.problem, str) else "the reason is hidden"
        raise FunctoryError(f"the backtest of {name} has failed", problem)
    return Result(job.result)
