"""Records the calls of dependencies as spans, from inside the child.

A context variable keeps the current call, so that the parent of a call is right in asyncio tasks, too. Threads and
thread pools start with an empty context before Python 3.14, hence ``inherit_context``.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, Token, copy_context
from typing import Any

import msgspec

from functory.engine.serialization.python_values import escape_surrogates, type_name
from functory.workers.sandbox.guest.channel import Channel
from functory.workers.sandbox.guest.json_values import preview
from functory.workers.sandbox.protocol.frames import SpanClosed, SpanError, SpanOpened, pack
from functory.workers.sandbox.protocol.job import ChildLimits

_current: ContextVar[int | None] = ContextVar("functory_span", default=None)
_NOTHING = msgspec.Raw(pack(None))
_MESSAGE_CHARACTERS = 2000


class CallRecorder:
    """Numbers and sends spans. ``skipped`` counts the calls beyond the limit, which run unrecorded."""

    def __init__(self, channel: Channel, limits: ChildLimits) -> None:
        self._channel = channel
        self._limits = limits
        self._lock = threading.Lock()
        self._count = 0
        self._left = limits.spans_bytes
        self._started = time.monotonic()
        self.skipped = 0

    def open(self, key: str, function: Callable | None, args: tuple, kwargs: dict) -> OpenSpan:
        """Record the start of a call of the code ``key``; close the returned span when the call ends."""
        value, truncated = self._value(call_arguments(function, args, kwargs))
        with self._lock:
            if self._count >= self._limits.spans:
                self.skipped += 1
                return OpenSpan(self, None)
            self._count += 1
            seq = self._count
            offset = time.monotonic() - self._started
            self._channel.send(
                SpanOpened(
                    seq=seq, parent=_current.get(), code=key, input=value, truncated=truncated, offset=offset
                )
            )
        return OpenSpan(self, seq)

    def close(self, seq: int, output: Any, error: SpanError | None) -> None:
        value, truncated = (_NOTHING, False) if error is not None else self._value(output)
        offset = time.monotonic() - self._started
        self._channel.send(SpanClosed(seq=seq, output=value, error=error, truncated=truncated, offset=offset))

    def _value(self, value: Any) -> tuple[msgspec.Raw, bool]:
        data, truncated = preview(value, min(self._limits.span_bytes, self._left))
        with self._lock:
            self._left = max(0, self._left - len(data))
        return msgspec.Raw(data), truncated


class OpenSpan:
    """A running span: use ``with`` around the call, then ``close`` or ``fail``."""

    def __init__(self, recorder: CallRecorder, seq: int | None) -> None:
        self._recorder = recorder
        self._seq = seq
        self._token: Token | None = None

    def __enter__(self) -> OpenSpan:
        if self._seq is not None:
            self._token = _current.set(self._seq)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _current.reset(self._token)

    def close(self, output: Any) -> None:
        if self._seq is not None:
            self._recorder.close(self._seq, output, None)

    def fail(self, error: BaseException) -> None:
        if self._seq is not None:
            try:
                message = str(error)
            except Exception:
                message = "<str failed>"
            info = SpanError(
                type=type_name(type(error)), message=escape_surrogates(message)[:_MESSAGE_CHARACTERS]
            )
            self._recorder.close(self._seq, None, info)


def call_arguments(function: Callable | None, args: tuple, kwargs: dict) -> dict[str, Any]:
    """Return the arguments of a call by parameter name; as ``args`` and ``kwargs`` where they do not fit."""
    try:
        if function is None:
            raise TypeError
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return {"args": list(args), "kwargs": kwargs}
    named: dict[str, Any] = {}
    for name, value in bound.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        else:
            named[name] = value
    return named


def inherit_context() -> None:
    """Let threads and pool tasks run in the context of the code that starts them, from now on."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def start_in_context(self: threading.Thread) -> None:
        context, run = copy_context(), self.run
        self.run = lambda: context.run(run)
        start(self)

    def submit_in_context(pool: ThreadPoolExecutor, fn: Callable, /, *args: Any, **kwargs: Any) -> Any:
        return submit(pool, copy_context().run, fn, *args, **kwargs)

    threading.Thread.start = start_in_context
    ThreadPoolExecutor.submit = submit_in_context
