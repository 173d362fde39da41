"""The recorder of traces: a thread that exports spans with OpenTelemetry's SDK (the extra ``otel``) over OTLP/HTTP.

The standard variables say where to, what is sampled and in which batches: ``OTEL_EXPORTER_OTLP_*``,
``OTEL_SERVICE_NAME``, ``OTEL_RESOURCE_ATTRIBUTES``, ``OTEL_TRACES_SAMPLER`` and ``OTEL_BSP_*``. The ids of spans are
derived from rows (:mod:`functory.engine.telemetry.trace_context`), and spans are made after their ends, so the SDK's
tracers are not used.

What a full queue or a failed export loses is counted. The recorder keeps no span for a second try: the exporter itself
tries again for some seconds.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

import structlog
from opentelemetry import trace as api
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk import environment_variables as variables
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

from functory._version import __version__
from functory.engine.errors import FunctoryError
from functory.engine.telemetry import metrics
from functory.engine.telemetry.trace_context import TraceContext, own_trace_id
from functory.engine.telemetry.traces import Span, Trace

log = structlog.get_logger("functory.traces")

# Trees and executions whose trace is remembered.
MAX_KNOWN = 20_000
# Roots that one statement asks for.
MAX_ASKED = 500
# Pause after the database could not say where trees came from.
RETRY_SECONDS = 1.0
# Wait at the end of a process for a receiver that did not answer before.
CLOSE_FAILING_SECONDS = 0.5

K = TypeVar("K")
V = TypeVar("V")

_KINDS = {
    "internal": SpanKind.INTERNAL,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
    "client": SpanKind.CLIENT,
}
_SCOPE = InstrumentationScope("functory", __version__)
_EXPORTER = OTLPSpanExporter.__module__
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Returns the contexts that roots brought from outside. Raises :class:`FunctoryError`.
FindOrigins = Callable[[Sequence[str]], Mapping[str, TraceContext]]


def send_nothing(seconds: float) -> tuple[str, bool]:
    """Send an empty message to the receiver. Returns its URL, and whether it has taken it within ``seconds``."""
    logging.getLogger(_EXPORTER).addHandler(logging.NullHandler())
    logging.getLogger(_EXPORTER).propagate = False
    exporter = OTLPSpanExporter(timeout=seconds)
    try:
        taken = exporter.export([]) is SpanExportResult.SUCCESS
    finally:
        exporter.shutdown()
    return exporter._endpoint, taken


class TraceRecorder:
    """Exports the spans of one process. ``find_origins`` asks the database where trees came from."""

    def __init__(self, service: str, find_origins: FindOrigins, exporter: SpanExporter | None = None) -> None:
        # Of the provider only what it reads from the environment.
        provider = TracerProvider(shutdown_on_exit=False)
        self._sampler = provider.sampler
        own = Resource({"service.name": service, "service.version": __version__})
        self._resource = provider.resource.merge(own).merge(OTELResourceDetector().detect())
        self._exporter = exporter or OTLPSpanExporter()
        self._find_origins = find_origins
        self._most = _number(variables.OTEL_BSP_MAX_QUEUE_SIZE, 2048)
        self._batch = min(self._most, _number(variables.OTEL_BSP_MAX_EXPORT_BATCH_SIZE, 512))
        self._delay = _number(variables.OTEL_BSP_SCHEDULE_DELAY, 5000) / 1000
        self._waiting: deque[Span] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._failing = False
        self._lost = 0
        logging.getLogger(_EXPORTER).addFilter(self._says_something_new)
        self._known = _Recent[str, Trace](MAX_KNOWN)
        self._roots = _Recent[str, str](MAX_KNOWN)
        self._thread = threading.Thread(target=self._run, name="functory-traces", daemon=True)
        self._thread.start()

    def record(self, spans: Iterable[Span]) -> None:
        """Export spans later. Those that find the queue full are dropped and counted."""
        dropped = 0
        with self._changed:
            for span in spans:
                if len(self._waiting) < self._most and not self._closed:
                    self._waiting.append(span)
                else:
                    dropped += 1
            if len(self._waiting) >= self._batch:
                self._changed.notify()
        if dropped:
            metrics.trace_spans.labels("dropped").inc(dropped)

    def learn(self, trees: Mapping[str, str]) -> None:
        """Learn the traces of executions: the ids of their roots by their own."""
        for execution_id, root_id in trees.items():
            self._roots.put(execution_id, root_id)
            if execution_id == root_id:
                # An execution brings no trace from outside.
                self._remember(root_id, None)
        self.learn_roots(trees.values())

    def learn_roots(self, root_ids: Iterable[str]) -> bool:
        """Learn the traces of trees. False while the database is unavailable."""
        new = sorted({root_id for root_id in root_ids if self._known.get(root_id) is None})
        for first in range(0, len(new), MAX_ASKED):
            part = new[first : first + MAX_ASKED]
            try:
                origins = self._find_origins(part)
            except FunctoryError:
                return False
            except Exception:
                # No execution fails because of its trace.
                log.exception("the origins of trees could not be read, their spans are lost")
                return True
            for root_id in part:
                self._remember(root_id, origins.get(root_id))
        return True

    def trace(self, root_id: str) -> Trace | None:
        """Return the trace of a tree, if this process knows it."""
        return self._known.get(root_id)

    def trace_of_execution(self, execution_id: object) -> Trace | None:
        """Return the trace of an execution that this process has learned."""
        root_id = self._roots.get(str(execution_id))
        return None if root_id is None else self._known.get(root_id)

    def close(self, seconds: float = 5.0) -> None:
        """Export what waits, for at most ``seconds``, and hardly try where it failed before. Ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds if not self._failing else min(seconds, CLOSE_FAILING_SECONDS))
        # Ends the exporter's own pauses, too.
        self._exporter.shutdown()
        self._thread.join(1.0)
        logging.getLogger(_EXPORTER).removeFilter(self._says_something_new)

    def _says_something_new(self, _: logging.LogRecord) -> bool:
        """Return False for lines of the exporter while its failure has been logged: it logs each try."""
        return not self._failing

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or len(self._waiting) >= self._batch, self._delay)
                taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._batch))]
                ended = self._closed and not taken
            if ended:
                return
            if taken:
                try:
                    self._export(taken)
                except Exception:
                    metrics.trace_spans.labels("failed").inc(len(taken))
                    log.exception("spans not exported")

    def _export(self, spans: Sequence[Span]) -> None:
        roots = {span.root_id for span in spans} | {link.root_id for span in spans for link in span.links}
        while not self.learn_roots(roots) and not self._closed:
            # A role without its database records no more spans, so few are dropped meanwhile.
            time.sleep(RETRY_SECONDS)
        unknown = sum(self._known.get(span.root_id) is None for span in spans)
        if unknown:
            metrics.trace_spans.labels("failed").inc(unknown)
        made = [one for span in spans if (one := self._made(span)) is not None]
        if not made:
            return
        exported = self._exporter.export(made) is SpanExportResult.SUCCESS
        metrics.trace_spans.labels("exported" if exported else "failed").inc(len(made))
        if exported and self._failing:
            log.info("spans are exported again", lost=self._lost)
            self._lost = 0
        elif not exported:
            self._lost += len(made)
            if not self._failing:
                log.warning(
                    "spans are not exported", advice="check OTEL_EXPORTER_OTLP_ENDPOINT and its receiver"
                )
        self._failing = not exported

    def _remember(self, root_id: str, outside: TraceContext | None) -> None:
        id_ = own_trace_id(root_id) if outside is None else outside.trace_id
        self._known.put(root_id, Trace(id_, self._is_sampled(id_, outside), outside))

    def _is_sampled(self, trace_id: str, outside: TraceContext | None) -> bool:
        number = int(trace_id, 16)
        parent = None
        if outside is None:
            # Samplers compare bits in which all UUIDs begin alike, so they get a hash: the same in every process.
            number = int.from_bytes(hashlib.blake2b(trace_id.encode(), digest_size=16).digest(), "big")
        else:
            parent = api.set_span_in_context(api.NonRecordingSpan(_context(outside, is_remote=True)))
        return self._sampler.should_sample(parent, number, "root").decision.is_sampled()

    def _made(self, span: Span) -> ReadableSpan | None:
        trace = self._known.get(span.root_id)
        if trace is None or not trace.sampled:
            return None
        links = [
            api.Link(
                _context(TraceContext(known.id, link.span_id, known.sampled)),
                {"functory.link": link.relation},
            )
            for link in span.links
            if (known := self._known.get(link.root_id)) is not None
        ]
        parent = None if span.parent_id is None else TraceContext(trace.id, span.parent_id, True)
        if parent is None:
            parent = trace.outside
        elif span.given is not None and span.given.trace_id == trace.id:
            # A request of this tree that came back through another system: that system is the nearer parent.
            parent = span.given
        elif span.given is not None:
            links.append(api.Link(_context(span.given, is_remote=True), {"functory.link": "sender"}))
        attributes: dict[str, Any] = {"functory.root.id": span.root_id, **span.attributes}
        if span.error is not None:
            attributes["error.type"] = span.error
        return ReadableSpan(
            name=span.name,
            context=_context(TraceContext(trace.id, span.span_id, True)),
            parent=None if parent is None else _context(parent, is_remote=parent is trace.outside),
            resource=self._resource,
            attributes=attributes,
            links=links,
            kind=_KINDS[span.kind],
            status=api.Status(
                api.StatusCode.UNSET if span.error is None else api.StatusCode.ERROR, span.error
            ),
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(max(span.start, span.end)),
            instrumentation_scope=_SCOPE,
        )


class _Recent(Generic[K, V]):
    """The values that were put last, at most ``most``. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._most:
                self._values.popitem(last=False)


def _context(of: TraceContext, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(int(of.trace_id, 16), int(of.span_id, 16), is_remote, TraceFlags(int(of.sampled)))


def _nanoseconds(time_: datetime) -> int:
    return (time_ - _EPOCH) // timedelta(microseconds=1) * 1000


def _number(variable: str, default: int) -> int:
    """Return a number of the environment, which the SDK's own processor would read."""
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() and int(text) > 0 else default
