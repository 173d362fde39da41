"""A scrape of a process that has seen 200 functions and 200 triggers: milliseconds, lines and bytes of the exposition.

The library's own exposition of the same values is measured beside it. What a count costs where work is done is measured
too: microseconds of one of each kind.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from typing import Any

from prometheus_client import disable_created_metrics, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from functory.engine.telemetry import exposition, metrics

NAMES = 200
ROUNDS = 20
COUNTS = 20_000
OPENMETRICS = "application/openmetrics-text"


def run(*, quiet: bool = False) -> dict[str, Any]:
    """Measure; prints the figures unless ``quiet``."""
    disable_created_metrics()
    fill()
    text, _ = exposition.render(metrics.registry)
    figures: dict[str, Any] = {
        "lines": text.count(b"\n"),
        "bytes": len(text),
        "compressed_bytes": len(gzip.compress(text, exposition.GZIP_LEVEL)),
        "milliseconds": {
            "text": _least(lambda: exposition.render(metrics.registry)),
            "openmetrics": _least(lambda: exposition.render(metrics.registry, OPENMETRICS)),
            "compression": _least(lambda: gzip.compress(text, exposition.GZIP_LEVEL)),
            "library, text": _least(lambda: generate_latest(metrics.registry)),
            "library, openmetrics": _least(lambda: generate_openmetrics(metrics.registry)),
        },
        "microseconds": {
            "counter": _each(lambda: metrics.executions_finished.labels("function_1", "succeeded").inc()),
            "histogram": _each(
                lambda: metrics.observe(metrics.execution_duration.labels("function_1"), 0.02)
            ),
            "transaction": _each(_time_nothing),
        },
    }
    if not quiet:
        show(figures)
    return figures


def fill() -> None:
    """Count what a busy process has counted."""
    for number in range(NAMES):
        function, trigger = f"function_{number}", f"trigger_{number}"
        for status in ("succeeded", "failed", "timed_out", "cancelled", "dead"):
            metrics.executions_finished.labels(function, status).inc()
        for cause in ("manual", "api", "trigger", "parent"):
            metrics.executions_created.labels(function, cause).inc()
        metrics.execution_duration.labels(function).observe(0.02)
        for result in ("fired", "blocked", "throttled", "deduplicated"):
            metrics.trigger_fires.labels(trigger, result).inc()


def show(figures: dict[str, Any]) -> None:
    """Print the figures."""
    print(
        f"{figures['lines']:,} lines, {figures['bytes']:,} bytes, {figures['compressed_bytes']:,} compressed"
    )
    for unit in ("milliseconds", "microseconds"):
        for name, value in figures[unit].items():
            print(f"  {name:<22} {value:8.2f} {unit}")


def _least(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) * 1000


def _each(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    for _ in range(COUNTS):
        work()
    return (time.perf_counter() - start) / COUNTS * 1e6


def _time_nothing() -> None:
    with metrics.transaction("claim"):
        pass
