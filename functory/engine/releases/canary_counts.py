"""Counts of a canary: what its units have shown, in one small table for each share that it had. Pure.

Each pair has the base first and the canary second. A stage is JSON, as table ``canary`` keeps it::

    {"share": 0.1, "since": "2026-…", "units": [900, 100], "failed": [3, 9], "attempt_failed": [5, 9],
     "left_out": [1, 0], "durations": [[90, …], [4, …]], "logs": [[897, -210.5, 88.1], [91, -20.0, 9.3]]}

``failed`` are units whose execution failed for good, ``attempt_failed`` those with an attempt that failed.
``durations`` counts the units that succeeded by the tenth of the base's durations that they fall into, and ``logs`` has
their number, the sum of the logarithms of their durations, and the sum of their squares.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

BINS = 10
# Durations of the base that the bins are made of: as many as are there, and none if they are too few.
MOST_DURATIONS, LEAST_DURATIONS = 500, 50
# The alternatives: everything takes a multiple of the time.
SLOWER = (1.15, 1.3, 1.6, 2.5)
# Shorter durations differ by what the machine does beside.
SHORTEST_SECONDS = 0.001

Stage = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a unit has shown: whether its execution failed, or an attempt of it; the ``seconds`` of one that succeeded.
    ``left_out``: it was cancelled or has expired, which says nothing about its version.
    """

    is_canary: bool
    stage: int
    failed: bool = False
    attempt_failed: bool = False
    seconds: float | None = None
    left_out: bool = False


def new_stage(share: float, since: datetime) -> dict[str, Any]:
    """Return a stage without units."""
    return {
        "share": share,
        "since": since.isoformat(),
        "units": [0, 0],
        "left_out": [0, 0],
        "failed": [0, 0],
        "attempt_failed": [0, 0],
        "durations": [[0] * BINS, [0] * BINS],
        "logs": [[0, 0.0, 0.0], [0, 0.0, 0.0]],
    }


def add(stages: Sequence[Stage], edges: Sequence[float], outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return the stages with more units."""
    found = [_copy(stage) for stage in stages]
    for one in outcomes:
        stage, arm = found[one.stage], int(one.is_canary)
        if one.left_out:
            stage["left_out"][arm] += 1
            continue
        stage["units"][arm] += 1
        stage["failed"][arm] += one.failed
        stage["attempt_failed"][arm] += one.attempt_failed
        if one.seconds is None:
            continue
        seconds = max(one.seconds, SHORTEST_SECONDS)
        if edges:
            stage["durations"][arm][bisect_left(edges, seconds)] += 1
        logs = stage["logs"][arm]
        logs[0] += 1
        logs[1] += math.log(seconds)
        logs[2] += math.log(seconds) ** 2
    return found


def bins(seconds: Sequence[float]) -> tuple[list[float], list[list[float]]]:
    """Return the edges of the tenths of these durations, and for each of :data:`SLOWER` how many times as often each
    tenth would have a duration (both empty when there are too few).

    One is added to each count, and no tenth has less than the one before: then a version that is faster is never worse.
    """
    if len(seconds) < LEAST_DURATIONS:
        return [], []
    known = sorted(max(one, SHORTEST_SECONDS) for one in seconds)
    edges = [known[len(known) * number // BINS] for number in range(1, BINS)]
    usual = _histogram(edges, known)
    tilts = []
    for factor in SLOWER:
        slower = _histogram(edges, [one * factor for one in known])
        tilt: list[float] = []
        for now, then in zip(slower, usual, strict=True):
            tilt.append(max((now + 1) / (then + 1), tilt[-1] if tilt else 0.0))
        tilts.append(tilt)
    return edges, tilts


def _histogram(edges: Sequence[float], seconds: Iterable[float]) -> list[int]:
    counts = [0] * BINS
    for one in seconds:
        counts[bisect_left(edges, one)] += 1
    return counts


def _copy(stage: Stage) -> dict[str, Any]:
    lists = {name: list(value) for name, value in stage.items() if isinstance(value, list)}
    for name in ("durations", "logs"):
        lists[name] = [list(part) for part in lists[name]]
    return {**stage, **lists}
