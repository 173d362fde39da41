"""A receiver of traces on loopback: takes OTLP over HTTP as a collector does, and keeps the spans."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class ReceivedSpan:
    """A span with ids as hexadecimal texts. ``parent_id`` is empty for the first one of a trace; ``links`` are pairs
    of ids, of the trace and the span. Times are nanoseconds.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start: int
    end: int
    attributes: dict[str, Any]
    resource: dict[str, Any]
    links: list[tuple[str, str]]
    error: str | None


@dataclass
class TraceReceiver:
    """What has come in. While ``status`` is not 200, every request is refused with it."""

    endpoint: str
    spans: list[ReceivedSpan] = field(default_factory=list[ReceivedSpan])
    requests: int = 0
    status: int = 200

    def named(self, name: str) -> list[ReceivedSpan]:
        """The spans of this name."""
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReceivedSpan:
        """The only span of this name."""
        (found,) = self.named(name)
        return found


@contextmanager
def receiving() -> Iterator[TraceReceiver]:
    """A receiver that runs inside the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.requests += 1
            if receiver.status == 200:
                receiver.spans += _spans(ExportTraceServiceRequest.FromString(body))
            self.send_response(receiver.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Nothing is logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = TraceReceiver(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def _spans(request: ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    for part in request.resource_spans:
        resource = _attributes(part.resource.attributes)
        for scope in part.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.name,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    _attributes(span.attributes),
                    resource,
                    [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
                    span.status.message if span.status.code == 2 else None,
                )


def _attributes(given: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in given}
