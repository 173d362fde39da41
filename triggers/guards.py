"""The guards against loops, as one pure function; the first that trips decides.

In this order: own events, ancestor revisit per (trigger, subject), depth. The budget of a root is
the fourth: it is a counter in the routing transaction and therefore lives in ``engine.budgets``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from triggers.definition import Guards


@dataclass(frozen=True)
class Trip:
    """Why a match must not run: the guard's name, its limit, the value that exceeded it, and the path."""

    guard: str
    limit: int
    value: int
    detail: str


def trip(trigger_id: str, name: str, guards: Guards, event: Mapping[str, Any], max_depth: int) -> Trip | None:
    """The guard that forbids ``trigger`` to fire on ``event`` (a row with ``chain``, ``depth``, ``subject``).

    ``max_depth`` is the setting; a trigger's own may only be lower. ``max_revisits`` 0 turns the
    revisit guard off; depth and budget still bound the loop.
    """
    chain = event["chain"]
    path = " → ".join([*(link["name"] for link in chain), name])
    if chain and chain[-1]["trigger"] == trigger_id and not guards.allow_self:
        return Trip("own_event", 0, 1, f"its own execution caused this event: {path}")
    visits = sum(1 for link in chain if link["trigger"] == trigger_id and link["subject"] == event["subject"])
    if guards.max_revisits and visits >= guards.max_revisits:
        return Trip("cycle", guards.max_revisits, visits + 1, path)
    limit = min(max_depth, guards.max_depth or max_depth)
    if event["depth"] + 1 > limit:
        return Trip("depth", limit, event["depth"] + 1, path)
    return None
