"""Throttle: a trigger's executions beyond its rate start later. The excess of a rate limit is dropped instead.

Two GCRA timelines (:mod:`functory.engine.flow_control.rate_limits`) keep the rate of a key:

- *Reservations*: the transaction that queues an execution reserves the next free time of its key. Executions are
  therefore due at the distance of the rate, in the order of their matches.
- *Starts*: the transaction that claims an attempt takes a token. A reserved time may be long past when a worker is free
  at last; only the token says whether the rate allows a start now. Every attempt is a start, a retry too.

A claim without a token puts the execution back (``functory.engine.executions.throttled_claims``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from functory.engine.database.transaction import Tx
from functory.engine.flow_control import rate_limits
from functory.engine.flow_control.controls import RateLimit
from functory.engine.flow_control.rate_limits import RateLimits, emission_interval

# Executions whose turns are closer together than this, the usual time of a message, may start in another order.
# Without the tolerance each late message would delay all that follow, which a fast rate could not make up for.
MESSAGE_TIME = timedelta(milliseconds=250)


@dataclass(frozen=True)
class Reservation:
    """When an execution is due, and its place: the places of a key are distinct and in the order of its matches."""

    due_at: datetime
    place: datetime


class Throttles(RateLimits):
    """The reservations of one transaction's matches, locked until the commit."""

    def __init__(self, tx: Tx, requested: Iterable[tuple[str, RateLimit]]) -> None:
        """``requested`` has the id of each trigger and its throttle."""
        super().__init__(tx, "throttle", requested)

    def reserve(self, trigger_id: str, limit: RateLimit) -> Reservation:
        """Take the next free place of the key: due now or later."""
        state = self._state(trigger_id, limit)
        due_at, state.next_allowed_at = rate_limits.reserve(state.next_allowed_at, self._tx.now, limit)
        return Reservation(due_at, state.next_allowed_at)


class StartTokens(RateLimits):
    """The tokens of the keys that one transaction claims attempts of, locked until the commit."""

    used_while_locked = False

    def __init__(self, tx: Tx, requested: Iterable[tuple[str, RateLimit]]) -> None:
        """``requested`` has the id of each trigger and its throttle."""
        super().__init__(tx, "start", requested)

    def take(self, trigger_id: str, asked: Sequence[tuple[RateLimit, int]]) -> list[datetime | None]:
        """Take tokens of one key: see :func:`take_tokens`."""
        state = self._state(trigger_id, asked[0][0])
        state.next_allowed_at, found = take_tokens(state.next_allowed_at, self._tx.now, asked)
        return found


def take_tokens(
    next_allowed_at: datetime, now: datetime, asked: Sequence[tuple[RateLimit, int]]
) -> tuple[datetime, list[datetime | None]]:
    """Decide which executions of one key start now: a pure function.

    ``asked`` is in the order of their places. It has the throttle of each, and the number of executions with an earlier
    place that do not ask now: each of them may have an interval of its own before this one starts. Returns the new
    ``next_allowed_at``, and for each execution None (it starts), or the time at which it may ask again.
    """
    found: list[datetime | None] = []
    refused = 0
    for limit, ahead in asked:
        interval = emission_interval(limit)
        allowed_at = next_allowed_at - interval * (limit.burst - 1)
        turn = allowed_at + interval * (ahead + refused)
        if allowed_at <= now and turn <= now + MESSAGE_TIME:
            next_allowed_at = max(next_allowed_at, now) + interval
            found.append(None)
        else:
            refused += 1
            found.append(turn)
    return next_allowed_at, found
