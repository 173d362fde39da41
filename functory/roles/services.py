"""Background services of each role, and all roles in one process.

- **router**: routes events, releases what flow control holds back, sends executions to workers, publishes events.
- **scheduler**: schedules, a dispatcher that stands by for the router's, the reaper, cancels of
  children, compensations, retention, the vacuum of queues, tallies, batches, backtests, canaries, embeddings and
  invariants.
- **watcher**: sources that listen: files, queues, plug-ins.
- **gateway**: sends requests to language models (:mod:`functory.workers.gateway`).
- **worker**: a Celery worker (:mod:`functory.workers.app`), or without a broker one that claims from the database
  (:mod:`functory.workers.processes.brokerless_worker`). It has no services.
- **server**: HTTP (:mod:`functory.api`). It has no services of its own.

Any number of processes may run each role: rows are claimed, so no process is a leader by configuration.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Literal

from functory.engine import thread_switches
from functory.engine.database.connection import Database
from functory.engine.database.wakeups import TOPICS
from functory.engine.errors import Unavailable
from functory.engine.executions import dispatch, worker_registry
from functory.engine.executions.batches import BatchRunner
from functory.engine.maintenance.canary_watch import CanaryWatch
from functory.engine.maintenance.canceller import Canceller
from functory.engine.maintenance.compensator import Compensator
from functory.engine.maintenance.embedder import Embedder
from functory.engine.maintenance.gate_upkeep import GateUpkeep
from functory.engine.maintenance.lost_calls import LostCalls
from functory.engine.maintenance.outbox_publisher import OutboxCleaner, OutboxPublisher
from functory.engine.maintenance.pruner import Pruner
from functory.engine.maintenance.question_expiry import QuestionExpiry
from functory.engine.maintenance.queue_vacuum import QueueVacuum
from functory.engine.maintenance.reaper import Reaper
from functory.engine.maintenance.receipt_expiry import ReceiptExpiry
from functory.engine.maintenance.verifier import Verifier
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.engine.tallies.tallier import Tallier
from functory.roles.backtest_runner import BacktestRunner
from functory.roles.gateway_child import GatewayChild
from functory.roles.service_loop import ServiceLoop, stop_loops
from functory.triggers.routing.release import Release
from functory.triggers.routing.router import Router
from functory.triggers.sources.breaker_watch import SourceBreakerWatch
from functory.triggers.sources.schedules.ticker import Ticker
from functory.triggers.sources.supervisor import SourceSupervisor
from functory.triggers.trigger_knowledge import WorkerTriggerKnowledge
from functory.workers.app import make_app
from functory.workers.execution.executor import Executor, worker_name
from functory.workers.gateway.gateway import Gateway
from functory.workers.processes.embedded_worker import EmbeddedWorker
from functory.workers.sandbox.runner import Runner
from functory.workers.sending.dispatcher import Dispatcher, StandbyDispatcher

# How long the services of this process have for their last round.
STOP_SECONDS = 10.0
# Between two looks whether the services rest.
REST_POLL_SECONDS = 0.002

Role = Literal["router", "scheduler", "watcher", "gateway"]
# Those that run in the process of an embedded engine. Its gateway is a child process: it alone has the keys of models.
EMBEDDED: tuple[Role, ...] = ("router", "scheduler", "watcher")

MakeService = Callable[[Database, Settings], Service]

SERVICES: dict[Role, tuple[MakeService, ...]] = {
    "router": (Router, Release, OutboxPublisher, Dispatcher),
    "scheduler": (
        Ticker,
        StandbyDispatcher,
        Reaper,
        Canceller,
        Compensator,
        ReceiptExpiry,
        Pruner,
        QueueVacuum,
        Tallier,
        SourceBreakerWatch,
        BatchRunner,
        BacktestRunner,
        Verifier,
        LostCalls,
        QuestionExpiry,
        CanaryWatch,
        GateUpkeep,
        Embedder,
    ),
    "watcher": (SourceSupervisor,),
    "gateway": (Gateway,),
}


def services(database: Database, settings: Settings, *roles: Role) -> list[Service]:
    """Make the services of ``roles``, each once."""
    found = dict.fromkeys(make for role in roles for make in SERVICES[role])
    if Dispatcher in found:
        found.pop(StandbyDispatcher, None)
    if settings.brokerless:
        # Workers claim from the database.
        found.pop(Dispatcher, None)
        found.pop(StandbyDispatcher, None)
    if not settings.publishes:
        # Events have no subscribers.
        found = dict.fromkeys(OutboxCleaner if make is OutboxPublisher else make for make in found)
    made = [make(database, settings) for make in found]
    router = next((one for one in made if isinstance(one, Router)), None)
    publisher = next((one for one in made if isinstance(one, OutboxPublisher)), None)
    if router is not None and publisher is not None:
        router.publish_with(publisher.batches)
    dispatcher = next((one for one in made if isinstance(one, Dispatcher)), None)
    if router is not None and dispatcher is not None:
        # One window, and a connection to the broker for each thread.
        router.send_with(dispatcher.new_sending())
    return made


class EmbeddedRoles:
    """All roles in this process: for ``functory dev``, ``functory run`` and plain scripts."""

    def __init__(self, database: Database, settings: Settings, runner: Runner) -> None:
        self._database = database
        self._settings = settings
        self._runner = runner
        self._loops: list[ServiceLoop] = []
        self._worker: EmbeddedWorker | None = None

    def start(self) -> None:
        """Start all services and the worker. Returns when the worker consumes."""
        thread_switches.shorten()
        self._database.listen_for_wakeups()
        app = make_app(self._settings)
        executor = Executor(
            self._database,
            self._settings,
            self._runner,
            f"{worker_registry.EMBEDDED}{worker_name()}",
            know_triggers=WorkerTriggerKnowledge,
        )
        app.executor = executor
        executor.start()
        # Messages that a killed process had on its in-memory broker are lost.
        dispatch.redispatch_now(self._database)
        self._worker = EmbeddedWorker(app, self._settings.worker_slots)
        self._worker.start()
        found = services(self._database, self._settings, *EMBEDDED)
        found.append(GatewayChild(self._database, self._settings))
        self._loops = [ServiceLoop(service, self._database.wakeup) for service in found]
        for loop in self._loops:
            loop.start()

    @property
    def health(self) -> dict[str, bool]:
        """Service by name: it runs, and its last round succeeded."""
        return {loop.service.name: loop.healthy for loop in self._loops}

    def rest(self, deadline: float) -> list[str]:
        """Let each service run a round now, and wait until it has nothing left to do, until ``deadline`` (monotonic
        seconds) at most. Returns the names of those that still work.

        The reaper is left out: from round to round it finds out whether the clock was set.
        """
        loops = [loop for loop in self._loops if not isinstance(loop.service, Reaper)]
        rested = {loop.service.name: loop.begin_round() for loop in loops}
        self._database.wakeup.signal(TOPICS)
        while open_ := [name for name, has_rested in rested.items() if not has_rested()]:
            if time.monotonic() > deadline:
                break
            time.sleep(REST_POLL_SECONDS)
        return open_

    def stop(self) -> None:
        """Stop all services, then the worker. Running executions are released."""
        stop_loops(self._loops, STOP_SECONDS)
        if self._worker is not None:
            self._worker.stop()
            self._worker = None
            # Another process with the same file can claim what is still on this in-memory broker.
            with contextlib.suppress(Unavailable):
                dispatch.redispatch_now(self._database)
        self._loops = []
