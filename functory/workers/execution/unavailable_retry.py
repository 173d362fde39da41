"""Retries a request of a running function while the database is unavailable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from functory.engine.backoff import HALF, Backoff
from functory.engine.errors import Unavailable, Uncertain

# First and longest pause between two tries, in seconds.
PAUSE_SECONDS = 0.1
LONGEST_PAUSE = 2.0


def _ignore(_error: Unavailable) -> None: ...


T = TypeVar("T")


def retry_while_unavailable(
    operation: Callable[[], T],
    ended: threading.Event,
    *,
    repeatable: bool = True,
    longest_pause: float = LONGEST_PAUSE,
    on_wait: Callable[[Unavailable], None] = _ignore,
) -> T:
    """The result of ``operation``, as soon as the database answers. Raises the last error once ``ended`` is set.

    An operation that is not ``repeatable`` is not retried when its commit outcome is unknown. ``on_wait`` is called
    before the first pause; a pause lasts at most ``longest_pause`` seconds.
    """
    # Spread, because the executions of all workers wait for the same database.
    backoff = Backoff(PAUSE_SECONDS, longest_pause, spread=HALF)
    waited = False
    while True:
        try:
            return operation()
        except Unavailable as error:
            if isinstance(error, Uncertain) and not repeatable:
                raise
            if not waited:
                # Once for an outage: many executions wait at the same time.
                on_wait(error)
                waited = True
            if ended.wait(backoff.failed()):
                raise
