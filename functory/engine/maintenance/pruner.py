"""The pruner: deletes old rows in small steps, and creates the coming weekly partitions.

It pauses as long after each step as the step took, so that other work has the database at least half of the time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import structlog

from functory.engine.database import partitions
from functory.engine.database.connection import Database
from functory.engine.maintenance import tree_deletion
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics

log = structlog.get_logger("functory.pruner")

# From the end of a pass to the next one. Rows are kept for days, so minutes do not matter.
PASS_INTERVAL_SECONDS = 300.0


class Pruner(Service):
    """Runs one step at a time; any number of pruners may run."""

    name, topic, poll_seconds = "pruner", None, PASS_INTERVAL_SECONDS

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._limits = tree_deletion.RetentionLimits(
            _days(settings.keep_days), _days(settings.keep_log_days), _days(settings.archive_days)
        )
        self._steps: Iterator[Counter[str]] | None = None
        self._rest: float | None = None
        self._gone: Counter[str] = Counter()

    def run_once(self) -> bool:
        """Run one step. Always False: the pruner rests between two steps. Raises :class:`Unavailable`."""
        self.prune()
        return False

    def prune(self) -> bool:
        """Run one step of a pass, or begin one. True while the pass goes on. Raises :class:`Unavailable`."""
        start = time.monotonic()
        steps, self._steps, self._rest = self._steps, None, None
        if steps is None:
            partitions.create_missing(self._database)
            steps = tree_deletion.prune(self._database, self._limits)
        with metrics.transaction("prune"):
            gone = next(steps, None)
        if gone is None:
            if self._gone:
                log.info("old rows deleted", rows=dict(self._gone))
            self._gone = Counter()
            return False
        for table, count in gone.items():
            metrics.pruned_rows.labels(table).inc(count)
        self._gone.update(gone)
        self._steps, self._rest = steps, time.monotonic() - start
        return True

    def next_due(self) -> float | None:
        """Return the seconds until the next step; None when a pass is over."""
        return self._rest


def _days(given: float | None) -> timedelta | None:
    return None if given is None else timedelta(days=given)
