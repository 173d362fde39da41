"""Runs backtests in the background: one at a time in a process, with progress, until it is done or cancelled."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any

from functory.engine.database.connection import Database
from functory.engine.errors import FunctoryError, Unavailable
from functory.engine.events.store import Events
from functory.engine.firings.backtest_jobs import BacktestJobs
from functory.engine.firings.trigger_store import Triggers
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.triggers.trigger_history import TriggerHistory

# Between two looks whether it was cancelled, in seconds.
PROGRESS_SECONDS = 1.0
# The newest part of the time comes first, so that there is a result soon.
PARTIAL = 20
# A backtest over months of events takes hours.
STALL_SECONDS = 24 * 3600.0


class _Stopped(Exception):
    """The backtest was cancelled, or another process has taken it."""


class BacktestRunner(Service):
    """Runs the oldest backtest that no other process works on. Any number of processes may run one."""

    name, topic, poll_seconds = "backtests", "backtests", 10.0
    stall_seconds = STALL_SECONDS

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._jobs = BacktestJobs(database)
        self._history = TriggerHistory(
            database, Events(database, settings.max_event_bytes), Triggers(database), settings
        )

    def run_once(self) -> bool:
        """Run one backtest to its end. True when there was one. Raises :class:`Unavailable`."""
        row = self._jobs.claim()
        if row is None:
            return False
        try:
            self._run(row)
        except _Stopped:
            pass
        except Unavailable:
            raise
        except FunctoryError as error:
            self._jobs.finish(row, problem=error.reason)
        return True

    def _run(self, row: dict[str, Any]) -> None:
        now = self._database.clock.now()
        progress = _Progress(self._jobs, row)
        total = self._history.count_events(row["trigger"], row["draft"], since=row["since"])
        progress.store(total=total)
        recent = now - max((now - row["since"]) / PARTIAL, timedelta(minutes=1))
        if recent > row["since"]:
            partial = {"since": recent.isoformat(), "result": self._backtest(row, recent, progress)}
            progress.store(done=0, partial=partial)
        self._jobs.finish(row, result=self._backtest(row, row["since"], progress))

    def _backtest(self, row: dict[str, Any], since: datetime, progress: _Progress) -> dict[str, Any]:
        found = self._history.backtest(row["trigger"], row["draft"], since=since, progress=progress.report)
        return found.as_json()


class _Progress:
    """Stores the number of events that are done, now and then, and notices a cancellation."""

    def __init__(self, jobs: BacktestJobs, row: dict[str, Any]) -> None:
        self._jobs = jobs
        self._row = row
        self._stored_at = time.monotonic()

    def report(self, done: int) -> None:
        """Take the number of events that are done."""
        if time.monotonic() - self._stored_at >= PROGRESS_SECONDS:
            self.store(done=done)

    def store(self, **values: Any) -> None:
        """Store values of the row. Raises :class:`_Stopped`."""
        if not self._jobs.advance(self._row, **values):
            raise _Stopped
        self._stored_at = time.monotonic()
