"""Pauses between the tries of something that fails: each is longer than the one before, up to a most.

It knows no database and no settings, so that a client of a server can use it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

# The usual ``spread`` where many processes meet the same failure: they must not all come back at once.
HALF = 0.5
# Enough doublings for every pair of pauses. A float has no larger power of two.
_MOST_DOUBLINGS = 1023


def pause(
    tries: int, first: float, most: float, *, spread: float = 0.0, draw: float = 0.0, growth: float = 2.0
) -> float:
    """Return the seconds to wait after ``tries`` failed tries (0 is taken as 1).

    It is ``first`` after one try, ``growth`` times (1 to 2) the one before after each further try, and never over
    ``most``. Both are in seconds. ``spread`` (0 to 1) is the part of the pause that depends on chance, and ``draw``
    the random number (0 to 1) for it: with 0.5 the pause is between its half and its whole.
    """
    whole = min(most, first * growth ** min(max(tries - 1, 0), _MOST_DOUBLINGS))
    return whole * (1.0 - spread + spread * draw)


class Backoff:
    """The pauses of one thing that is tried again and again. Not for several threads at once.

    ``first``, ``most`` and ``spread`` are those of :func:`pause`. ``draw`` gives a random number from 0 to 1.
    """

    def __init__(
        self, first: float, most: float, *, spread: float = 0.0, draw: Callable[[], float] = random.random
    ) -> None:
        self._first = first
        self._most = most
        self._spread = spread
        self._draw = draw
        self._failures = 0

    def failed(self) -> float:
        """Count one more failure. Returns the seconds to wait before the next try."""
        self._failures += 1
        draw = self._draw() if self._spread else 0.0
        return pause(self._failures, self._first, self._most, spread=self._spread, draw=draw)

    def succeeded(self) -> None:
        """Forget the failures: the next pause is the first one again."""
        self._failures = 0
