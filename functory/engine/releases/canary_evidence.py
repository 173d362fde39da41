"""Canary evidence: how surely the version of a canary is worse than the base, and what follows from it. Pure.

If the version did not matter, the arm of each unit would be a coin with the known share, whatever its outcome. The
evidence is the mean of likelihood ratios against that, an e-process: by Ville's inequality a version that is no worse
reaches 100 in at most one of a hundred canaries, however often it is looked at. This is the conditional form of the
tests of Lindon and Malek, Anytime-valid inference for multinomial count data (2022), and of Turner and Grünwald's safe
tests for count data. Nothing is compared with another day: what disturbs both versions is no evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from math import erf, exp, log, pi, sqrt
from typing import Literal

from functory.engine.releases.canary_counts import Stage

# The alternatives: the canary's units fail more often, by a factor. Their weights are equal.
RISKS = (1.5, 2, 3, 5, 10, 30)
# A version that is no worse is rolled back in at most one of this number of canaries.
ROLL_BACK_AT = 100.0
# Promotion takes at least these units of the canary and this time, at most this evidence, and at most this expected
# loss and slow-down. The units are those since the share was changed.
LEAST_UNITS, LEAST_TIME = 300, timedelta(minutes=30)
DOUBT, MOST_LOSS, MOST_SLOWER = 3.0, 0.01, 1.15
# The one-sided 95 % bound of a normal distribution.
_BOUND = 1.645
# The alternatives of the guard: a unit is more often of the canary than its share says, by a factor. The proof rests on
# the share, so a canary is held at this evidence.
_ODDS = (0.5, 0.8, 1.25, 2.0)
HOLD_AT = 1000.0

ASSIGNMENT, DEADLINE = "assignment", "deadline"
Action = Literal["roll_back", "promote", "hold"]


@dataclass(frozen=True)
class Decision:
    """What is to be done with a canary, and why: for a person."""

    action: Action
    reason: str


def evidence(stages: Sequence[Stage], tilts: Sequence[Sequence[float]]) -> float:
    """Return the ratio of evidence that the canary is worse: by units that failed, units with an attempt that failed,
    and durations, a third each. ``tilts`` as in :func:`functory.engine.releases.canary_counts.bins`.
    """
    risks = [(float(risk),) for risk in RISKS]
    parts = [
        _log_mean(_sums(stages, risks, lambda stage, arm: (stage["failed"][arm],))),
        _log_mean(_sums(stages, risks, lambda stage, arm: (stage["attempt_failed"][arm],))),
        _log_mean(_sums(stages, [tuple(t) for t in tilts], lambda stage, arm: stage["durations"][arm]))
        if tilts
        else 0.0,
    ]
    return _exp(_log_mean(parts))


def assignment_evidence(stages: Sequence[Stage], assigned: Sequence[Sequence[int]]) -> float:
    """Return the ratio of evidence that units did not get their version by the share alone. ``assigned`` has the units
    of each stage, of the base and of the canary.
    """
    odds = [(one,) for one in _ODDS]
    logs = [0.0] * len(odds)
    for stage, (base, canary) in zip(stages, assigned, strict=True):
        logs = [a + b for a, b in zip(logs, log_e((canary,), (base,), odds, stage["share"]), strict=True)]
    return _exp(_log_mean(logs))


def log_e(
    canary: Sequence[int], base: Sequence[int], tilts: Iterable[tuple[float, ...]], share: float
) -> list[float]:
    """Return the logarithm of the likelihood ratio for each alternative. ``canary`` and ``base`` count units by bin,
    ``tilts`` has how many times as often the canary has each bin.
    """
    found = []
    for tilt in tilts:
        weights = _weights(tilt, share)
        found.append(
            sum(c * w[0] + b * w[1] for c, b, w in zip(canary, base, weights, strict=True) if c or b)
        )
    return found


def loss(failed: int, units: int, base_failed: int, base_units: int) -> float:
    """Return how many more units would fail, per unit, if the canary replaced the base: the expectation of the positive
    part of the difference, by Jeffreys' posteriors.
    """
    p, q = (failed + 0.5) / (units + 1), (base_failed + 0.5) / (base_units + 1)
    s = sqrt(p * (1 - p) / (units + 1) + q * (1 - q) / (base_units + 1))
    z = (p - q) / s
    return (p - q) * 0.5 * (1 + erf(z / sqrt(2))) + s * exp(-z * z / 2) / sqrt(2 * pi)


def slowdown(stage: Stage) -> float | None:
    """Return the upper bound of how many times as long the canary takes, by the means of the logarithms; None without
    durations of both.
    """
    moments = [_moments(*logs) for logs in stage["logs"]]
    if any(one is None for one in moments):
        return None
    (base_mean, base_error), (mean, error) = (one for one in moments if one is not None)
    return exp(mean - base_mean + _BOUND * sqrt(error + base_error))


def decide(
    stages: Sequence[Stage],
    tilts: Sequence[Sequence[float]],
    assigned: Sequence[Sequence[int]],
    *,
    now: datetime,
    deadline: datetime,
    held_for: str | None = None,
) -> Decision | None:
    """Return what is to be done now; None: go on. ``held_for`` is the reason of one that is held: it is only rolled
    back. Evidence of a wrong assignment comes first, because the other evidence rests on it.
    """
    if held_for == ASSIGNMENT:
        return None
    if held_for is None and assignment_evidence(stages, assigned) >= HOLD_AT:
        return Decision("hold", ASSIGNMENT)
    worse = evidence(stages, tilts)
    if worse >= ROLL_BACK_AT:
        return Decision("roll_back", f"it is worse than the base, {worse:.3g} : 1 against chance")
    if held_for is not None:
        return None
    if not unmet(stages, worse, now):
        return Decision("promote", "it is no worse than the base")
    return Decision("hold", DEADLINE) if now >= deadline else None


def unmet(stages: Sequence[Stage], worse: float, now: datetime) -> list[str]:
    """Return what is missing for a promotion, for a person. ``worse`` is :func:`evidence`."""
    stage = stages[-1]
    (base, canary), (base_failed, failed) = stage["units"], stage["failed"]
    found: list[str] = []
    if canary < LEAST_UNITS:
        found.append(f"{canary} of {LEAST_UNITS} units")
    if (since := now - datetime.fromisoformat(stage["since"])) < LEAST_TIME:
        found.append(f"{since.total_seconds() // 60:.0f} of {LEAST_TIME.total_seconds() // 60:.0f} minutes")
    if worse >= DOUBT:
        found.append(f"it may be worse, {worse:.3g} : 1 against chance")
    if canary < LEAST_UNITS:
        # What follows is not known yet.
        return found
    if (more := loss(failed, canary, base_failed, base)) > MOST_LOSS:
        found.append(f"{more:.1%} more units may fail; {MOST_LOSS:.0%} is allowed")
    slower = slowdown(stage)
    if slower is None:
        found.append("one of the versions has no durations")
    elif slower > MOST_SLOWER:
        found.append(f"it may take {slower:.2f} times as long; {MOST_SLOWER:.2f} is allowed")
    return found


def _sums(
    stages: Sequence[Stage],
    tilts: Sequence[tuple[float, ...]],
    counts: Callable[[Stage, int], Sequence[int]],
) -> list[float]:
    """Return :func:`log_e` of all stages together: their ratios multiply."""
    logs = [0.0] * len(tilts)
    for stage in stages:
        own = log_e(counts(stage, 1), counts(stage, 0), tilts, stage["share"])
        logs = [a + b for a, b in zip(logs, own, strict=True)]
    return logs


@lru_cache(maxsize=1024)
def _weights(tilt: tuple[float, ...], share: float) -> tuple[tuple[float, float], ...]:
    """Return for each bin what a unit of the canary adds to the logarithm, and what one of the base adds."""
    thetas = [share * one / (share * one + 1 - share) for one in tilt]
    return tuple((log(theta / share), log((1 - theta) / (1 - share))) for theta in thetas)


def _log_mean(logs: Sequence[float]) -> float:
    """Return the logarithm of the mean of the exponentials, without overflow."""
    top = max(logs)
    return top + log(sum(exp(one - top) for one in logs) / len(logs))


def _exp(value: float) -> float:
    return exp(min(value, 600.0))


def _moments(count: int, sum_: float, squares: float) -> tuple[float, float] | None:
    """Return a mean and the square of its error; None of fewer than two values."""
    if count < 2:
        return None
    mean = sum_ / count
    return mean, max(0.0, squares / count - mean * mean) / (count - 1)
