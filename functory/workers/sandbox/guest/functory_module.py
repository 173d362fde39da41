"""The module ``functory`` as running code sees it: the same names, answered by the worker.

It is put into ``sys.modules`` before user code runs, so that ``from functory import call`` neither loads
nor reaches the real package. Every function here is a request over the channel; rights and budgets
are checked by the worker.
"""

from __future__ import annotations

import asyncio
import struct
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Annotated, Any

import msgspec

from functory.engine.serialization.python_values import NotSerializable, TooLarge, escape_surrogates
from functory.workers.sandbox.guest import hints, memory, step
from functory.workers.sandbox.guest.channel import Channel
from functory.workers.sandbox.guest.errors import ERRORS, CallFailed, Invalid, Refused, Unavailable, raised
from functory.workers.sandbox.guest.json_values import encode
from functory.workers.sandbox.guest.retries import Final, RetryAfter
from functory.workers.sandbox.protocol.frames import (
    MAX_EVENTS,
    Call,
    Emit,
    EmitMany,
    Functions,
    Gather,
    GetSecret,
    Llm,
    LogRecord,
    Reply,
    Request,
    StateDelete,
    StateGet,
    StateSet,
    Submit,
)
from functory.workers.sandbox.protocol.job import Job

_LOG_CHARACTERS = 16_000


class EngineClient:
    """Sends requests to the worker: encodes arguments, waits for the reply, raises its error."""

    def __init__(self, channel: Channel, job: Job) -> None:
        self._channel = channel
        self.execution = Execution(job)
        self.set_job(job)

    def set_job(self, job: Job) -> None:
        """Serve another execution, in a process that runs several; names that code imported stay valid."""
        self._limit = job.limits.call_bytes
        self._calls = job.limits.calls
        self._asked = 0
        self.execution.set_job(job)

    def request(self, build: Callable[..., Request], **fields: Any) -> Any:
        """Send a request and wait for its value."""
        return self._value(self._send(build, fields).result())

    def request_for_many(self, build: Callable[..., Request], count: int, **fields: Any) -> Any:
        """Send a request that counts as ``count`` of them, and wait for its value."""
        return self._value(self._send(build, fields, max(1, count)).result())

    async def request_async(self, build: Callable[..., Request], **fields: Any) -> Any:
        """Send a request and wait for its value, while other tasks of the event loop continue."""
        return self._value(await asyncio.wrap_future(self._send(build, fields)))

    def log(self, level: str, text: str) -> None:
        self._channel.send(
            LogRecord(level=escape_surrogates(level)[:32], text=escape_surrogates(text)[:_LOG_CHARACTERS])
        )

    def _send(self, build: Callable[..., Request], fields: dict[str, Any], count: int = 1) -> Any:
        self._asked += count
        if self._asked > self._calls:
            raise Refused(
                f"this execution has made its {self._calls} requests\n"
                "each call, emit, secret and state access counts\n"
                "try: do the work in fewer, larger calls, or raise calls"
            )
        carried = {name: self._encode(name, value) for name, value in fields.items()}
        return self._channel.request(lambda number: build(id=number, **carried))

    def _encode(self, name: str, value: Any) -> Any:
        try:
            return msgspec.Raw(encode(value, self._limit).data)
        except TooLarge as error:
            raise Invalid(
                f"{name} is too large to send: {error}\ntry: store it and send a reference"
            ) from None
        except NotSerializable as error:
            raise NotSerializable(f"{name} cannot be sent: {error}") from None

    @staticmethod
    def _value(reply: Reply) -> Any:
        if reply.error is not None:
            raise raised(reply.error)
        return reply.value


class InspectionEngineClient(EngineClient):
    """Stands in for the engine when source is only inspected: importing ``functory`` works, requests do not."""

    def log(self, level: str, text: str) -> None:
        return

    def _send(self, build: Callable[..., Request], fields: dict[str, Any], count: int = 1) -> Any:
        raise Unavailable(
            "nothing can be asked of the engine while a function is only being looked at\n"
            "its source is executed to learn its hints, outside of any execution\n"
            "try: move the request into the function's body"
        )


