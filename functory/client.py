"""Functory in this process: the services composed, and in embedded mode the roles as well.

``Functory()`` without any argument is a complete engine: a SQLite file in ``.functory/``, started at
the first use, stopped at the end of the program. With a database and broker configured it is a client
of that deployment: it writes rows, and the roles that run elsewhere do the rest.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

import structlog

from functory import decorated_function
from functory.engine import private_files
from functory.engine.access import grants
from functory.engine.access.secrets import Secrets
from functory.engine.database import migrations
from functory.engine.database.connection import Database
from functory.engine.database.schema_check import SchemaCheck
from functory.engine.errors import FunctoryError, WaitTimeout
from functory.engine.events.store import Events
from functory.engine.executions import store as execution_store
from functory.engine.executions.compensation.operator_commands import Compensations
from functory.engine.executions.lineage import Lineage
from functory.engine.executions.start_many import start_many
from functory.engine.executions.store import Executions
from functory.engine.functions import arguments, dependencies
from functory.engine.functions.grant_approvals import GrantApprovals
from functory.engine.functions.registry import Functions
from functory.engine.functions.state import State
from functory.engine.settings import Settings, load_settings
from functory.engine.triggers.kill_switch import Switches
from functory.engine.triggers.store import Triggers
from functory.engine.triggers.suppressions import Suppressions
from functory.handle import Handle
from functory.triggers.sources.registry import Registry

if TYPE_CHECKING:
    from functory.engine.functions.declaration import Signature
    from functory.engine.functions.environments import PackageNeeds, Resolved
    from functory.engine.triggers.suppressed_matches import Resumed
    from functory.schedules import Schedules
    from functory.trigger_history import TriggerHistory
    from functory.trigger_saves import TriggerSaves
    from functory.triggers.analysis import backtest, cycles
    from functory.workers.client_sender import ClientSender
    from functory.workers.environments import Environments
    from functory.workers.sandbox.runner import Runner

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")

# From this start on, a process sends its executions itself. A command that starts one has ended before a connection to
# the broker would be open.
STARTS_BEFORE_SENDING = 3


class Functory:
    """One engine or one client of a deployment, by its settings."""

    def __init__(self, settings: Settings | None = None, *, author: str = "", create: bool = True) -> None:
        """Open the database of the settings. With ``create`` the embedded mode makes a missing database or schema, else
        it raises :class:`NotFound` or :class:`Conflict`; ``created`` says whether it did.
        """
        self.settings = settings or load_settings()
        self.author = author or _whoami()
        if create and self.settings.database.startswith("sqlite"):
            private_files.make_home(self.settings.home)
        private_files.mend(self.settings)
        self.database = Database.of(self.settings, pool_size=self.settings.worker_slots + 6)
        self.events = Events(self.database, self.settings.max_event_bytes)
        self.executions = Executions(self.database, self.settings)
        self.compensations = Compensations(self.database)
        self.functions = Functions(self.database, self.inspect, self.settings, self._resolve)
        self.grant_approvals = GrantApprovals(self.database, self.settings)
        self.triggers = Triggers(self.database)
        self.sources = Registry(self.database)
        self.suppressions = Suppressions(self.database)
        self.switches = Switches(self.database)
        self.secrets = Secrets(self.database, self.settings)
        self.state = State(self.database)
        self.lineage = Lineage(self.database)
        self._embedded: Any = None
        self._starts = 0
        self._sender: ClientSender | None = None
        self._inherited: ClientSender | None = None
        self._schema = SchemaCheck(self.database)
        self._lock = threading.Lock()
        self.created = False
        if self.settings.embedded:
            try:
                if not create:
                    migrations.check_exists(self.database)
                self.created = migrations.current(self.database) is None
                migrations.upgrade(self.database)
            except BaseException:
                self.database.close()
                raise
        else:
            self.database.listen_for_wakeups()

    @cached_property
    def schedules(self) -> Schedules:
        """Schedules. Loaded on first use, like the properties below: most commands need none of them, and importing
        them would cost more than the command's work."""
        from functory.schedules import Schedules

        return Schedules(self)

    @cached_property
    def trigger_saves(self) -> TriggerSaves:
        """Saves triggers, and checks them against functions."""
        from functory.trigger_saves import TriggerSaves

        return TriggerSaves(self.functions, self.triggers, self.events, self.lineage, self.settings)

    @cached_property
    def trigger_history(self) -> TriggerHistory:
        """What triggers decided about past events: backtests, and matches that were suppressed."""
        from functory.trigger_history import TriggerHistory

        return TriggerHistory(self.database, self.events, self.triggers, self.settings)

    @cached_property
    def runner(self) -> Runner:
        """The child processes of this engine; loaded at the first use, because most commands need none."""
        from functory.workers.sandbox.runner import Runner

        return Runner.from_settings(self.settings)

    @cached_property
    def environments(self) -> Environments:
        """The packages of functions; loaded at the first use as well."""
        from functory.workers.environments import Environments

        return Environments(self.settings, self.database)

    def inspect(
        self,
        source: str,
        name: str,
        *,
        packages: Sequence[str] = (),
        modules: Mapping[str, str] | None = None,
    ) -> Signature:
        """Inspect the signature of a function by executing its source in the sandbox, without any rights."""
        from functory.workers.sandbox.checks.startup import check_tier

        # A client that runs nothing else executes the source here too: never in a weaker sandbox than demanded.
        check_tier(self.settings, self.runner, inspecting=True)
        return self.runner.inspect(source, name, packages=packages, modules=modules)

    def _resolve(self, needs: PackageNeeds, *, renew: bool = False) -> Resolved:
        return self.environments.resolve(needs, renew=renew)

    def __enter__(self) -> Functory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Functory:
        """In embedded mode, run all roles in this process from now on; else check the schema."""
        with self._lock:
            if self._embedded is None and self.settings.embedded:
                from functory.engine.telemetry import log_config
                from functory.roles.services import EmbeddedRoles

                if not structlog.is_configured():
                    # A plain script: log messages of the roles must not mix with its output.
                    log_config.configure("warning")

                embedded = EmbeddedRoles(self.database, self.settings, self.runner)
                embedded.start()
                self._embedded = embedded
            elif not self.settings.embedded:
                self._schema.check()
        return self

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Start this engine after the block. An error that another schema causes becomes :class:`Conflict`."""
        with self._schema.clarify():
            yield
        self.start()

    @contextmanager
    def _starting(self) -> Iterator[None]:
        """As :meth:`_writing`, for executions: a process that starts several sends them itself."""
        self._starts += 1
        if self._starts > STARTS_BEFORE_SENDING and (self.settings.publishes or self._embedded is not None):
            self._open_sender()
        with self._writing():
            yield

    def _open_sender(self) -> None:
        with self._lock:
            if self._sender is None or self._sender.pid != os.getpid():
                from functory.workers.client_sender import ClientSender

                # A forked child must not close the connection of its parent, so that sender is kept.
                self._inherited = self._sender
                self._sender = self.executions.direct = ClientSender(self.database, self.settings)

    @property
    def health(self) -> dict[str, bool]:
        """Health of each background service by name; empty for a client."""
        return self._embedded.health if self._embedded is not None else {}

    def close(self) -> None:
        """Stop the roles and close the database. Running executions are released; nothing is lost."""
        with self._lock:
            embedded, self._embedded = self._embedded, None
            sender, self._sender, self.executions.direct = self._sender, None, None
        if sender is not None and sender.pid == os.getpid():
            sender.close()
        if embedded is not None:
            embedded.stop()
        if "runner" in self.__dict__:
            self.runner.close()
        self.database.close()

    @overload
    def register_function(self, function: Callable[P, R], /, **declared: Any) -> Callable[P, R]: ...

    @overload
    def register_function(self, /, **declared: Any) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    def register_function(self, function: Callable[..., Any] | None = None, /, **declared: Any) -> Any:
        """Decorator: save a function of this file as a version, and leave it an ordinary function.

        ``declared`` are the fields of :meth:`functory.engine.functions.registry.Functions.save`; limits may be written
        plainly (``timeout=30, retries=3``). The file's imports and constants that it uses come along, and the modules
        that it imports from the folder ``lib`` (relative to the file).
        """

        def decorate(target: F) -> F:
            text, fields = decorated_function.text_and_fields(target, declared)
            row = self.functions.save(text, author=self.author, **fields)
            broken = self.trigger_saves.broken_by(row)
            for warning, kind in decorated_function.warnings_of(row, self.pending(row), broken):
                warnings.warn(warning, kind, stacklevel=2)
            target.functory_version = row["number"]  # type: ignore[attr-defined]
            return target

        return decorate(function) if function is not None else decorate

    def pending(self, version: Mapping[str, Any]) -> list[str]:
        """Return the grants that a version declares and does not have yet, each with the command that allows it."""
        _, waiting = self.grant_approvals.effective_and_pending(version)
        return grants.warnings(version["name"], version["number"], waiting)

    def register_trigger(
        self,
        name: str | None = None,
        *,
        shadow: bool = False,
        expected_version: int | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Save a trigger in either spelling; BabyAGI's spelling has no name, so one is made from its parts.

        Returns its row, with ``warnings`` about what may be a mistake in it; each is a Python warning too. Raises
        :class:`Invalid`, also for a trigger that can never work.
        """
        row = self.save_trigger(name, shadow=shadow, expected_version=expected_version, **fields)
        for warning in row["warnings"]:
            warnings.warn(f"trigger {row['name']}: {warning}", stacklevel=2)
        return row

    def save_trigger(
        self,
        name: str | None = None,
        *,
        shadow: bool = False,
        expected_version: int | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Save a trigger as :meth:`register_trigger` does. The caller shows the ``warnings`` of the row."""
        return self.trigger_saves.save(
            name, fields, author=self.author, shadow=shadow, expected_version=expected_version
        )

    def trigger_graph(self) -> cycles.Graph:
        """The graph of all triggers."""
        return self.trigger_saves.graph()

    def backtest(
        self,
        name: str,
        draft: Mapping[str, Any] | None = None,
        *,
        since: datetime,
        progress: Callable[[int], None] | None = None,
    ) -> backtest.Comparison:
        """Decide again on the events since ``since``: :meth:`functory.trigger_history.TriggerHistory.backtest`."""
        return self.trigger_history.backtest(name, draft, since=since, progress=progress)

    def replay_suppressed(self, trigger: str, event_id: str) -> Handle:
        """Fire once a match that a guard, a pause or a wrong input suppressed. Raises :class:`Conflict`."""
        row = self.trigger_history.replay(trigger, event_id, author=self.author)
        self.start()
        return Handle(self, row["id"])

    def resume_suppressed(
        self,
        *,
        trigger: str | None = None,
        root: str | None = None,
        reasons: Sequence[str] = (),
        dry_run: bool = False,
    ) -> Resumed:
        """Fire all matches that were suppressed, once each: of a trigger, of a root (the id of an event or execution in
        its tree), for these reasons. Without ``reasons`` all that tell of a fault: guards, a pause, a missing function,
        a wrong input. ``dry_run`` only counts.

        Raises :class:`NotFound`.
        """
        done = self.trigger_history.resume(
            trigger=trigger, root=root, reasons=reasons, dry_run=dry_run, author=self.author
        )
        if not dry_run:
            self.start()
        return done

    def submit(self, function: str, /, *args: Any, **kwargs: Any) -> Handle:
        """Start a function (``name`` or ``name@3``). Raises as :meth:`Executions.start`."""
        name, version = dependencies.parse_reference(function)
        before = self.executions.before_start()
        with self._starting():
            row = self.executions.start(
                name, lambda v: arguments.bind(name, v["parameters"], args, kwargs), version=version
            )
        return Handle(self, row["id"], before)

    def submit_many(
        self, function: str, /, inputs: Iterable[Mapping[str, Any]], *, delay: float = 0.0
    ) -> list[Handle]:
        """Start a function (``name`` or ``name@3``) once for each input object, all of them or none: at most 10,000.

        ``delay`` is in seconds. Raises as :func:`functory.engine.executions.start_many.start_many`.
        """
        name, version = dependencies.parse_reference(function)
        with self._starting():
            ids = start_many(
                self.database,
                self.settings,
                name,
                inputs,
                version=version,
                delay=delay,
                direct=self.executions.direct,
            )
        return [Handle(self, id_) for id_ in ids]

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """Run a function and return its result. Raises :class:`ExecutionFailed`."""
        return self.submit(function, *args, **kwargs).result()

    def run(
        self,
        function: str,
        input_: Mapping[str, Any],
        *,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Run a function with an input object; returns the finished execution's row, whatever its state."""
        name, version = dependencies.parse_reference(function)
        before = self.executions.before_start()
        with self._starting():
            row = self.executions.start(
                name, input_, version=version, cause="manual", idempotency_key=idempotency_key
            )
        if idempotency_key is not None:
            # It may have been started, and have finished, before.
            return self.executions.wait([row["id"]], timeout)[0]
        return self.executions.wait_for_started(row["id"], before, timeout)

    def gather(self, handles: Iterable[Handle], timeout: float | None = None) -> list[Any]:
        """Wait for several handles; return their results in order."""
        return [
            execution_store.result_or_raise(row)
            for row in self.executions.wait([h.id for h in handles], timeout)
        ]

    def emit(
        self, type_: str, data: Any = None, *, subject: str | None = None, dedup_key: str | None = None
    ) -> str:
        """Write one event. Returns its id."""
        with self._writing():
            return self.events.emit(type_, data, subject=subject, dedup_key=dedup_key)

    def emit_many(self, events: Iterable[Mapping[str, Any]]) -> list[str]:
        """Write many events in one transaction, all of them or none: at most 10,000. Returns their ids, in order.

        An event is an object with a ``type``, and optionally ``data``, ``subject`` and ``dedup_key``. Raises
        :class:`Invalid` with the number of the first wrong event, counted from 1.
        """
        with self._writing():
            return self.events.emit_many(events)

    def settle(self, timeout: float = 60.0, *, root_id: str | None = None) -> None:
        """Wait until nothing is pending, queued or running, anywhere or below one root. Raises :class:`WaitTimeout`."""
        self.start()
        deadline = time.monotonic() + timeout
        while True:
            seen = self.database.wakeup.generation("finished")
            open_ = self.lineage.open_work(root_id)
            if not any(open_.values()):
                return
            if time.monotonic() > deadline:
                what = ", ".join(f"{count} {name}" for name, count in open_.items() if count)
                raise WaitTimeout("there is still work", what, "functory execution list --state running")
            self.database.wakeup.wait("finished", seen, 0.05)


def _whoami() -> str:
    return os.environ.get("USER") or os.environ.get("LOGNAME") or "unknown"


__all__ = ["Functory", "FunctoryError", "Handle"]
