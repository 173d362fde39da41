"""The roles, composed of loops: what each process of a deployment runs, and all of it in one.

- **router**: routes events, decides about what flow control holds back, sends executions to workers, publishes events.
- **scheduler**: schedules, the dispatcher again (so that either may be away), the reaper, the undoing of failures.
- **watcher**: the sources that listen: files, queues, plug-ins.
- **worker**: a Celery worker (``workers.app``), or without a broker one of our own
  (``workers.processes.brokerless_worker``).
- **server**: HTTP (``functory.api``).

Run as many of each as you like: rows are claimed, so none is a leader by configuration.
"""

from __future__ import annotations

import contextlib
import sys
import time
from datetime import timedelta

from functory.engine.database.connection import Database
from functory.engine.errors import Unavailable
from functory.engine.events import retention
from functory.engine.events.exchange import EventPublisher
from functory.engine.events.outbox import drop_outbox, publish_outbox
from functory.engine.events.store import envelope
from functory.engine.executions import dispatch
from functory.engine.maintenance import compensator
from functory.engine.maintenance.invariants.verifier import POLL_SECONDS, Verifier
from functory.engine.maintenance.pruner import PASS_INTERVAL_SECONDS, Pruner
from functory.engine.maintenance.reaper import Reaper
from functory.engine.serialization.json_codec import encode
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics
from functory.roles.service_loop import ServiceLoop
from functory.triggers.routing.release import Release
from functory.triggers.routing.router import Router
from functory.triggers.sources.schedules.ticker import Ticker
from functory.triggers.sources.supervisor import SourceSupervisor
from functory.workers.app import make_app
from functory.workers.dispatcher import Dispatcher
from functory.workers.execution.executor import Executor, worker_name
from functory.workers.processes.embedded_worker import EmbeddedWorker
from functory.workers.sandbox.runner import Runner

# Events that the publisher takes in one transaction.
OUTBOX_BATCH = 200

# Under load subscribers hear of events this much later, and the publisher takes a tenth of the transactions.
PUBLISH_COALESCE_SECONDS = 0.03

# Each execution that ends wakes the sagas' loop: under load it looks this often.
COMPENSATOR_COALESCE_SECONDS = 0.05

# Without a broker: how many events are taken out of the outbox at once, and how often.
DROP_BATCH = 1000
DROP_SECONDS = 2.0

# How often it is looked whether there is something to forget.
RECEIPT_EXPIRY_SECONDS = 60.0

# How long a thread may hold the interpreter while others wait: the embedded roles gain a third by it.
THREAD_SWITCH_SECONDS = 0.0005


def router_loops(database: Database, settings: Settings) -> list[ServiceLoop]:
    """Router, publisher and dispatcher."""
    router = Router(database, settings)
    return [
        ServiceLoop(
            "router",
            lambda: router.route_batch().events >= settings.batch_size,
            wakeup=database.wakeup,
            topic="events",
            poll=settings.poll_seconds,
        ),
        flow_control_loop(database, settings),
        *([outbox_drop_loop(database)] if settings.brokerless else [publisher_loop(database, settings)]),
        *dispatcher_loops(database, settings),
    ]


def scheduler_loops(database: Database, settings: Settings) -> list[ServiceLoop]:
    """Schedules, dispatcher, reaper and sagas."""
    return [
        ticker_loop(database, settings),
        *dispatcher_loops(database, settings),
        reaper_loop(database, settings),
        compensator_loop(database, settings),
        receipt_expiry_loop(database, settings),
        prune_loop(database, settings),
        verify_loop(database, settings),
    ]


def watcher_loops(database: Database, settings: Settings) -> list[ServiceLoop]:
    """The keeper of sources that listen."""
    return [source_supervisor_loop(database, settings)]


def flow_control_loop(database: Database, settings: Settings) -> ServiceLoop:
    """Decides about matches and executions that flow control holds back."""
    turn = Release(database, settings)
    return ServiceLoop(
        "flow",
        turn.run_once,
        wakeup=database.wakeup,
        topic="flow",
        poll=settings.poll_seconds,
        due_in=turn.due_in,
    )


def ticker_loop(database: Database, settings: Settings) -> ServiceLoop:
    """Writes the events of schedules."""
    ticker = Ticker(database, settings)
    return ServiceLoop(
        "ticker",
        ticker.tick,
        wakeup=database.wakeup,
        topic="sources",
        poll=settings.poll_seconds,
        due_in=ticker.due_in,
    )


def source_supervisor_loop(database: Database, settings: Settings) -> ServiceLoop:
    """Runs files, queues and plug-ins."""
    keeper = SourceSupervisor(database, settings)
    return ServiceLoop(
        "keeper",
        keeper.run_once,
        wakeup=database.wakeup,
        topic="sources",
        poll=settings.poll_seconds,
        close=keeper.close,
        # It renews leases.
        max_wait=settings.lease_seconds / 10,
    )


def publisher_loop(database: Database, settings: Settings) -> ServiceLoop:
    """Puts committed events onto the exchange."""
    broker = EventPublisher(settings)

    def work() -> bool:
        start = time.perf_counter()
        try:
            rows = publish_outbox(database, broker, OUTBOX_BATCH)
        except Exception:
            metrics.outbox_publish.labels("error").observe(time.perf_counter() - start)
            raise
        if rows:
            metrics.outbox_publish.labels("ok").observe(time.perf_counter() - start)
        for row in rows:
            metrics.events_published.labels(metrics.type_label(row["type"])).inc()
            metrics.event_size.observe(len(encode(envelope(row))))
        return len(rows) >= OUTBOX_BATCH

    return ServiceLoop(
        "publisher",
        work,
        wakeup=database.wakeup,
        topic="outbox",
        poll=settings.poll_seconds,
        close=broker.close,
        coalesce=PUBLISH_COALESCE_SECONDS,
    )


