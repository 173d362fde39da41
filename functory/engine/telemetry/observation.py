"""Observations of histograms: with the id of a trace as an exemplar, or many at once.

Exemplars appear in the OpenMetrics format only. A histogram has the buckets of its definition: prometheus_client 0.26
passes native histograms on and records none.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import Histogram


def no_trace() -> str | None:
    """Return None: nothing makes traces."""
    return None


_current_trace: Callable[[], str | None] = no_trace


def take_traces_from(current_trace: Callable[[], str | None]) -> None:
    """Let ``current_trace`` say for which trace a thread works; it returns its id, or None without one."""
    global _current_trace
    _current_trace = current_trace


def observe(to: Histogram, value: float, trace: str | None = None) -> None:
    """Observe ``value``, with the id of its trace as an exemplar if there is one."""
    trace = trace or _current_trace()
    to.observe(value, {"trace_id": trace} if trace else None)


def observe_many(to: Histogram, value: float, count: int) -> None:
    """Observe ``value`` ``count`` times, at the cost of once."""
    # The library's own observe(), which has no number of times.
    to._sum.inc(value * count)  # pyright: ignore[reportPrivateUsage]
    for index, bound in enumerate(to._upper_bounds):  # pyright: ignore[reportPrivateUsage]
        if value <= bound:
            to._buckets[index].inc(count)  # pyright: ignore[reportPrivateUsage]
            break
