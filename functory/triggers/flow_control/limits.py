"""Controls that limit matches and executions: throttle, rate limit, concurrency, overlap, idempotency, priority.

Each is read from its part of a trigger's ``flow`` and evaluated for one match, with ``variables`` (``event``, ``data``)
for its expressions. Names, limits and meanings are Inngest's (its documentation of flow control, 2026), overlap
policies are Temporal's (schedule.proto). Differences are described here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from functory.engine.errors import Invalid
from functory.engine.flow_control.controls import (
    NO_KEY,
    ConcurrencyLimit,
    ConcurrencyScope,
    IdempotencyKey,
    Key,
    Overlap,
    OverlapPolicy,
    RateLimit,
)
from functory.engine.serialization.durations import parse
from functory.triggers.expressions.values import ValueExpression, compile_value
from functory.triggers.flow_control import fields

WEEK = 7 * 86_400.0
DAY = 86_400.0
# Inngest's bounds of a priority, seconds.
MAX_PRIORITY_SECONDS = 600.0
# Starts or executions that a limit may let through at once.
MAX_LIMIT = 1_000_000

Variables = Mapping[str, Any]

# What a trigger may name: Temporal's six, and "as the event of the schedule says".
_POLICIES = (*get_args(OverlapPolicy), "schedule")
_SCOPES = get_args(ConcurrencyScope)
_MODES: Mapping[str, OverlapPolicy] = {"skip": "skip", "cancel": "cancel_other"}


def evaluate_key(key: ValueExpression | None, variables: Variables) -> Key:
    """The value of a key for one match. Raises :class:`Invalid`."""
    return NO_KEY if key is None else Key.of(key.evaluate(variables))


@dataclass(frozen=True)
class Rate:
    """``limit`` in ``period`` seconds, ``burst`` of them at once: a throttle (the excess waits) or a rate limit (the
    excess is dropped). It is GCRA: with a burst of 1, one each ``period / limit`` seconds."""

    limit: int
    period: float
    burst: int
    key: ValueExpression | None

    @classmethod
    def parse(cls, given: Any, what: str) -> Rate:
        """Read the control ``what``. Raises :class:`Invalid`."""
        example = f'"{what}": {{"limit": 3, "period": "1m", "key": "data.customer"}}'
        found = fields.check_object(given, what, ("limit", "period", "burst", "key"), example)
        return cls(
            fields.integer(fields.needed(found, "limit", what, example), f"limit of {what}", 1, MAX_LIMIT),
            parse(fields.needed(found, "period", what, example), f"period of {what}", 1, WEEK),
            fields.integer(found.get("burst", 1), f"burst of {what}", 1, MAX_LIMIT),
            fields.compile_key(found, what),
        )

    def evaluate(self, variables: Variables) -> RateLimit:
        """The rate for one match. Raises :class:`Invalid`."""
        return RateLimit(evaluate_key(self.key, variables), self.limit, self.period, self.burst)


@dataclass(frozen=True)
class Concurrency:
    """At most ``limit`` executions with this key in this scope run at once. Those that wait for a retry do not count.

    The scope ``trigger`` is this trigger, ``function`` all triggers that limit this function, ``global`` all triggers
    that use this key; each trigger applies its own limit. With a limit of 1 executions start in the order of events.
    """

    limit: int
    key: ValueExpression | None
    scope: ConcurrencyScope

    @classmethod
    def parse(cls, given: Any) -> tuple[Concurrency, ...]:
        """Read one limit, or a list of two. Raises :class:`Invalid`."""
        example = '"concurrency": {"limit": 5, "key": "data.customer"}'
        listed = list(given) if isinstance(given, list | tuple) else [given]
        if not 1 <= len(listed) <= 2:
            raise Invalid("wrong concurrency", f"it must be one limit or two, got {len(listed)}", example)
        return tuple(cls._one(one, example) for one in listed)

    @classmethod
    def _one(cls, given: Any, example: str) -> Concurrency:
        found = fields.check_object(given, "concurrency", ("limit", "key", "scope"), example)
        limit = fields.needed(found, "limit", "concurrency", example)
        scope: Any = fields.choice(found.get("scope", "trigger"), "scope of concurrency", _SCOPES)
        key = fields.compile_key(found, "concurrency")
        if scope == "global" and key is None:
            raise Invalid(
                "concurrency of scope global has no key",
                "the key names what is shared",
                '"concurrency": {"limit": 5, "scope": "global", "key": "\'printer\'"}',
            )
        return cls(fields.integer(limit, "limit of concurrency", 1, MAX_LIMIT), key, scope)

    def evaluate(self, variables: Variables) -> ConcurrencyLimit:
        """The limit for one match. Raises :class:`Invalid`."""
        return ConcurrencyLimit(evaluate_key(self.key, variables), self.limit, self.scope)


@dataclass(frozen=True)
class OverlapRule:
    """What happens to a match while an execution of the same key is open: an overlap policy, or a singleton."""

    policy: OverlapPolicy | Literal["schedule"]
    key: ValueExpression | None
    reason: Literal["overlap", "singleton"]

    @classmethod
    def parse_overlap(cls, given: Any) -> OverlapRule:
        """Read ``overlap``: a policy, or an object with a policy and a key. Raises :class:`Invalid`."""
        example = '"overlap": "skip", or {"policy": "buffer_one", "key": "data.customer"}'
        found = {"policy": given} if isinstance(given, str) else given
        found = fields.check_object(found, "overlap", ("policy", "key"), example)
        policy = fields.needed(found, "policy", "overlap", example)
        chosen: Any = fields.choice(policy, "overlap policy", _POLICIES)
        return cls(chosen, fields.compile_key(found, "overlap"), "overlap")

    @classmethod
    def parse_singleton(cls, given: Any) -> OverlapRule:
        """Read ``singleton``: ``mode`` skip or cancel. Raises :class:`Invalid`."""
        example = '"singleton": {"key": "data.customer", "mode": "skip"}'
        found = fields.check_object(given, "singleton", ("key", "mode"), example)
        mode = fields.choice(fields.needed(found, "mode", "singleton", example), "mode of singleton", _MODES)
        return cls(_MODES[mode], fields.compile_key(found, "singleton"), "singleton")

    def evaluate(self, variables: Variables) -> Overlap | None:
        """The overlap for one match; None when any number of executions may run. Raises :class:`Invalid`."""
        if self.policy == "allow_all":
            return None
        policy = _scheduled(variables["data"]) if self.policy == "schedule" else self.policy
        return Overlap(evaluate_key(self.key, variables), policy, self.reason)


def _scheduled(data: Any) -> OverlapPolicy:
    """The policy in the event of a schedule; ``allow_all`` without one."""
    found = data.get("overlap") if isinstance(data, Mapping) else None
    return next((policy for policy in get_args(OverlapPolicy) if policy == found), "allow_all")


@dataclass(frozen=True)
class Idempotency:
    """An idempotency key: one firing with the same key within ``window`` seconds of the first."""

    key: ValueExpression
    window: float

    @classmethod
    def parse(cls, given: Any) -> Idempotency:
        """Read ``idempotency``. Raises :class:`Invalid`."""
        example = '"idempotency": {"key": "data.order_id", "window": "24h"}'
        found = fields.check_object(given, "idempotency", ("key", "window"), example)
        text = fields.needed(found, "key", "idempotency", example)
        window = parse(found.get("window", DAY), "window of idempotency", 1, WEEK)
        return cls(compile_value(text, "the key of idempotency"), window)

    def evaluate(self, variables: Variables) -> IdempotencyKey:
        """The key for one match. Raises :class:`Invalid`."""
        return IdempotencyKey(Key.of(self.key.evaluate(variables)), self.window)


@dataclass(frozen=True)
class Priority:
    """Seconds by which an execution moves forward in the queue; a negative number moves it back."""

    run: ValueExpression

    @classmethod
    def parse(cls, given: Any) -> Priority:
        """Read ``priority``. Raises :class:`Invalid`."""
        example = '"priority": {"run": "data.plan == \'paid\' ? 120 : 0"}'
        found = fields.check_object(given, "priority", ("run",), example)
        text = fields.needed(found, "run", "priority", example)
        return cls(compile_value(text, "the priority", example="data.urgent ? 120 : 0"))

    def evaluate(self, variables: Variables) -> float:
        """The seconds for one match, bounded to -600 and 600. Raises :class:`Invalid`."""
        found = self.run.evaluate(variables)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise Invalid("the priority is not a number for this event", f"got a {type(found).__name__}")
        return float(max(-MAX_PRIORITY_SECONDS, min(MAX_PRIORITY_SECONDS, found)))
