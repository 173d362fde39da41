"""Histograms of durations: the number of durations in each bucket, and the percentiles that follow.

A histogram is a mapping from the number of a bucket to a count. Histograms of the same edges can be added, so the
percentiles of a day follow from its hours. A percentile is exact up to the width of its bucket.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

Histogram = Mapping[int, int]

# From a millisecond to two hours, five edges for each factor of ten: no bucket is wider than its lower edge.
EDGES = tuple(step * 10.0**power for power in range(-3, 4) for step in (1, 2, 3, 5, 7))


def bucket_of(seconds: float) -> int:
    """Return the number of the bucket of a duration: the number of edges that it has reached."""
    return bisect_right(EDGES, seconds)


def percentile(histogram: Histogram, share: float) -> float | None:
    """Return the duration in seconds that this share of all does not exceed; None without durations.

    Durations are taken to lie evenly in their bucket. Those above the last edge count as the last edge.
    """
    total = sum(histogram.values())
    if not total:
        return None
    wanted, below = share * total, 0
    for number in sorted(histogram):
        count = histogram[number]
        if below + count >= wanted:
            low = EDGES[number - 1] if number else 0.0
            high = EDGES[min(number, len(EDGES) - 1)]
            return low + max(0.0, wanted - below) / count * (high - low)
        below += count
    return EDGES[-1]


def added(histograms: Iterable[Histogram]) -> Counter[int]:
    """Return the sum of histograms."""
    total: Counter[int] = Counter()
    for one in histograms:
        total.update(one)
    return total


def as_json(histogram: Histogram) -> dict[str, int]:
    """Return a histogram as it is stored."""
    return {str(number): count for number, count in sorted(histogram.items())}


def from_json(stored: Mapping[str, int]) -> Counter[int]:
    """Return a stored histogram."""
    return Counter({int(number): count for number, count in stored.items()})


class BucketBetween(FunctionElement[Any]):
    """The number of the bucket of the time from the first column to the second, in SQL; NULL if one of them is NULL."""

    type = sa.Integer()
    inherit_cache = True


@compiles(BucketBetween, "postgresql")
def _on_postgresql(element: BucketBetween, compiler: Any, **options: Any) -> str:
    since, until = (compiler.process(clause, **options) for clause in element.clauses)
    edges = ",".join(map(repr, EDGES))
    return f"width_bucket(CAST(EXTRACT(epoch FROM {until} - {since}) AS float8), CAST('{{{edges}}}' AS float8[]))"


@compiles(BucketBetween, "sqlite")
def _on_sqlite(element: BucketBetween, compiler: Any, **options: Any) -> str:
    since, until = (compiler.process(clause, **options) for clause in element.clauses)
    # Times are texts, of which SQLite reads the milliseconds.
    milliseconds = f"round((julianday({until}) - julianday({since})) * 86400000.0)"
    cases = " ".join(f"WHEN {milliseconds} < {edge * 1000!r} THEN {n}" for n, edge in enumerate(EDGES))
    return f"CASE WHEN {milliseconds} IS NULL THEN NULL {cases} ELSE {len(EDGES)} END"
