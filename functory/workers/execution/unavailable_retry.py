"""Retries a request of a running function while the database is unavailable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from functory.engine.errors import Unavailable, Uncertain

# First and longest pause between two tries, in seconds; each pause doubles the one before.
PAUSE_SECONDS = 0.1
LONGEST_PAUSE = 2.0

T = TypeVar("T")


def retry_while_unavailable(
    operation: Callable[[], T], ended: threading.Event, *, repeatable: bool = True
) -> T:
    """The result of ``operation``, as soon as the database answers. Raises the last error once ``ended`` is set.

    An operation that is not ``repeatable`` is not retried when its commit outcome is unknown.
    """
    pause = PAUSE_SECONDS
    while True:
        try:
            return operation()
        except Unavailable as error:
            if (isinstance(error, Uncertain) and not repeatable) or ended.wait(pause):
                raise
            pause = min(pause * 2, LONGEST_PAUSE)
