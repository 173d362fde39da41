"""Functory in this process: what programs do with its services (:mod:`functory.client.services`).

``Functory()`` without any argument is a complete engine: a SQLite file in ``.functory/``, started at
the first use, stopped at the end of the program. With a database and broker configured it is a client
of that deployment: it writes rows, and the roles that run elsewhere do the rest.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, overload

from functory.client import declarations
from functory.client.handle import Handle
from functory.client.services import ClientServices
from functory.engine.access import grants
from functory.engine.errors import FunctoryError, WaitTimeout
from functory.engine.executions import id_lookup, outcomes
from functory.engine.executions.start_many import start_many
from functory.engine.firings.kill_switch import TRIGGERS
from functory.engine.functions import arguments, decorated_function, dependencies
from functory.engine.settings import Settings

if TYPE_CHECKING:
    from functory.client.schedules import Schedules
    from functory.engine.firings.suppressed_matches import Resumed
    from functory.remote.client import RemoteFunctory
    from functory.triggers.analysis import backtest, cycles

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")


class Functory(ClientServices):
    """One engine or one client of a deployment, by its settings.

    With the address of a server in place of the settings, or without settings where ``FUNCTORY_URL`` is set, it is a
    :class:`functory.remote.client.RemoteFunctory`.
    """

    @overload
    def __new__(cls, settings: str, *, token: str | None = None, timeout: float = 60.0) -> RemoteFunctory: ...

    @overload
    def __new__(cls, settings: Settings | None = None, *, author: str = "", create: bool = True) -> Self: ...

    def __new__(cls, settings: Settings | str | None = None, **options: Any) -> Any:
        """Choose between an engine and a client of a server."""
        from functory.remote import address

        if not isinstance(settings, str) and (settings is not None or address.url_of_process() is None):
            return super().__new__(cls)
        from functory.remote.client import RemoteFunctory

        # A server knows the author by the token, and makes its database itself.
        of_engine = ("author", "create")
        return RemoteFunctory(settings, **{name: options[name] for name in options if name not in of_engine})

    def __init__(self, settings: Settings | None = None, *, author: str = "", create: bool = True) -> None:
        """Open the database as :class:`ClientServices` does. Without settings of its own, which means the database of
        the process, it saves what modules have declared; raises when that fails (:func:`declarations.write`).
        """
        super().__init__(settings, author=author, create=create)
        if settings is None and declarations.waiting():
            try:
                declarations.write(self)
            except BaseException:
                self.close()
                raise

    @cached_property
    def schedules(self) -> Schedules:
        """Schedules, with their triggers."""
        from functory.client.schedules import Schedules

        return Schedules(self)

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
            self.save_decorated(target, *decorated_function.text_and_fields(target, declared))
            return target

        return decorate(function) if function is not None else decorate

    def save_decorated(self, target: Callable[..., Any], text: str, fields: Mapping[str, Any]) -> None:
        """Save a decorated function, and warn as :meth:`register_function` does.

        :func:`functory.engine.functions.decorated_function.text_and_fields` has read its source and its fields.
        """
        row = self.functions.save(text, author=self.author, **fields)
        broken = self.trigger_saves.broken_by(row)
        for warning, kind in decorated_function.warnings_of(row, self.pending(row), broken):
            warnings.warn(warning, kind, stacklevel=3)
        target.functory_version = row["number"]  # type: ignore[attr-defined]

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
        author: str | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Save a trigger as :meth:`register_trigger` does. The caller shows the ``warnings`` of the row."""
        by = self.author if author is None else author
        return self.trigger_saves.save(
            name, fields, author=by, shadow=shadow, expected_version=expected_version
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
        """Decide again on the events since ``since``, as
        :meth:`functory.triggers.trigger_history.TriggerHistory.backtest` says.
        """
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
                name, lambda parameters, _: arguments.bind(name, parameters, args, kwargs), version=version
            )
        return Handle(self, row["id"], before)

    def now(self) -> datetime:
        """The time of the database."""
        return self.database.clock.now()

    def workers_alive(self) -> list[dict[str, Any]]:
        """The workers whose lease has not run out."""
        from functory.engine.executions import worker_registry

        return worker_registry.alive(self.database, self.settings.lease_seconds)

    def trigger_failure(self, trigger: Mapping[str, Any]) -> dict[str, Any] | None:
        """The last failed match of a trigger: :func:`functory.engine.firings.failures.last`."""
        from functory.engine.firings import failures

        return failures.last(self.database, trigger["id"])

    def explain_event(self, id_: str) -> list[dict[str, Any]]:
        """What each trigger decided about an event: :func:`functory.triggers.analysis.event_explanation.explain`."""
        from functory.triggers.analysis.event_explanation import explain

        return explain(
            self.events.get(id_),
            self.triggers.definitions(),
            self.lineage.decisions(id_),
            self.database.clock.now(),
        )

    def find_id(self, text: str, *kinds: id_lookup.Kind) -> str:
        """Return the whole id that begins with ``text`` (:mod:`functory.engine.database.short_ids`). Raises
        :class:`NotFound`, also when several do.
        """
        return id_lookup.resolve(self.database, text, kinds)

    def start_execution(
        self,
        function: str,
        input_: Mapping[str, Any],
        *,
        version: int | None = None,
        cause: str = "api",
        idempotency_key: str | None = None,
        delay: float = 0.0,
        priority: int | None = None,
        author: str = "",
    ) -> dict[str, Any]:
        """Start a function with an input object. Returns the execution's row. With an ``author`` the audit log gets an
        entry. Raises as :meth:`Executions.start`.
        """
        with self._starting():
            return self.executions.start(
                function,
                input_,
                version=version,
                cause=cause,
                idempotency_key=idempotency_key,
                delay=delay,
                priority=priority,
                author=author,
            )

    def submit_many(
        self,
        function: str,
        /,
        inputs: Iterable[Mapping[str, Any]],
        *,
        delay: float = 0.0,
        idempotency_key: str | None = None,
    ) -> list[Handle]:
        """Start a function (``name`` or ``name@3``) once for each input object, all of them or none: at most 10,000.

        ``delay`` is in seconds. A used ``idempotency_key`` starts nothing and returns what it has started. Raises as
        :func:`functory.engine.executions.start_many.start_many`.
        """
        name, version = dependencies.parse_reference(function)
        ids = self.start_executions(
            name, inputs, version=version, delay=delay, idempotency_key=idempotency_key
        )
        return [Handle(self, id_) for id_ in ids]

    def start_executions(
        self,
        function: str,
        inputs: Iterable[Mapping[str, Any]],
        *,
        version: int | None = None,
        delay: float = 0.0,
        priority: int | None = None,
        idempotency_key: str | None = None,
        author: str = "",
    ) -> list[str]:
        """Start a function once for each input object, all of them or none. Returns the ids, in order. With an
        ``author`` the audit log gets an entry. Raises as
        :func:`functory.engine.executions.start_many.start_many`.
        """
        with self._starting():
            return start_many(
                self.database,
                self.settings,
                function,
                inputs,
                version=version,
                delay=delay,
                priority=priority,
                direct=self.executions.direct,
                idempotency_key=idempotency_key,
                author=author,
            )

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
            outcomes.result_or_raise(row) for row in self.executions.wait([h.id for h in handles], timeout)
        ]

    def emit(
        self, type_: str, data: Any = None, *, subject: str | None = None, dedup_key: str | None = None
    ) -> str:
        """Write one event. Returns its id."""
        with self._writing():
            return self.events.emit(type_, data, subject=subject, dedup_key=dedup_key)

    def emit_many(self, events: Iterable[Mapping[str, Any]], *, author: str = "") -> list[str]:
        """Write many events in one transaction, all of them or none: at most 10,000. Returns their ids, in order.

        An event is an object with a ``type``, and optionally ``data``, ``subject`` and ``dedup_key``. Raises
        :class:`Invalid` with the number of the first wrong event, counted from 1. With an ``author`` the audit log gets
        an entry.
        """
        with self._writing():
            return self.events.emit_many(events, author=author)

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
                halted = any(one["name"] == TRIGGERS for one in self.switches.list())
                raise WaitTimeout(
                    "there is still work",
                    f"{what}; all triggers are halted" if halted else what,
                    "functory trigger unhalt" if halted else "functory status",
                )
            self.database.wakeup.wait("finished", seen, 0.05)


__all__ = ["Functory", "FunctoryError", "Handle"]
