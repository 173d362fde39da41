"""Traces of this process: what happened to events and executions, as spans for a receiver of OpenTelemetry.

:data:`recorder` is None unless traces are on, so that they cost one look at it. Spans are recorded after the facts are
committed. A thread of :class:`~functory.engine.telemetry.trace_recorder.TraceRecorder` exports them; while their
receiver is away they are dropped, and nothing waits for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

import structlog

from functory.engine.telemetry import observation
from functory.engine.telemetry.trace_context import (
    TraceContext,
    attempt_span,
    event_span,
    header_of,
    own_trace_id,
    parse,
)

SpanKind = Literal["internal", "producer", "consumer", "client"]


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A cause of a span that is not its parent: a span of the tree ``root_id``, and what it was to this one."""

    root_id: str
    span_id: str
    relation: str


@dataclass(frozen=True, slots=True)
class Span:
    """A span of the tree ``root_id``. Without ``parent_id`` it is the tree's first.

    ``error`` is a type, never a text: texts may quote data. ``given`` is the trace context that an event brought along.
    """

    root_id: str
    span_id: str
    parent_id: str | None
    name: str
    start: datetime
    end: datetime
    attributes: Mapping[str, str | int | float | bool] = field(default_factory=dict[str, Any])
    kind: SpanKind = "internal"
    links: Sequence[SpanLink] = ()
    error: str | None = None
    given: TraceContext | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """The trace of a tree: its id, whether it is recorded, and the span outside that caused the root."""

    id: str
    sampled: bool
    outside: TraceContext | None = None


class Recorder(Protocol):
    """Records the spans of a process. Every method may be called from many threads and returns at once, but
    those that learn, which may ask the database. None of them fails.
    """

    def record(self, spans: Iterable[Span]) -> None:
        """Export spans later, or drop them when too many wait."""
        ...

    def learn(self, trees: Mapping[str, str]) -> None:
        """Learn the traces of executions: the ids of their roots by their own."""
        ...

    def learn_roots(self, root_ids: Iterable[str]) -> bool:
        """Learn the traces of trees. False while the database is unavailable."""
        ...

    def trace(self, root_id: str) -> Trace | None:
        """Return the trace of a tree, if this process knows it."""
        ...

    def trace_of_execution(self, execution_id: object) -> Trace | None:
        """Return the trace of an execution that this process has learned."""
        ...


recorder: Recorder | None = None

_NOTHING = contextlib.nullcontext()
_current: ContextVar[str | None] = ContextVar("functory_trace", default=None)


def use(new: Recorder | None) -> None:
    """Record with ``new`` from now on; with None, nothing is recorded."""
    global recorder
    recorder = new
    observation.take_traces_from(observation.no_trace if new is None else _current.get)


def _trace(root_id: str) -> Trace | None:
    # Read once: another thread may end the recording.
    known = recorder
    return None if known is None else known.trace(root_id)


def working_on(execution_id: str, root_id: str) -> AbstractContextManager[None]:
    """Let log lines and exemplars of this thread carry the trace of an execution, inside the block."""
    if recorder is None:
        return _NOTHING
    found = _trace(root_id)
    return _NOTHING if found is None else _working_on(execution_id, found)


@contextlib.contextmanager
def _working_on(execution_id: str, found: Trace) -> Iterator[None]:
    token = _current.set(found.id if found.sampled else None)
    try:
        with structlog.contextvars.bound_contextvars(execution_id=execution_id, trace_id=found.id):
            yield
    finally:
        _current.reset(token)


def exemplar(root_id: str) -> str | None:
    """Return the id of a tree's trace if it is recorded."""
    if recorder is None:
        return None
    found = _trace(root_id)
    return found.id if found is not None and found.sampled else None


def exemplar_of_request(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the id of the trace that a request with these headers belongs to, if its sender records that trace."""
    if recorder is None:
        return None
    text = header_of((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)
    found = parse(text)
    return found.trace_id if found is not None and found.sampled else None


def context_of_attempt(root_id: str, execution_id: str, fence: int) -> TraceContext:
    """Return the context that requests of a running attempt carry.

    While nothing is recorded it says so by the ids alone: other systems may record their part.
    """
    found = _trace(root_id)
    span = attempt_span(execution_id, fence)
    if found is None:
        return TraceContext(own_trace_id(root_id), span, True)
    return TraceContext(found.id, span, found.sampled)


def context_of_event(root_id: str, event_id: str) -> TraceContext | None:
    """Return the context of an event's own span; None while its trace is not known."""
    found = _trace(root_id)
    return None if found is None else TraceContext(found.id, event_span(event_id), found.sampled)


def add_trace(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add ``trace_id`` to a log line about an execution: a processor of structlog."""
    if (known := recorder) is not None and "trace_id" not in fields and "execution_id" in fields:
        found = known.trace_of_execution(fields["execution_id"])
        if found is not None:
            fields["trace_id"] = found.id
    return fields


def record_after_commit(
    at_end: Callable[[Callable[[bool], None]], None], spans: Callable[[], list[Span]]
) -> None:
    """Record ``spans`` once a transaction is committed. ``at_end`` is that of the transaction.

    Call it only when there is a :data:`recorder`.
    """

    def record(committed: bool) -> None:
        if committed and (found := recorder) is not None:
            found.record(spans())

    at_end(record)
