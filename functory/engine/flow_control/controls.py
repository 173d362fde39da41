"""Flow control of one match, as the engine applies it: a trigger's controls with all keys evaluated.

The ``triggers`` package reads a trigger's ``flow`` and evaluates its CEL; this module has plain data. The
semantics are Inngest's (its documentation of flow control, 2026), the overlap policies Temporal's (schedule.proto).

The order, for one match: guards without rows → idempotency → rate limit → (debounce, batch, composite: it waits in a
buffer, see ``functory.engine.flow_control.buffers``) → target, input, budget, rate guard
(``functory.engine.firings.admission``) → singleton and overlap → throttle → concurrency, priority, expiry
(``functory.engine.firings.launch``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from functory.engine.serialization import json_codec

# Temporal's six. CANCEL_OTHER and TERMINATE_OTHER act on open executions, the others on the new match.
OverlapPolicy = Literal["skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "allow_all"]

# The executions that a concurrency limit counts together.
ConcurrencyScope = Literal["trigger", "function", "global"]

# Executions that BUFFER_ALL lets wait at most (Temporal's limit of buffered starts).
MAX_BUFFERED = 1000


@dataclass(frozen=True)
class Key:
    """A key's value: a hash for the database, and readable text. Equal hashes are the same key."""

    hash: str
    text: str

    @classmethod
    def of(cls, value: object, *scope: str) -> Key:
        """Return the key of a JSON value within a scope; the empty key for None without a scope."""
        text = value if isinstance(value, str) else "" if value is None else json_codec.dumps(value)
        if value is None and not scope:
            return NO_KEY
        return cls(json_codec.digest([*scope, value])[:32], text[:200])


NO_KEY = Key("", "")


@dataclass(frozen=True)
class IdempotencyKey:
    """Idempotency: one firing per key within ``window`` seconds; the first match wins."""

    key: Key
    window: float


@dataclass(frozen=True)
class RateLimit:
    """A rate limit of GCRA: ``limit`` in ``period`` seconds, ``burst`` of them at once."""

    key: Key
    limit: int
    period: float
    burst: int = 1


@dataclass(frozen=True)
class ConcurrencyLimit:
    """A concurrency limit: at most ``capacity`` executions with this key in its scope run at once."""

    key: Key
    capacity: int
    scope: ConcurrencyScope = "trigger"


@dataclass(frozen=True)
class Overlap:
    """The policy for a match while an execution of the same key is open. ``reason`` is recorded for a skipped match."""

    key: Key
    policy: OverlapPolicy
    reason: Literal["overlap", "singleton"] = "overlap"


@dataclass(frozen=True)
class Controls:
    """All controls of a trigger for one match."""

    idempotency: IdempotencyKey | None = None
    rate_limit: RateLimit | None = None
    throttle: RateLimit | None = None
    concurrency_limits: tuple[ConcurrencyLimit, ...] = ()
    overlap: Overlap | None = None
    priority: float = 0.0  # seconds that it is queued earlier (Inngest: -600 to 600)
    expires_after: float | None = None  # seconds after which it is no longer started


NO_CONTROLS = Controls()
