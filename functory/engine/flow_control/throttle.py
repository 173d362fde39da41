"""Throttle: a trigger's matches beyond its rate wait, each for the next free time of its key.

The excess of a rate limit is dropped; that of a throttle starts later. Both are GCRA, see
:mod:`functory.engine.flow_control.rate_limits`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from functory.engine.database.transaction import Tx
from functory.engine.flow_control import rate_limits
from functory.engine.flow_control.controls import RateLimit
from functory.engine.flow_control.rate_limits import RateLimits


class Throttles(RateLimits):
    """The throttles of one transaction's matches, locked until the commit."""

    def __init__(self, tx: Tx, requested: Iterable[tuple[str, RateLimit]]) -> None:
        """``requested`` has the id of each trigger and its throttle."""
        super().__init__(tx, "throttle", requested)

    def reserve(self, trigger_id: str, limit: RateLimit) -> datetime:
        """Take the next free time of the key, and return it: now or later."""
        state = self._state(trigger_id, limit)
        start, state.next_allowed_at = rate_limits.reserve(state.next_allowed_at, self._tx.now, limit)
        return start
