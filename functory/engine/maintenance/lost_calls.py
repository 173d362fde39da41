"""Lost calls: those of language models whose gateway is gone, and those that no gateway will send."""

from __future__ import annotations

import structlog

from functory.engine.agents import call_queue
from functory.engine.database.connection import Database
from functory.engine.executions.runs import answers
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.engine.telemetry import model_metrics

log = structlog.get_logger("functory.lost_calls")


class LostCalls(Service):
    """Ends calls that would be waited for in vain. Any number of processes may run one."""

    name, topic, poll_seconds = "lost-calls", None, 5.0

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def run_once(self) -> bool:
        """Run one round. True when there may be more."""
        with self._database.read() as tx:
            if not call_queue.any_open(tx):
                return False
        with self._database.write() as tx:
            lost = call_queue.end_lost(tx, self._settings)
            unclaimed = call_queue.end_unclaimed(tx)
            answers.after_calls(tx, [row["id"] for row in lost if row["fence"] is None])
        model_metrics.count_ended([*lost, *unclaimed])
        if lost:
            log.warning("answers of models are unknown: their gateway is gone", calls=len(lost))
        if unclaimed:
            log.warning("calls of models failed: no gateway runs", calls=len(unclaimed))
        return len(lost) + len(unclaimed) >= call_queue.PAGE
