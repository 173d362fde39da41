"""When a model may be asked: its circuit breaker, its rates and its slots. Pure.

The breaker opens after some failures in a row, for a time that doubles while it opens again and again. After that time
one call tries the model: its success closes the breaker, its failure opens it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from functory.engine.backoff import pause

# Failures in a row that open the breaker, and how long it stays open (seconds) at first and at most.
FAILURES_TO_OPEN = 5
OPEN_SECONDS, MOST_OPEN_SECONDS = 15.0, 600.0
_MINUTE = timedelta(seconds=60)


@dataclass(frozen=True)
class Health:
    """What is known of a model: a row of ``model_health``."""

    failures: int = 0
    opened: int = 0
    open_until: datetime | None = None
    trial_call_id: str | None = None
    problem: str | None = None
    calls_allowed_at: datetime | None = None
    tokens_allowed_at: datetime | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Health:
        return cls(**{name: row[name] for name in cls.__dataclass_fields__})

    def as_row(self, model: str) -> dict[str, Any]:
        return {"model": model, **{name: getattr(self, name) for name in self.__dataclass_fields__}}


def is_open(health: Health, now: datetime) -> bool:
    """Return True while the breaker lets no call through, or only the one that tries the model."""
    if health.open_until is None:
        return False
    return health.open_until > now or health.trial_call_id is not None


def failed(health: Health, call_id: str, problem: str, now: datetime) -> Health:
    """Return the state after a failure that is the provider's fault."""
    failures = health.failures + 1
    is_trial = health.trial_call_id == call_id
    if not is_trial and (failures < FAILURES_TO_OPEN or health.open_until is not None):
        return replace(health, failures=failures, problem=problem)
    seconds = pause(health.opened + 1, OPEN_SECONDS, MOST_OPEN_SECONDS)
    return replace(
        health,
        failures=failures,
        opened=min(health.opened + 1, 20),
        open_until=now + timedelta(seconds=seconds),
        trial_call_id=None,
        problem=problem,
    )


def answered(health: Health, call_id: str) -> Health:
    """Return the state after an answer, also one that says that the request was wrong: the provider works."""
    if health.open_until is not None and health.trial_call_id != call_id:
        # An answer to what was sent before the breaker opened.
        return health
    return replace(health, failures=0, opened=0, open_until=None, trial_call_id=None, problem=None)


def without_trial(health: Health, call_id: str) -> Health:
    """Return the state after the call that tried the model has ended without a word about the provider."""
    return replace(health, trial_call_id=None) if health.trial_call_id == call_id else health


@dataclass
class Admission:
    """Lets calls of one model go, one after the other. ``in_flight`` is the number of those that are sent."""

    model: Mapping[str, Any]
    health: Health
    in_flight: int
    now: datetime

    def free(self) -> int:
        """Return how many calls may go now at most; their tokens are not counted yet."""
        if self.model["state"] != "enabled":
            # They are refused, all of them.
            return 1_000
        if is_open(self.health, self.now):
            return 0
        if self.health.open_until is not None:
            return 1
        if self.wait(0) > timedelta():
            return 0
        return max(0, self.model["slots"] - self.in_flight)

    def wait(self, tokens: int) -> timedelta:
        """Return how long a call with this number of tokens has to wait for the rates; nothing when it may go."""
        return max(
            _wait(self.health.calls_allowed_at, self.model["calls_per_minute"], 1, self.now),
            _wait(self.health.tokens_allowed_at, self.model["tokens_per_minute"], tokens, self.now),
        )

    def until_free(self) -> timedelta | None:
        """Return how long to wait until a call may go; None when only the end of another one decides."""
        if is_open(self.health, self.now):
            until = self.health.open_until
            return None if until is None or until <= self.now else until - self.now
        waits = self.wait(0)
        return waits if waits > timedelta() else None

    def take(self, call_id: str, tokens: int) -> None:
        """Let one call go."""
        self.in_flight += 1
        health = self.health
        if health.open_until is not None:
            health = replace(health, trial_call_id=call_id)
        self.health = replace(
            health,
            calls_allowed_at=_after(health.calls_allowed_at, self.model["calls_per_minute"], 1, self.now),
            tokens_allowed_at=_after(
                health.tokens_allowed_at, self.model["tokens_per_minute"], tokens, self.now
            ),
        )


def _wait(allowed_at: datetime | None, per_minute: int | None, count: int, now: datetime) -> timedelta:
    """GCRA (ITU-T I.371) with a burst of one minute's worth: ``allowed_at`` is when all that was taken has been earned.

    More than a minute's worth is let through when nothing else is owed: it would never be allowed otherwise.
    """
    if per_minute is None or allowed_at is None:
        return timedelta()
    cost = _MINUTE * min(max(count, 1), per_minute) / per_minute
    return max(timedelta(), allowed_at + cost - _MINUTE - now)


def _after(allowed_at: datetime | None, per_minute: int | None, count: int, now: datetime) -> datetime | None:
    if per_minute is None:
        return None
    return max(allowed_at or now, now) + _MINUTE * count / per_minute
