"""The gate of a worker process: a thread that runs the checks of proposals while a slot is free."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

import structlog

from functory.engine.database.connection import Database
from functory.engine.errors import Unavailable
from functory.engine.releases.checks import Checks, Work
from functory.engine.releases.proposals import Proposals
from functory.engine.settings import Settings
from functory.workers.environments import Environments
from functory.workers.gate.check_runs import CheckRuns
from functory.workers.sandbox.runner import Runner

log = structlog.get_logger("functory.gate")

# Without a signal it looks this often.
POLL_SECONDS = 10.0


class Slots(Protocol):
    """The slots of a worker process."""

    def acquire(self, cancelled: threading.Event) -> bool:
        """Wait for a free slot and take it. False when ``cancelled`` is set first."""
        ...

    def release(self) -> None:
        """Release a slot."""
        ...


class Gate:
    """Takes checks, runs them, stores their ends. ``slots`` are those of the worker's executions."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        runner: Runner,
        environments: Environments,
        proposals: Proposals,
        slots: Slots,
        worker_id: str,
        new_id: Callable[[], str],
    ) -> None:
        self._database = database
        self._checks = Checks(database, worker_id, settings.lease_seconds)
        self._proposals = proposals
        self._runs = CheckRuns(runner, environments, new_id)
        self._slots = slots
        self._renew_seconds = settings.lease_seconds / 3
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="functory-gate", daemon=True)

    def start(self) -> None:
        """Begin to look for checks."""
        self._thread.start()

    def stop(self) -> None:
        """Take no further check; the one that runs ends after its test, and is taken again by another worker."""
        self._stopped.set()
        self._database.wakeup.signal(["gate"])

    def join(self, timeout: float) -> None:
        """Wait for its end, at most ``timeout`` seconds."""
        if self._thread.is_alive():
            self._thread.join(timeout)

    def run_once(self) -> bool:
        """Run the next check. False when there is none, or no slot before the worker ends."""
        if not self._checks.is_any_open() or not self._slots.acquire(self._stopped):
            return False
        try:
            work = self._checks.claim()
            if work is None:
                return False
            self._run(work)
        finally:
            self._slots.release()
        return True

    def _run(self, work: Work) -> None:
        began = renewed = time.monotonic()

        def keep() -> None:
            nonlocal renewed
            if self._stopped.is_set():
                raise _NotNeeded
            if time.monotonic() - renewed > self._renew_seconds:
                if not self._checks.renew(work):
                    raise _NotNeeded
                renewed = time.monotonic()

        try:
            state, report = self._runs.run(work, keep)
        except _NotNeeded:
            return
        if self._checks.finish(work, state, report, time.monotonic() - began):
            self._proposals.settle(work.proposal["id"])

    def _loop(self) -> None:
        while True:
            # Read before the request to end is looked for: the signal of a later request is then newer.
            seen = self._database.wakeup.generation("gate")
            if self._stopped.is_set():
                break
            try:
                if self.run_once():
                    continue
            except Unavailable as error:
                log.warning("database unavailable, checks wait", reason=error.why)
            except Exception:
                # Its lease ends, and it is tried again; the thread must not end with it.
                log.exception("a check could not be run")
            self._database.wakeup.wait("gate", seen, POLL_SECONDS)


class _NotNeeded(Exception):
    """The worker ends, or another one has the check."""
