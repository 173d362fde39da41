"""Thread switches of a process whose threads hand work to each other."""

from __future__ import annotations

import sys

# Longest time (seconds) that a thread may hold the interpreter while others wait. The threads of a role hand work to
# each other in steps far shorter than the default of 5 ms: the embedded roles gain a third by it.
SECONDS = 0.0005


def shorten() -> None:
    """Let waiting threads run sooner, unless the program has chosen a shorter time."""
    sys.setswitchinterval(min(sys.getswitchinterval(), SECONDS))