def outbox_drop_loop(database: Database) -> ServiceLoop:
    """Without a broker: nobody subscribes, so what was to be published is forgotten."""
    return ServiceLoop(
        "unpublished",
        lambda: drop_outbox(database) >= DROP_BATCH,
        wakeup=database.wakeup,
        topic="outbox",
        poll=DROP_SECONDS,
        coalesce=DROP_SECONDS / 10,
    )


def dispatcher_loops(database: Database, settings: Settings) -> list[ServiceLoop]:
    """The dispatcher; none without a broker, where workers claim by themselves."""
    return [] if settings.brokerless else [dispatcher_loop(database, settings)]


def dispatcher_loop(database: Database, settings: Settings) -> ServiceLoop:
    """Sends queued executions to the workers."""
    dispatcher = Dispatcher(database, settings, make_app(settings))

    def work() -> bool:
        dispatcher.dispatch_batch()
        # Whatever has not found a place waits for one: at once there would be none.
        return False

    return ServiceLoop(
        "dispatcher",
        work,
        wakeup=database.wakeup,
        topic="executions",
        poll=settings.poll_seconds,
        due_in=dispatcher.due_in,
        close=dispatcher.close,
    )


def reaper_loop(database: Database, settings: Settings) -> ServiceLoop:
    """Ends what nobody owns any more."""
    reaper = Reaper(database, settings)
    return ServiceLoop(
        "reaper",
        lambda: any(reaper.reap().values()),
        wakeup=database.wakeup,
        topic=None,
        poll=max(0.2, settings.lease_seconds / 6),
    )


def compensator_loop(database: Database, settings: Settings) -> ServiceLoop:
    """Undoes what failed executions have done."""
    return ServiceLoop(
        "saga",
        lambda: compensator.advance(database, settings) >= settings.batch_size,
        wakeup=database.wakeup,
        topic="finished",
        poll=settings.poll_seconds,
        coalesce=COMPENSATOR_COALESCE_SECONDS,
    )


def receipt_expiry_loop(database: Database, settings: Settings) -> ServiceLoop:
    """Deletes what sources need not remember any more."""
    older = timedelta(days=settings.receipt_days)
    return ServiceLoop(
        "retention",
        lambda: any(count >= retention.BATCH for count in retention.delete_expired(database, older).values()),
        wakeup=database.wakeup,
        topic=None,
        poll=RECEIPT_EXPIRY_SECONDS,
    )


def prune_loop(database: Database, settings: Settings) -> ServiceLoop:
    """Deletes what is older than it is to be kept."""
    pruner = Pruner(database, settings)

    def step() -> bool:
        pruner.prune()
        # Never at once: the pruner rests between two steps.
        return False

    return ServiceLoop(
        "prune",
        step,
        wakeup=database.wakeup,
        topic=None,
        poll=PASS_INTERVAL_SECONDS,
        due_in=pruner.due_in,
    )


def verify_loop(database: Database, settings: Settings) -> ServiceLoop:
    """Asks now and then whether the invariants hold."""
    watch = Verifier(database, settings)

    def work() -> bool:
        watch.verify_if_due()
        return False

    poll = min(POLL_SECONDS, settings.verify_seconds or POLL_SECONDS)
    return ServiceLoop("verify", work, wakeup=database.wakeup, topic=None, poll=poll)


class EmbeddedRoles:
    """All roles in this process: what ``functory dev``, ``functory run`` and a plain script use."""

    def __init__(self, database: Database, settings: Settings, runner: Runner) -> None:
        self._database = database
        self._settings = settings
        self._runner = runner
        self._loops: list[ServiceLoop] = []
        self._worker: EmbeddedWorker | None = None

    def start(self) -> None:
        """Start everything; returns when the worker consumes."""
        # The threads here hand work to each other in steps far shorter than the default 5 ms.
        sys.setswitchinterval(min(sys.getswitchinterval(), THREAD_SWITCH_SECONDS))
        self._database.listen_for_wakeups()
        app = make_app(self._settings)
        executor = Executor(self._database, self._settings, self._runner, f"embedded:{worker_name()}")
        app.executor = executor
        executor.start()
        # What a killed process had put on its in-memory broker is gone with it.
        dispatch.redispatch_now(self._database)
        self._worker = EmbeddedWorker(app, self._settings.worker_slots)
        self._worker.start()
        self._loops = [
            *router_loops(self._database, self._settings),
            ticker_loop(self._database, self._settings),
            source_supervisor_loop(self._database, self._settings),
            reaper_loop(self._database, self._settings),
            compensator_loop(self._database, self._settings),
            receipt_expiry_loop(self._database, self._settings),
            prune_loop(self._database, self._settings),
            verify_loop(self._database, self._settings),
        ]
        for loop in self._loops:
            loop.start()

    @property
    def health(self) -> dict[str, bool]:
        """Which loops have had a good last round."""
        return {loop.role: loop.healthy and loop.is_alive() for loop in self._loops}

    def stop(self) -> None:
        """Stop everything in order: what runs is given back."""
        for loop in self._loops:
            loop.stop()
        for loop in self._loops:
            loop.join(timeout=10)
        if self._worker is not None:
            self._worker.stop()
            self._worker = None
            # Another process with the same file need not wait for what is still on our in-memory broker.
            with contextlib.suppress(Unavailable):
                dispatch.redispatch_now(self._database)
        self._loops = []
