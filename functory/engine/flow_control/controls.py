"""Flow control as the engine applies it: what a trigger says of one match, with every key worked out.

The ``triggers`` package reads a trigger's ``flow`` and evaluates its CEL; what arrives here is plain data. The
semantics are Inngest's (its documentation of flow control, 2026), the overlap policies Temporal's (schedule.proto).

The order, for one match: guards that need no rows → idempotency → rate limit → (debounce, batch, composite: it
waits in a bucket, see ``engine.flow_control.buffers``) → target, input, budget, rate guard
(``engine.triggers.admission``) → singleton and
overlap → throttle → lanes, priority, expiry (``functory.engine.triggers.launch``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from functory.engine.serialization import json_codec

# Temporal's six (CANCEL_OTHER and TERMINATE_OTHER act on what is open; the others on the newcomer).
OverlapPolicy = Literal["skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "allow_all"]

# Whose executions count together in a concurrency limit.
ConcurrencyScope = Literal["trigger", "function", "global"]

# What a BUFFER_ALL line holds at the most (Temporal's limit of buffered starts).
MAX_BUFFERED = 1000


@dataclass(frozen=True)
class Key:
    """A key's value: hashed for the database, and as people read it. Equal hashes are the same key."""

    hash: str
    text: str

    @classmethod
    def of(cls, value: object, *scope: str) -> Key:
        """The key of a JSON value within a scope; the empty key for None without a scope."""
        text = value if isinstance(value, str) else "" if value is None else json_codec.dumps(value)
        if value is None and not scope:
            return NO_KEY
        return cls(json_codec.digest([*scope, value])[:32], text[:200])


NO_KEY = Key("", "")


@dataclass(frozen=True)
class IdempotencyKey:
    """Idempotency: one firing a key within ``window`` seconds; the first wins."""

    key: Key
    window: float


@dataclass(frozen=True)
class RateLimit:
    """A rate as GCRA has it: ``limit`` in ``period`` seconds, ``burst`` of them at once."""

    key: Key
    limit: int
    period: float
    burst: int = 1


@dataclass(frozen=True)
class ConcurrencyLimit:
    """A concurrency limit: of all executions with this key in its scope, ``capacity`` run at a time."""

    key: Key
    capacity: int
    scope: ConcurrencyScope = "trigger"


@dataclass(frozen=True)
class Overlap:
    """What to do when an execution of the same key is still open. ``reason`` is recorded where one is skipped."""

    key: Key
    policy: OverlapPolicy
    reason: Literal["overlap", "singleton"] = "overlap"


@dataclass(frozen=True)
class Controls:
    """All that a trigger's flow control says of one match."""

    idempotency: IdempotencyKey | None = None
    rate_limit: RateLimit | None = None
    throttle: RateLimit | None = None
    concurrency_limits: tuple[ConcurrencyLimit, ...] = ()
    overlap: Overlap | None = None
    priority: float = 0.0  # seconds by which it goes before others (Inngest: -600 to 600)
    expires_after: float | None = None  # seconds after which it is not started any more


NO_CONTROLS = Controls()
