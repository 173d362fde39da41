"""The guards against event loops, as one pure function. The first guard that refuses a match decides.

Their order: own events, ancestor revisit per (trigger, subject), depth. The root budget is the fourth and the rate the
fifth: they are rows of the routing transaction (``functory.engine.triggers.admission``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from functory.engine.events import causation
from functory.engine.settings import Settings
from functory.triggers.definition import Guards

# Limits of triggers that a running function saved: an agent can be wrong faster than people notice.
AGENT_DEPTH = 4
AGENT_BUDGET = 50
AGENT_RATE = 60


@dataclass(frozen=True)
class GuardResult:
    """A guard that refuses a match: its name, its limit, the value that exceeded it, and the trigger path."""

    guard: str
    limit: int
    value: int
    detail: str


def effective_guards(guards: Guards, *, by_agent: bool, settings: Settings) -> Guards:
    """A trigger's guards with the settings filled in; ``by_agent``: a running function saved the trigger.

    An agent's trigger cannot raise its own limits: its depth, budget and rate are capped, and it may neither trigger
    itself nor revisit.
    """
    rate = settings.trigger_rate if guards.rate is None else guards.rate
    revisits = guards.acknowledge_cycle or guards.max_revisits
    if not by_agent:
        return replace(guards, rate=rate, max_revisits=revisits)
    return replace(
        guards,
        max_depth=min(guards.max_depth or AGENT_DEPTH, AGENT_DEPTH),
        budget=min(guards.budget or AGENT_BUDGET, AGENT_BUDGET),
        rate=min(rate or AGENT_RATE, AGENT_RATE),
        max_revisits=1,
        allow_self=False,
    )


def check_guards(
    trigger_id: str, name: str, guards: Guards, event: Mapping[str, Any], max_depth: int
) -> GuardResult | None:
    """The guard that forbids ``trigger`` to fire on ``event`` (a row with ``chain``, ``depth``, ``subject``).

    ``max_depth`` is the setting; a trigger's own may only be lower. ``max_revisits`` 0 turns the
    revisit guard off; depth and budget still bound the loop.
    """
    chain = event["chain"]
    path = " → ".join([*(link["name"] for link in chain), name])
    if chain and chain[-1]["trigger"] == trigger_id and not guards.allow_self:
        return GuardResult("own_event", 0, 1, f"its own execution caused this event: {path}")
    visits = sum(
        causation.visits(link)
        for link in chain
        if link["trigger"] == trigger_id and link["subject"] == event["subject"]
    )
    if guards.max_revisits and visits >= guards.max_revisits:
        return GuardResult("cycle", guards.max_revisits, visits + 1, path)
    limit = min(max_depth, guards.max_depth or max_depth)
    if event["depth"] + 1 > limit:
        return GuardResult("depth", limit, event["depth"] + 1, path)
    return None
