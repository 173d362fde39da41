"""The ticker: writes the events of due schedules. Any number of tickers may run; each tick is written once.

A round reads the first due time, which is one entry of an index. When it has come, one transaction locks due schedules
(others skip them), decides with :func:`functory.triggers.sources.schedules.misfire.decide_ticks`, and writes ticks and
next times. A ticker that is killed has written all of it or nothing, and another one goes on.

When the clock is put back, no tick is written twice: the next times do not change. When it is put forward, the times
in between are treated as missed in a downtime, by the schedules' catch-up policy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog

from functory.engine.database.connection import Database
from functory.engine.database.transaction import Tx
from functory.engine.errors import FunctoryError, Unavailable
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.engine.sources import schedules
from functory.engine.telemetry import metrics
from functory.triggers.sources.registry import find_plugin, parse_config
from functory.triggers.sources.schedules import MISFIRE_GRACE, ScheduleConfig, decide_ticks, make_tick

log = structlog.get_logger("functory.ticker")

# Schedules and times of one transaction. Other tickers take other schedules meanwhile.
MAX_SCHEDULES = 500
MAX_TICKS = 2000

# Configurations that are kept ready.
CONFIG_CACHE_SIZE = 20_000

# Seconds between two searches for failures that pause a schedule (also done right before each tick).
FAILURE_CHECK_SECONDS = 1.0
# A failure's time is its transaction's beginning: it may become visible this much later.
VISIBILITY_SLACK = timedelta(seconds=15)

# The pause when other tickers hold the due schedules.
BLOCKED_RETRY_SECONDS = 0.05


@dataclass
class _Done:
    """The decisions of one transaction."""

    rounds: list[schedules.ScheduleDecision] = field(default_factory=list)
    results: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    lags: list[float] = field(default_factory=list)
    problems: dict[str, str | None] = field(default_factory=dict)
    more: bool = False


class Ticker(Service):
    """Writes the events of schedules that are due."""

    name, topic = "ticker", "sources"

    def __init__(self, database: Database, settings: Settings) -> None:
        self.poll_seconds = settings.poll_seconds
        self._database = database
        self._settings = settings
        self._configs: dict[str, tuple[int, ScheduleConfig]] = {}
        self._next: datetime | None = None
        self._blocked = False
        self._failures_seen_until: datetime | None = None
        self._next_failure_check = 0.0

    def run_once(self) -> bool:
        """Run one round. True when more may be due at once. Raises :class:`Unavailable`."""
        self._blocked = False
        with self._database.read() as tx:
            self._next, watched_from = schedules.next_due_and_watched(tx)
            is_due = self._next is not None and self._next <= tx.now
        if is_due or self._database.clock.monotonic() >= self._next_failure_check:
            self._pause_failed(watched_from)
        if not is_due:
            return False
        done = self._write()
        self._blocked = not done.rounds and not done.problems
        for result, count in done.results.items():
            metrics.schedule_ticks.labels(result).inc(count)
        for reason, count in done.missed.items():
            metrics.schedule_missed.labels(reason).inc(count)
        for seconds in done.lags:
            metrics.schedule_lag.observe(seconds)
        if done.problems:
            with self._database.write() as tx:
                schedules.set_problems(tx, done.problems)
        if not done.more and not self._blocked:
            with self._database.read() as tx:
                self._next = schedules.next_due(tx)
        return done.more

    def next_due(self) -> float | None:
        """Seconds until the next tick; None without any."""
        if self._next is None:
            return None
        left = (self._next - self._database.clock.now()).total_seconds()
        return max(BLOCKED_RETRY_SECONDS if self._blocked else 0.0, left)

    def _write(self) -> _Done:
        done = _Done()
        with metrics.transaction("tick"), self._database.write() as tx:
            rows = schedules.lock_due(tx, MAX_SCHEDULES)
            room = MAX_TICKS
            for row in rows:
                try:
                    room -= self._decide(tx, row, max(1, room), done)
                except Unavailable:
                    raise
                except FunctoryError as error:
                    # A schedule that cannot be read must not stop the others.
                    log.warning("schedule cannot be read", schedule=row["name"], why=str(error))
                    schedules.postpone(tx, row)
                    done.problems[row["source_id"]] = str(error)
            new = schedules.write_decisions(tx, done.rounds)
            done.more = done.more or len(rows) == MAX_SCHEDULES
        for one in done.rounds:
            for tick in one.ticks:
                if (one.row["source_id"], tick.time) in new:
                    late = tick.data["late_seconds"]
                    done.results["late" if late > MISFIRE_GRACE.total_seconds() else "fired"] += 1
                    done.lags.append(late)
        return done

    def _decide(self, tx: Tx, row: Mapping[str, Any], limit: int, done: _Done) -> int:
        """Decide about one due schedule. Return the number of decided times."""
        config = self._config(row)
        plan = decide_ticks(
            config.calendar,
            row["source_id"],
            row["fire_at"],
            tx.now,
            catch_up=config.catch_up,
            window=config.window,
            limit=limit,
        )
        ticks = [make_tick(row["name"], config, one.time, tx.now, late=one.late) for one in plan.ticks]
        missed = sum(plan.missed.values())
        done.rounds.append(
            schedules.ScheduleDecision(row, ticks, plan.next_time, plan.next_due, plan.last, missed)
        )
        done.missed.update(plan.missed)
        if plan.next_due is not None and plan.next_due <= tx.now:
            done.more = True
        if row["problem"] is not None:
            done.problems[row["source_id"]] = None
        return len(ticks) + missed

    def _config(self, row: Mapping[str, Any]) -> ScheduleConfig:
        version, config = self._configs.get(row["source_id"], (0, None))
        if config is None or version != row["version"]:
            config = parse_config(find_plugin("schedule"), row["config"])
            if len(self._configs) >= CONFIG_CACHE_SIZE:
                self._configs.clear()
            self._configs[row["source_id"]] = row["version"], config
        return config

    def _pause_failed(self, least: datetime | None) -> None:
        """Pause schedules with ``pause_on_failure`` whose execution has failed for good after ``least``."""
        self._next_failure_check = self._database.clock.monotonic() + FAILURE_CHECK_SECONDS
        if least is None:
            self._failures_seen_until = None
            return
        with self._database.read() as tx:
            # After a clock was put back, the failures seen before prove nothing.
            seen = (
                self._failures_seen_until
                if self._failures_seen_until is not None and self._failures_seen_until <= tx.now
                else least
            )
            failed = schedules.failures(tx, max(least, seen))
            seen = tx.now - VISIBILITY_SLACK
        for row in failed:
            how = row["how"].removeprefix("execution.").replace("_", " ")
            note = f"execution {row['execution_id']} of {row['function']} {how}"
            with self._database.write() as tx:
                if schedules.pause_failed(tx, row["id"], note):
                    log.warning("schedule paused", schedule=row["name"], why=note)
        self._failures_seen_until = seen