class Submitted:
    """A started child execution: its ``id``, and its ``result`` on demand."""

    def __init__(self, engine: EngineClient, execution_id: str) -> None:
        self._engine = engine
        self.id = execution_id

    def result(self, timeout: float | None = None) -> Any:
        """Wait, at most ``timeout`` seconds, and return the result; raises ``CallFailed``."""
        return _results(self._engine, [self.id], timeout, False)[0]

    def __repr__(self) -> str:
        return f"<Submitted {self.id}>"


def _results(
    engine: EngineClient, ids: list[str], timeout: float | None, return_exceptions: bool
) -> list[Any]:
    once = list(dict.fromkeys(ids))
    seconds = None if timeout is None else float(timeout)
    found = dict(zip(once, engine.request(Gather, ids=once, timeout=seconds), strict=True))
    results = []
    for execution_id in ids:
        entry = found[execution_id]
        if entry["ok"]:
            results.append(entry.get("value"))
            continue
        error = entry.get("error") or {}
        failure = CallFailed(
            error.get("message") or f"execution {execution_id} did not succeed",
            state=entry.get("state") or error.get("state") or "failed",
            error=error,
            execution_id=execution_id,
        )
        if not return_exceptions:
            raise failure
        results.append(failure)
    return results


class State:
    """Key-value storage that outlives executions."""

    def __init__(self, engine: EngineClient) -> None:
        self._engine = engine

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value under ``key``, or ``default``."""
        entry = self.read(key)
        return default if entry is None else entry[0]

    def read(self, key: str) -> tuple[Any, int] | None:
        """Return the value and its version, for a later ``set`` with ``expected_version``; None when absent."""
        entry = self._engine.request(StateGet, key=key)
        return None if entry is None else (entry[0], entry[1])

    def set(self, key: str, value: Any, *, expected_version: int | None = None) -> int:
        """Store a value and return its version; ``Conflict`` if ``expected_version`` is not the current one."""
        return self._engine.request(StateSet, key=key, value=value, expected_version=expected_version)

    def delete(self, key: str) -> None:
        """Delete ``key``."""
        self._engine.request(StateDelete, key=key)


class StoredFunctions:
    """The functions of the database, for code with the permission to use them."""

    def __init__(self, engine: EngineClient) -> None:
        self._engine = engine

    def _do(self, op: str, **arguments: Any) -> Any:
        return self._engine.request(Functions, op=op, arguments=arguments)

    def get(self, name: str) -> Any:
        return self._do("get", name=name)

    def list(self) -> Any:
        return self._do("list")

    def save(self, source: str, /, **options: Any) -> Any:
        return self._do("save", source=source, **options)

    def update(self, name: str, /, **changes: Any) -> Any:
        return self._do("update", name=name, changes=changes)

    def activate(self, name: str, version: int) -> Any:
        return self._do("activate", name=name, version=version)

    def rollback(
        self, name: str, *, to: int | None = None, from_version: int | None = None, keep_mark: bool = False
    ) -> Any:
        return self._do("rollback", name=name, to=to, from_version=from_version, keep_mark=keep_mark)

    def versions(self, name: str) -> Any:
        return self._do("versions", name=name)

    def propose(self, source: str, /, *, tests: Sequence[Mapping[str, Any]] = (), **options: Any) -> Any:
        """Propose a version: it becomes active when its tests pass and, where a policy says so, people approve.

        Options: ``description``, ``replaces``, ``ephemeral``, and the fields of a function. Returns an object with
        ``id``, ``state`` and ``checks``.
        """
        return self._do("propose", source=source, tests=[dict(one) for one in tests], **options)

    def describe(self, name: str, text: str, /) -> Any:
        """Say what a function does, for models that choose tools and for people; no new version is made."""
        return self._do("describe", name=name, text=text)

    def proposal(self, proposal_id: str, /) -> Any:
        """Return what became of a proposal."""
        return self._do("proposal", id=proposal_id)


class Logger:
    """``log("text", key=value)``, and ``log.debug``, ``.info``, ``.warning`` and ``.error``."""

    def __init__(self, engine: EngineClient) -> None:
        self._engine = engine

    def __call__(self, text: object, /, level: str = "info", **fields: Any) -> None:
        fields_text = "".join(f" {name}={value!r}" for name, value in fields.items())
        self._engine.log(level, f"{text}{fields_text}")

    def debug(self, text: object, /, **fields: Any) -> None:
        self(text, level="debug", **fields)

    def info(self, text: object, /, **fields: Any) -> None:
        self(text, level="info", **fields)

    def warning(self, text: object, /, **fields: Any) -> None:
        self(text, level="warning", **fields)

    def error(self, text: object, /, **fields: Any) -> None:
        self(text, level="error", **fields)


class LanguageModels:
    """``llm(messages, model="small")``, ``llm.embed(texts)`` and ``llm.models()``."""

    def __init__(self, engine: EngineClient) -> None:
        self._engine = engine

    def __call__(self, messages: Any, /, **options: Any) -> dict[str, Any]:
        """Ask a language model: ``messages`` is a text, or a list of objects with ``role`` and ``content``.

        Options: ``model``, ``tools``, ``schema``, ``max_tokens``, ``temperature``. Returns an object with ``text``,
        ``tool_calls``, ``usage`` and ``cost_usd``, and with ``value`` for a schema. A later attempt of the execution
        gets the same answer. Raises :class:`ModelFailed`, or :class:`BudgetExceeded` at a limit.
        """
        return self._engine.request(Llm, op="chat", arguments=_with_messages(messages, options))

    async def acall(self, messages: Any, /, **options: Any) -> dict[str, Any]:
        """Ask as :meth:`__call__` does, while other tasks of the event loop continue."""
        return await self._engine.request_async(Llm, op="chat", arguments=_with_messages(messages, options))

    def embed(self, texts: str | Sequence[str], /, *, model: str | None = None) -> list[list[float]]:
        """Return the embedding of each text, as a list of numbers."""
        given = [texts] if isinstance(texts, str) else list(texts)
        arguments = {"texts": given} | ({} if model is None else {"model": model})
        found = self._engine.request(Llm, op="embed", arguments=arguments)
        return [[*struct.unpack(f"<{len(raw) // 4}f", raw)] for raw in map(b64decode, found["vectors"])]

    def models(self) -> list[dict[str, Any]]:
        """Return the language models that this function may ask: name, capabilities, context, max_output, note."""
        return self._engine.request(Llm, op="models", arguments={})


class Execution:
    """The execution that this code is part of; ``id`` and ``attempt`` key effects outside."""

    def __init__(self, job: Job) -> None:
        self.set_job(job)

    def set_job(self, job: Job) -> None:
        """Serve this execution from now on."""
        self.id = job.execution_id
        self.attempt = job.attempt
        self.function = job.function
        self.version = job.version
        self.root_id = job.root_id
        self.parent_id = job.parent_execution_id
        self.triggered_by = job.triggered_by
        self.depth = job.depth
        self.deadline = job.deadline

    def __repr__(self) -> str:
        return f"<Execution {self.id} of {self.function}@{self.version}, attempt {self.attempt}>"


class Naive:
    """``Naive[datetime]``: the hint of a time without an offset."""

    def __getitem__(self, kind: Any) -> Any:
        return Annotated[kind, hints.library().Meta(tz=False)]


def make_module(job: Job, engine: EngineClient) -> ModuleType:
    """Build the module ``functory`` for one execution."""

    def call(name: str, /, *args: Any, durable: bool = False, abandon: bool = False, **kwargs: Any) -> Any:
        """Run another function (``"parse"`` or ``"parse@3"``) as a child execution; return its result.

        With ``durable`` it runs once, however many attempts this execution needs: the next one gets its result. With
        ``abandon`` it goes on when this execution fails or is cancelled.
        """
        chosen = _called(name, durable=durable, abandon=abandon)
        return engine.request(Call, **chosen, args=args, kwargs=kwargs)

    async def acall(
        name: str, /, *args: Any, durable: bool = False, abandon: bool = False, **kwargs: Any
    ) -> Any:
        """``call`` for async code."""
        chosen = _called(name, durable=durable, abandon=abandon)
        return await engine.request_async(Call, **chosen, args=args, kwargs=kwargs)

    def submit(name: str, /, *args: Any, abandon: bool = False, **kwargs: Any) -> Submitted:
        """Start a child execution without waiting for it. With ``abandon`` it goes on when this execution fails or is
        cancelled.
        """
        chosen = _called(name, abandon=abandon)
        return Submitted(engine, engine.request(Submit, **chosen, args=args, kwargs=kwargs))

    def gather(
        *handles: Submitted | str, return_exceptions: bool = False, timeout: float | None = None
    ) -> Sequence[Any]:
        """Wait for child executions and return their results in order. Raises the first ``CallFailed``."""
        ids = [handle.id if isinstance(handle, Submitted) else handle for handle in handles]
        return _results(engine, ids, timeout, return_exceptions)

    def emit(
        type: str,  # noqa: A002 - the word of CloudEvents
        data: Any = None,
        *,
        subject: str | None = None,
    ) -> str:
        """Write an event and return its id."""
        return engine.request(Emit, type=type, data=data, subject=subject)

    def emit_many(events: Iterable[Mapping[str, Any]]) -> list[str]:
        """Write many events, all of them or none, and return their ids. Each is an object with ``type``, and perhaps
        ``data`` and ``subject``.
        """
        given = [_new_event(number, one) for number, one in enumerate(events, 1)]
        if len(given) > MAX_EVENTS:
            raise Invalid(
                f"{len(given):,} events are too many: one call takes at most {MAX_EVENTS:,}\ntry: emit them in parts"
            )
        return engine.request_for_many(EmitMany, len(given), events=given)

    def secret(name: str) -> str:
        """Return the value of a secret that this function declares."""
        return engine.request(GetSecret, name=name)

    log = Logger(engine)

    def progress(done: float, total: float | None = None, text: str = "") -> None:
        """Report the progress of the work; it appears in the log of the execution."""
        share = f"{done:g}" if total is None else f"{done:g}/{total:g}"
        log(f"{share} {text}".rstrip(), level="progress")

    module = ModuleType("functory", "The engine, as code inside an execution sees it.")
    contents = (
        call,
        acall,
        submit,
        gather,
        emit,
        emit_many,
        secret,
        progress,
        register,
        register_function,
        register_trigger,
    )
    for function in contents:
        setattr(module, function.__name__, function)
    for kind in (*ERRORS, CallFailed, NotSerializable, Final, RetryAfter, Submitted):
        kind.__module__ = module.__name__
        setattr(module, kind.__name__, kind)
    module.__dict__.update(
        log=log,
        state=State(engine),
        functions=StoredFunctions(engine),
        llm=LanguageModels(engine),
        execution=engine.execution,
        memory=memory.Memory(engine),
        tools=memory.Tools(engine),
        step=step,
        Naive=Naive(),
    )
    return module


def _with_messages(messages: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    given = messages if isinstance(messages, str) else list(messages)
    return {"messages": given, **options}


def register() -> None:
    """Do nothing: inside an execution nothing waits to be registered."""


def register_function(*args: Any, **options: Any) -> Any:
    """Return the function unchanged: inside an execution it is registered already."""
    direct = len(args) == 1 and callable(args[0]) and not options
    return args[0] if direct else lambda function: function


def register_trigger(*_: Any, **__: Any) -> Any:
    """Triggers cannot be registered from inside an execution."""
    raise Refused(
        "register_trigger does not work inside a running function\n"
        "a trigger belongs to the project, not to one execution\n"
        "try: register it where the function is registered, or with functory trigger add"
    )


_CHOICES = {
    "durable": "durable says whether a call is made once for all attempts",
    "abandon": "abandon says whether a child goes on when this execution fails or is cancelled",
}


def _called(name: str, **chosen: bool) -> dict[str, Any]:
    for option, value in chosen.items():
        if not isinstance(value, bool):
            raise Invalid(
                f"{option}={value!r} is neither True nor False\n"
                f"{_CHOICES[option]}\n"
                "try: pass a parameter that has this name by its position"
            )
    return dict(zip(("name", "version"), _parse_reference(name), strict=True)) | chosen


def _new_event(number: int, given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not isinstance(given.get("type"), str):
        why = 'it is an object with a type, such as {"type": "order.created", "data": {"sku": "A1"}}'
        raise Invalid(f"event {number} is no event\n{why}")
    unknown = [name for name in given if name not in ("type", "data", "subject")]
    if unknown:
        raise Invalid(f"event {number} has a field {unknown[0]!r}\nits fields are type, data and subject")
    return {"type": given["type"], "data": given.get("data"), "subject": given.get("subject")}


def _parse_reference(name: str) -> tuple[str, int | None]:
    bare, at, number = name.rpartition("@")
    if not at:
        return name, None
    if not number.isdecimal() or int(number) < 1:
        raise Invalid(f"{name!r} is not a function\nthe version after @ is a number\ntry: {bare}@1")
    return bare, int(number)
