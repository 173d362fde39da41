"""The step between the fork and user code at which the child gives up its rights, for good.

The child calls ``confine`` after its own set-up and before any user code is compiled; an exception in
it ends the execution before user code starts. ``TIER`` names what this build enforces: ``none`` means
that a function can do whatever the worker's user can, which ``Runner.start`` says loudly.
"""

from __future__ import annotations

from workers.sandbox.job import Limits

TIER = "none"


def confine(limits: Limits) -> str:
    """Give up what ``limits`` does not grant; returns the name of the tier that now holds."""
    del limits
    return TIER
