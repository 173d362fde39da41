"""What a worker's process knows about the triggers: which of the types that it writes no trigger can want.

It reads the triggers in a thread: once at the start, and again when a transaction has found that they have changed
(:mod:`functory.engine.events.decided_events`). It keeps no trigger, only the types that each one could match.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from functory.engine import threads
from functory.engine.database.connection import Database, Tx
from functory.engine.errors import FunctoryError
from functory.engine.events.decided_events import KnownTriggers, UnwantedTypes
from functory.engine.executions.execution_events import WORKER_EVENT_TYPES
from functory.engine.firings import trigger_store
from functory.engine.flow_control.trigger_row import TriggerRow
from functory.triggers.definition import compile_definition
from functory.triggers.routing.trigger_set import indexed_patterns
from functory.triggers.wanted_types import wanted_types

log = structlog.get_logger("functory.worker")

# Shortest time between two reads, in seconds. Meanwhile events wait for a router, as all did before the first read.
REFRESH_SECONDS = 0.2


class WorkerTriggerKnowledge:
    """Keeps ``known`` up to date for the writers of events. Safe to use from many threads.

    ``monotonic`` is the clock of its pauses, in seconds.
    """

    def __init__(self, database: Database, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self.known = KnownTriggers()
        self._version = -1
        # The types that a trigger could match, by its id; without those that match none.
        self._wanted: dict[str, frozenset[str]] = {}
        self._refreshing = threading.Lock()
        self._refreshed_at = -REFRESH_SECONDS

    def refresh_if_stale(self) -> None:
        """Read what has changed in a thread, unless that is being done or was done just now."""
        if (
            not self.known.is_stale
            or self._monotonic() - self._refreshed_at < REFRESH_SECONDS
            or not self._refreshing.acquire(blocking=False)
        ):
            return
        if threads.try_start(self._run, "functory-trigger-types") is None:
            self._refreshing.release()

    def _run(self) -> None:
        try:
            with self._database.read() as tx:
                self.refresh(tx)
        except FunctoryError as error:
            log.debug("triggers not read, events wait for a router", reason=error.why)
        except Exception:
            log.exception("triggers not read, events wait for a router")
        finally:
            self._refreshed_at = self._monotonic()
            self._refreshing.release()

    def refresh(self, tx: Tx) -> None:
        """Read the triggers that changed since the last time."""
        version = trigger_store.set_version(tx)
        if version != self._version:
            for row in trigger_store.changed_since(tx, self._version):
                wanted = self.wanted_by(row)
                if wanted:
                    self._wanted[row.id] = wanted
                else:
                    self._wanted.pop(row.id, None)
            self._version = version
            unwanted = WORKER_EVENT_TYPES.difference(*self._wanted.values())
            self.known.unwanted = UnwantedTypes(version, unwanted)
        # A change that a writer has found since is found again by the next one.
        self.known.is_stale = False

    def wanted_by(self, row: TriggerRow) -> frozenset[str]:
        """Return the types of a worker's events that a trigger (its row) could match."""
        if row.state == "deleted":
            return frozenset()
        try:
            patterns = indexed_patterns(compile_definition(row))
        except Exception:
            # The router reports it. Whatever it may want waits for the router.
            return WORKER_EVENT_TYPES
        return wanted_types((one.pattern for one in patterns), WORKER_EVENT_TYPES)
