"""A server as a Python program uses it.

    from functory.remote.client import RemoteFunctory

    with RemoteFunctory("https://functory.example.com", token=token) as functory:
        functory.call("parse", "1,2")
        for execution in functory.executions.list(state="failed"):
            print(execution.id, execution.error_type)

``functory.Functory("https://…")`` makes one, and so do the names of the module :mod:`functory` when ``FUNCTORY_URL`` is
set. Beside the verbs it has every operation of the API by its noun: ``functory.triggers.pause("reorder")``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar, overload

from functory.engine import names
from functory.engine.errors import FunctoryError, Invalid, NotFound
from functory.engine.functions import arguments, dependencies
from functory.remote import address, rows
from functory.remote.connection import ANSWER_SECONDS, Connection
from functory.remote.handle import Handle
from functory.remote.operations import Operations
from functory.remote.sender import Sender

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["FunctoryError", "Handle", "RemoteFunctory"]


class RemoteFunctory(Operations):
    """A server by its address. It may be used from any thread."""

    def __init__(
        self, url: str | None = None, *, token: str | None = None, timeout: float = ANSWER_SECONDS
    ) -> None:
        """Without ``url`` it is the server of the process, and without ``token`` the token for it
        (:mod:`functory.remote.address`). ``timeout`` is the longest wait for one answer, in seconds.

        Nothing is sent yet. Raises :class:`Invalid` for a wrong address.
        """
        at = url or address.url_of_process()
        if at is None:
            raise Invalid(
                "no server is named", "neither url nor FUNCTORY_URL is set", "FUNCTORY_URL=https://…"
            )
        self.connection = Connection(at, token or address.token_for(at), timeout=timeout)
        super().__init__(Sender(self.connection))

    def __repr__(self) -> str:
        return f"RemoteFunctory({self.connection.url!r})"

    def __enter__(self) -> RemoteFunctory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Executions go on."""
        self.connection.close()

    def submit_many(
        self,
        function: str,
        /,
        inputs: Iterable[Mapping[str, Any]],
        *,
        delay: float = 0.0,
        idempotency_key: str | None = None,
    ) -> list[Handle]:
        """Start a function once for each input object, all of them or none: at most 10,000.

        ``delay`` is in seconds. However often its request is sent, each starts once.
        """
        many = [dict(one) for one in inputs]
        if not many:
            return []
        started = self.executions.start_many(
            function=function, inputs=many, delay=delay, idempotency_key=idempotency_key
        )
        return [Handle(self, id_) for id_ in started.ids]

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """Run a function and return its result. Raises :class:`ExecutionFailed`."""
        return self.submit(function, *args, **kwargs).result()

    def submit(self, function: str, /, *args: Any, **kwargs: Any) -> Handle:
        """Start a function (``name`` or ``name@3``). However often its request is sent, it starts once."""
        return Handle(
            self, self.executions.start(function=function, input=self._input(function, args, kwargs)).id
        )

    def run(
        self,
        function: str,
        input_: Mapping[str, Any],
        *,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> rows.Execution:
        """Run a function with an input object; returns the finished execution, whatever its state."""
        row = self.executions.start(function=function, input=input_, idempotency_key=idempotency_key)
        return Handle(self, row.id).execution(timeout)

    def gather(self, handles: Iterable[Handle], timeout: float | None = None) -> list[Any]:
        """Wait for several handles; return their results in order."""
        return [handle.result(timeout) for handle in [*handles]]

    def emit(
        self, type_: str, data: Any = None, *, subject: str | None = None, dedup_key: str | None = None
    ) -> str:
        """Write one event. Returns its id."""
        event = {"type": type_, "data": data, "subject": subject, "dedup_key": dedup_key}
        return self.emit_many([{name: value for name, value in event.items() if value is not None}])[0]

    def emit_many(self, events: Iterable[Mapping[str, Any]]) -> list[str]:
        """Write many events in one transaction, all of them or none: at most 10,000. Returns their ids, in order.

        An event is an object with a ``type``, and optionally ``data``, ``subject`` and ``dedup_key``.
        """
        many = [dict(event) for event in events]
        return self.events.emit(events=many).ids if many else []

    @overload
    def register_function(self, function: Callable[P, R], /, **declared: Any) -> Callable[P, R]: ...

    @overload
    def register_function(self, /, **declared: Any) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    def register_function(self, function: Callable[..., Any] | None = None, /, **declared: Any) -> Any:
        """Decorator: save a function of this file on the server as a version, and leave it an ordinary function.

        ``declared`` is as in :meth:`functory.client.functory.Functory.register_function`.
        """
        from functory.engine.functions import decorated_function

        def decorate(target: F) -> F:
            self.save_decorated(target, *decorated_function.text_and_fields(target, declared))
            return target

        return decorate(function) if function is not None else decorate

    def save_decorated(self, target: Callable[..., Any], text: str, fields: Mapping[str, Any]) -> None:
        """Save a decorated function, and warn as :meth:`register_function` does.

        :func:`functory.engine.functions.decorated_function.text_and_fields` has read its source and its fields.
        """
        import warnings

        given = dict(fields)
        row = self.save_function(given.pop("name", None) or target.__name__, text, **given)
        called = f"{row.name} v{row.number}"
        for warning in (*row.warnings, *(f"{one.trigger}: {one.what}" for one in row.contract)):
            warnings.warn(f"{called}: {warning}", stacklevel=3)
        if row.inactive_reason:
            warnings.warn(
                f"{called} is saved, but not active: {row.inactive_reason}", RuntimeWarning, stacklevel=3
            )
        target.functory_version = row.number  # type: ignore[attr-defined]

    def save_function(
        self, name: str, source: str, *, expected_version: int | None = None, **fields: Any
    ) -> rows.SavedFunction:
        """Save the source of a function as a version. ``fields`` are those of :meth:`functions.save`; limits may be
        written plainly (``timeout=30, retries=3``).
        """
        from functory.engine.functions.decorated_function import collect_limits

        made = collect_limits(fields)
        return self.functions.save(name, source=source, expected_version=expected_version, **made)

    def register_trigger(
        self,
        name: str | None = None,
        *,
        shadow: bool = False,
        expected_version: int | None = None,
        **fields: Any,
    ) -> rows.SavedTrigger:
        """Save a trigger in either spelling. Its row has ``warnings`` about what may be a mistake in it.

        Each is a Python warning too.
        """
        import warnings

        row = self.triggers.save(
            name or names.made_trigger_name(fields),
            definition=fields,
            shadow=shadow,
            expected_version=expected_version,
        )
        for warning in row.warnings:
            warnings.warn(f"trigger {row.name}: {warning}", stacklevel=2)
        return row

    def _input(self, function: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The input object of a call. Arguments without a name need the parameters of the function."""
        if not args:
            return dict(kwargs)
        name, version = dependencies.parse_reference(function)
        found = self.functions.get(name) if version is None else self.functions.version(name, version)
        if found is None:
            raise NotFound(f"function {name} not found", try_="functory function list")
        return arguments.bind(name, found.parameters, args, kwargs)
