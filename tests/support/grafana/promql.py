"""Expressions of Prometheus, for the jobs that a dashboard is about (its variable ``job``)."""

from __future__ import annotations

# Ends of executions that somebody should look at: what was cancelled is none.
BAD = 'status=~"failed|timed_out|dead"'
# The variable of the dashboards with functions.
CHOSEN = 'function=~"$function"'


def series(name: str, *labels: str) -> str:
    """The series of a metric. A name without a prefix of its own is one of Functory's."""
    full = name if name.startswith(("process_", "up")) else f"functory_{name}"
    selector = ", ".join(('job=~"$job"', *labels))
    return f"{full}{{{selector}}}"


def total(name: str, *labels: str, by: str = "") -> str:
    """The sum over all processes. The state gauges have one series each."""
    return f"{_grouped('sum', by)} ({series(name, *labels)})"


def largest(name: str, *labels: str, by: str = "") -> str:
    """The largest value of all processes."""
    return f"{_grouped('max', by)} ({series(name, *labels)})"


def rate(name: str, *labels: str, by: str = "") -> str:
    """A second, over all processes."""
    return f"{_grouped('sum', by)} (rate({series(name, *labels)}[$__rate_interval]))"


def gained(name: str, *labels: str, by: str = "", window: str = "$__range") -> str:
    """How much a counter has grown within a window, over all processes.

    A counter with labels has no series before its first count, which increase() therefore misses: of a series that
    is new in the window the value itself counts.
    """
    counted = series(name, *labels)
    return f"{_grouped('sum', by)} (({counted} unless {counted} offset {window}) or increase({counted}[{window}]))"


def quantile(share: float, name: str, *labels: str, by: str = "", window: str = "$__rate_interval") -> str:
    """A quantile of a histogram over all processes."""
    groups = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({groups}) (rate({series(f'{name}_bucket', *labels)}[{window}])))"


def quantile_of_few(
    share: float, name: str, *labels: str, by: str = "", window: str = "$__rate_interval"
) -> str:
    """A quantile of a histogram that is seldom observed: its first observations count too, as in :func:`gained`."""
    groups = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, {gained(f'{name}_bucket', *labels, by=groups, window=window)})"


def buckets(name: str, *labels: str) -> str:
    """The counts of each bucket of a histogram, for a heat map."""
    return f"sum by (le) (increase({series(f'{name}_bucket', *labels)}[$__rate_interval]))"


def share(part: str, whole: str) -> str:
    """A part of a whole; 0 without either."""
    return f"{part} / ({whole} > 0) or vector(0)"


def or_zero(expression: str) -> str:
    """0 where there are no series."""
    return f"{expression} or vector(0)"


def top(expression: str, number: int = 10) -> str:
    """The largest ones that are not 0."""
    return f"topk({number}, {expression} > 0)"


def _grouped(operator: str, by: str) -> str:
    return f"{operator} by ({by})" if by else operator


def processes() -> str:
    """1 for each process that answers, 0 for each one that does not, with role and version of those that do."""
    up, build = series("up"), series("build_info")
    return f"{up} * on (instance) group_left (role, version) {build} or {up} unless on (instance) {build}"
