"""The exposition of a process: its metrics as text, in Prometheus' text format or in OpenMetrics.

The library builds an object and a dictionary for each line, which took 46 ms for 200 functions. Here the text of a
series up to its value is made once; only values are written at a scrape. Exemplars appear in OpenMetrics only, whose
grammar has them (OpenMetrics 1.0, section 4.6.1).
"""

from __future__ import annotations

import gzip
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6
from typing import Any

from prometheus_client import Histogram
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from functory.engine.telemetry.registry import MetricRegistry

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
# The fastest: a scrape is read at once and not kept.
GZIP_LEVEL = 1
CLIENT_SECONDS = 10.0

# The text of each series up to its value, by the object that holds its values; it never changes.
_beginnings: dict[MetricWrapperBase, Sequence[str]] = {}


def render(registry: MetricRegistry, accept: str = "") -> tuple[bytes, str]:
    """Return the metrics and their content type: OpenMetrics for a client that ``accept`` says reads it."""
    openmetrics = "application/openmetrics-text" in accept
    lines: list[str] = []
    for collector in registry.shown():
        if isinstance(collector, MetricWrapperBase) and collector._type in ("counter", "gauge", "histogram"):
            (family,) = collector.describe()
            lines += _head(family, openmetrics)
            for held in _series(collector):
                lines += _values(collector, held, openmetrics)
        else:
            for family in collector.collect():
                lines += _head(family, openmetrics)
                lines += [
                    f"{sample.name}{_labels(sample.labels.items())} {floatToGoString(sample.value)}"
                    for sample in family.samples
                ]
    if openmetrics:
        lines.append("# EOF")
    return ("\n".join(lines) + "\n").encode(), OPENMETRICS if openmetrics else TEXT


def serve(
    registry: MetricRegistry, port: int, host: str, probes: Mapping[str, Callable[[], bool]] = {}
) -> tuple[int, Callable[[], None]]:
    """Serve ``/metrics`` on its own port (0: a free one). Returns the port and a function that stops it.

    ``probes``: path to a question, which is answered with 200 when it is true, else with 503.
    """

    class Handler(BaseHTTPRequestHandler):
        # A client that sends no request must not hold a thread for ever.
        timeout = CLIENT_SECONDS

        def do_GET(self) -> None:
            if (probe := probes.get(self.path)) is not None:
                well = probe()
                self._answer(b"ok\n" if well else b"no\n", "text/plain", well=well)
                return
            body, content_type = render(registry, self.headers.get("Accept", ""))
            compressed = "gzip" in self.headers.get("Accept-Encoding", "")
            if compressed:
                body = gzip.compress(body, GZIP_LEVEL)
            self._answer(body, content_type, compressed=compressed)

        def _answer(
            self, body: bytes, content_type: str, *, compressed: bool = False, well: bool = True
        ) -> None:
            self.send_response(HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            if compressed:
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        address_family = AF_INET6 if ":" in host else ThreadingHTTPServer.address_family
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Let a client that hung up go; another error is a defect, and is shown."""
            if not isinstance(sys.exception(), ConnectionError):
                super().handle_error(request, client_address)

    server = Server((host, port), Handler)
    thread = threading.Thread(target=server.serve_forever, name="functory-metrics", daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)

    return server.server_port, stop


def _head(family: Metric, openmetrics: bool) -> list[str]:
    name = family.name if openmetrics or family.type != "counter" else f"{family.name}_total"
    text = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
    if openmetrics:
        text = text.replace('"', r"\"")
    return [f"# HELP {name} {text}", f"# TYPE {name} {family.type}"]


# The library has no public access to values without an object for each.
# pyright: reportPrivateUsage=false


def _series(family: MetricWrapperBase) -> Iterator[MetricWrapperBase]:
    """Yield what holds the values of each series."""
    if not family._labelnames:
        yield family
        return
    with family._lock:
        held = list(family._metrics.values())
    yield from held


def _values(family: MetricWrapperBase, held: Any, openmetrics: bool) -> Iterable[str]:
    """Return the lines of one series; of a histogram its buckets, count and sum."""
    beginnings = _beginnings.get(held) or _beginnings.setdefault(held, _begin(family, held))
    if not isinstance(family, Histogram):
        return [f"{beginnings[0]}{_number(held._value.get())}"]
    lines: list[str] = []
    total = 0.0
    for beginning, bucket in zip(beginnings, held._buckets, strict=False):
        total += bucket.get()
        exemplar = bucket.get_exemplar() if openmetrics else None
        lines.append(f"{beginning}{total!r}{_exemplar(exemplar) if exemplar else ''}")
    return [*lines, f"{beginnings[-2]}{total!r}", f"{beginnings[-1]}{_number(held._sum.get())}"]


def _begin(family: MetricWrapperBase, held: Any) -> Sequence[str]:
    labels = list(zip(family._labelnames, held._labelvalues, strict=True))
    name = family._name
    if isinstance(family, Histogram):
        buckets = [
            f"{name}_bucket{_labels([*labels, ('le', floatToGoString(bound))])} "
            for bound in held._upper_bounds
        ]
        return [*buckets, f"{name}_count{_labels(labels)} ", f"{name}_sum{_labels(labels)} "]
    return [f"{name}{'_total' if family._type == 'counter' else ''}{_labels(labels)} "]


def _labels(labels: Iterable[tuple[str, str]]) -> str:
    shown = ",".join(f'{name}="{_escape(value)}"' for name, value in sorted(labels))
    return f"{{{shown}}}" if shown else ""


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    """``1.0``; ``+Inf`` and ``NaN`` as the formats spell them."""
    return repr(value) if value - value == 0.0 else floatToGoString(value)


def _exemplar(exemplar: Exemplar) -> str:
    time = "" if exemplar.timestamp is None else f" {exemplar.timestamp}"
    return f" # {_labels(exemplar.labels.items())} {_number(exemplar.value)}{time}"
