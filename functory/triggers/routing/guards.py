"""The guards against event loops, as one pure function. The first guard that refuses a match decides.

Their order: own events, ancestor revisit per (trigger, subject), depth. The root budget is the fourth and the rate the
fifth: they are rows of the routing transaction (``functory.engine.firings.admission``).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from functory.engine.database.schema.events import SuppressionReason
from functory.engine.events import causation
from functory.engine.events.event_row import EventRow
from functory.engine.flow_control import rate_limits
from functory.engine.flow_control.rate_limits import RateGuard
from functory.engine.settings import Settings
from functory.triggers.definition import Guards

# Limits of triggers that a running function saved: an agent can be wrong faster than people notice.
AGENT_DEPTH = 4
AGENT_BUDGET = 50
AGENT_RATE = 60
AGENT_SOURCE_RATE = 600


# The word after ``/functory/`` in the sources of the engine's own events. Any other is the kind of a source.
_ENGINE_SOURCES = frozenset({"executions", "functions", "proposals", "runs", "schedule", "triggers"})
# What the subject of a type names, by the type's first word.
_THINGS = {"file": "file", "row": "row"}
_DEFAULT_DATA = ({"webhook", "headers", "query", "body"}, {"queue", "headers", "body", "properties"})


@dataclass(frozen=True)
class GuardResult:
    """A guard that refuses a match: its name, its limit, the value that exceeded it, and the trigger path."""

    guard: SuppressionReason
    limit: int
    value: int
    detail: str


def effective_guards(guards: Guards, *, by_agent: bool, settings: Settings) -> Guards:
    """A trigger's guards with the settings filled in; ``by_agent``: a running function saved the trigger.

    An agent's trigger cannot raise its own limits: its depth, budget and rate are capped, and it may neither trigger
    itself nor revisit.
    """
    rate = settings.trigger_rate if guards.rate is None else guards.rate
    guards = replace(
        guards,
        rate=rate,
        source_rate=_at_least(settings.trigger_source_rate, rate, guards.source_rate),
        repeat_rate=_at_least(settings.trigger_repeat_rate, guards.rate, guards.repeat_rate),
        max_revisits=guards.acknowledge_cycle or guards.max_revisits,
    )
    if not by_agent:
        return guards
    return replace(
        guards,
        max_depth=min(guards.max_depth or AGENT_DEPTH, AGENT_DEPTH),
        budget=min(guards.budget or AGENT_BUDGET, AGENT_BUDGET),
        rate=min(rate or AGENT_RATE, AGENT_RATE),
        source_rate=min(guards.source_rate or AGENT_SOURCE_RATE, AGENT_SOURCE_RATE),
        repeat_rate=min(guards.repeat_rate or AGENT_RATE, AGENT_RATE),
        max_revisits=1,
        allow_self=False,
    )


def _at_least(setting: int, rate: int | None, own: int | None) -> int:
    """A trigger's ``own`` limit, or else the setting, but never less than its ``rate``; 0 is no limit."""
    if own is not None:
        return own
    return 0 if rate == 0 or setting == 0 else max(setting, rate or 0)


def rate_guards(guards: Guards, event: EventRow) -> tuple[RateGuard, ...]:
    """The limits of rate that count for an event (a row): for its subject, and for the source that it came from.

    What a loop outside the engine sends back begins a tree of its own if its lineage was lost on the way. Only the
    source, the content, and the file or the row are left to count.
    """
    found: list[RateGuard] = []
    subject = event.subject
    source = None if event.cause_execution_id is not None else _outside_source(event.source)
    if guards.rate:
        found.append(_subject_guard(subject, guards.rate))
    if source and guards.source_rate:
        limit = rate_limits.source_limit(source, guards.source_rate)
        found.append(RateGuard("source_rate", limit, f"from {source}", adapts=True))
    if source and guards.repeat_rate:
        found.append(_repeat_guard(source, event, guards.repeat_rate))
    return tuple(found)


def _repeat_guard(source: str, event: EventRow, per_minute: int) -> RateGuard:
    """The limit of what comes again and again: the same file, the same row of a table, else the same content.

    A busy file or row is honest more often than a repeated message: its limit adapts to the trigger's usual rate.
    """
    type_, subject = event.type, event.subject
    thing = _THINGS.get(type_.split(".")[0]) if subject is not None else None
    content = [type_, subject] if thing else [type_, subject, _content(event.data)]
    limit = rate_limits.repeat_limit(source, content, per_minute)
    what = f"of the same {thing}" if thing else "with the same content"
    return RateGuard("repeat_rate", limit, f"{what} from {source}", adapts=thing is not None)


@functools.lru_cache(maxsize=1024)
def _subject_guard(subject: str | None, per_minute: int) -> RateGuard:
    return RateGuard("rate", rate_limits.guard_limit(subject, per_minute), f"for the subject {subject!r}")


@functools.lru_cache(maxsize=1024)
def _outside_source(source: str) -> str | None:
    """Where a root event came from: its source row, or ``/events``, whose senders name their source freely.

    None for the engine's own events, for those of its interfaces, and for schedules, which nothing outside can hurry.
    """
    if source != "/functory" and not source.startswith("/functory/"):
        return "/events"
    kind, _, name = source.removeprefix("/functory/").partition("/")
    return source if name and kind not in _ENGINE_SOURCES else None


def _content(data: Any) -> Any:
    """The data of an event without what differs in each copy: the headers that a webhook's default data shows, and
    the headers and properties of a queue's.
    """
    if isinstance(data, Mapping) and data.keys() in _DEFAULT_DATA:
        return {key: value for key, value in data.items() if key not in ("headers", "properties")}
    return data


def check_guards(
    trigger_id: str, name: str, guards: Guards, event: EventRow, max_depth: int
) -> GuardResult | None:
    """The guard that forbids ``trigger`` to fire on ``event`` (a row with ``chain``, ``depth``, ``subject``).

    ``max_depth`` is the setting; a trigger's own may only be lower. ``max_revisits`` 0 turns the
    revisit guard off; depth and budget still bound the loop.
    """
    chain = event.chain
    if chain and chain[-1]["trigger"] == trigger_id and not guards.allow_self:
        detail = f"its own execution caused this event: {_path(chain, name)}"
        return GuardResult("own_event", 0, 1, detail)
    visits = sum(
        causation.visits(link)
        for link in chain
        if link["trigger"] == trigger_id and link["subject"] == event.subject
    )
    if guards.max_revisits and visits >= guards.max_revisits:
        return GuardResult("cycle", guards.max_revisits, visits + 1, _path(chain, name))
    limit = min(max_depth, guards.max_depth or max_depth)
    if event.depth + 1 > limit:
        return GuardResult("depth", limit, event.depth + 1, _path(chain, name))
    return None


def _path(chain: Sequence[Mapping[str, Any]], name: str) -> str:
    return " → ".join([*(link["name"] for link in chain), name])
