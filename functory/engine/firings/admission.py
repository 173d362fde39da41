"""Admission: the checks against stored rows that a match passes before it becomes an execution, in their order.

The target function must exist (:meth:`Admission.find_targets`). The caller makes its input, which must fit. Then come
the guards that count (:func:`admit`): the root budget, the trigger's circuit breaker, its rates. A refused match keeps
its reason with limit and value. The guards that need no rows (own events, revisits, depth) come earlier, in
``functory.triggers.routing.guards``.

Each check decides over states that it is given: they are loaded from rows here, and a backtest keeps them in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.database.id_lists import one_of_keys
from functory.engine.database.schema import suppression
from functory.engine.database.schema.events import SuppressionReason
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow, columns
from functory.engine.events import store as event_store
from functory.engine.events.event_row import EventRow, FiringEvent
from functory.engine.executions import root_budget
from functory.engine.executions.compensation import compensable_steps
from functory.engine.firings import usual_rates
from functory.engine.firings.routing_facts import RoutingFacts
from functory.engine.flow_control import circuit_breaker
from functory.engine.flow_control.circuit_breaker import Breakers, BreakerStates
from functory.engine.flow_control.controls import NO_CONTROLS, Controls
from functory.engine.flow_control.rate_limits import RateGuard, RateLimits, RateLimitStates
from functory.engine.flow_control.trigger_row import FiringTrigger, TriggerRow
from functory.engine.functions import dependencies
from functory.engine.functions.dependencies import Reference
from functory.engine.functions.open_canaries import Assigned, OpenCanary
from functory.engine.functions.version_cache import VersionCache
from functory.engine.functions.version_row import StartVersion


@dataclass(frozen=True)
class Fire:
    """A trigger that matched: start ``function``.

    ``budget`` is the trigger's own limit of the root budget, ``rate_guards`` are its limits of rate for this event.
    ``events`` are the rows of all events of a firing that stands for several: each gets a firing, and the execution
    belongs to the causal tree of the event that it is admitted with. ``is_step``: the execution is a step of the
    executions that caused the events, and is compensated with their other steps.
    """

    trigger: TriggerRow
    function: str
    budget: int | None = None
    rate_guards: tuple[RateGuard, ...] = ()
    controls: Controls = NO_CONTROLS
    events: Sequence[EventRow] = ()
    is_step: bool = False

    @property
    def in_shadow(self) -> bool:
        """True when the trigger only records what it would do: it takes nothing from a budget and starts nothing."""
        return self.trigger.state == "shadow"


@dataclass(frozen=True)
class Suppress:
    """A trigger that matched but must not run: the reason, with limit and actual value."""

    trigger: FiringTrigger
    reason: SuppressionReason
    limit: int | None = None
    actual: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class Target:
    """The version that a match starts. ``assigned`` is what the open canary of its function has chosen."""

    version: StartVersion
    assigned: Assigned | None = None


@dataclass(frozen=True)
class Admitted:
    """A match that may run: the event's row, the trigger's decision, the target and its input."""

    event: EventRow
    fire: Fire
    target: Target
    input: Mapping[str, Any]


Match = tuple[EventRow, Fire]
SuppressedMatch = tuple[FiringEvent, Suppress]

NO_CANARIES: Mapping[str, OpenCanary] = {}


class Admission:
    """Admits the matches of one database, and keeps the function versions that they start. One thread uses it."""

    def __init__(self, max_budget: int) -> None:
        """``max_budget`` is the number of executions that one root event may cause."""
        self.max_budget = max_budget
        self.versions = VersionCache()

    def find_targets(self, tx: Tx, fires: Sequence[Match], facts: RoutingFacts) -> list[Target | Suppress]:
        """Return what each match starts, or why it cannot (:func:`choose_targets`). ``facts`` are of this
        transaction.
        """
        references = map(dependencies.parse_reference, {fire.function for _, fire in fires})
        found = self.versions.load(tx, references, facts.function_changes)
        return choose_targets(fires, found, self.versions.canaries)


def admit(
    tx: Tx, ready: Sequence[Admitted], max_budget: int, facts: RoutingFacts
) -> tuple[list[Admitted], list[SuppressedMatch]]:
    """Split matches into admitted and suppressed ones. The admitted ones use up their root budgets and rates.

    Rates belong to a trigger, so those of a trigger in shadow are its own. The budget of a root is shared: a match in
    shadow is compared with it and takes nothing from it. ``facts`` are of this transaction.
    """
    if not ready:
        return [], []
    ready, late = _before_failure(tx, ready)
    wanted = _count_by_root(ready)
    read_used = root_budget.take(tx, wanted, max_budget)
    ready, over = _check_limits(tx, ready, read_used, facts)
    if over:
        kept = _count_by_root(ready)
        root_budget.give_back(tx, {root: count - kept.get(root, 0) for root, count in wanted.items()})
    return ready, [*late, *over]


def choose_targets(
    fires: Sequence[Match],
    versions: Mapping[Reference, StartVersion],
    canaries: Mapping[str, OpenCanary] = NO_CANARIES,
) -> list[Target | Suppress]:
    """Return what each match starts, of ``versions`` by reference, or that its function is not available. An open
    canary chooses the version of a trigger that names none.
    """
    found = {
        name: versions.get(dependencies.parse_reference(name)) for name in {one.function for _, one in fires}
    }
    targets: list[Target | Suppress] = []
    for event, fire in fires:
        version = found[fire.function]
        if version is None or version.state != "enabled":
            detail = unavailable(fire.function, version)
            targets.append(Suppress(fire.trigger, "function_unavailable", detail=detail))
        elif canaries and (canary := canaries.get(fire.function)) is not None:
            assigned = canary.assign(event.root_id, event.subject)
            targets.append(Target(assigned.choose(version), assigned))
        else:
            targets.append(Target(version))
    return targets


def unavailable(function: str, version: StartVersion | None) -> str:
    """Return why a function starts nothing; ``version`` is None where there is none."""
    return f"function {function} " + ("does not exist" if version is None else f"is {version.state}")


def _before_failure(tx: Tx, ready: Sequence[Admitted]) -> tuple[list[Admitted], list[SuppressedMatch]]:
    """Suppress steps of executions that have failed meanwhile: their compensation plan is written without them."""
    due = [item for item in ready if item.fire.is_step]
    if not due:
        return list(ready), []
    failed = compensable_steps.find_late_events(
        tx, {row.id: row for item in due for row in (item.event, *item.fire.events)}.values()
    )
    kept: list[Admitted] = []
    refused: list[SuppressedMatch] = []
    for item in ready:
        by = next((failed[row.id] for row in (item.event, *item.fire.events) if row.id in failed), None)
        if by is None or not item.fire.is_step:
            kept.append(item)
            continue
        detail = f"it would be undone at once: execution {by}, which it is a step of, has failed"
        refused.append((item.event, Suppress(item.fire.trigger, "undone", detail=detail)))
    return kept, refused


def _count_by_root(ready: Sequence[Admitted]) -> dict[str, int]:
    """Return the executions that each root starts; 0 where all are in shadow."""
    counts: dict[str, int] = {}
    for item in ready:
        root = item.event.root_id
        counts[root] = counts.get(root, 0) + (not item.fire.in_shadow)
    return counts


class _InShadow(TypedRow, frozen=True):
    """How often a trigger in shadow would have fired in a tree (columns of table ``suppression``)."""

    trigger_id: str
    root_id: str
    count: int


def _count_in_shadow(tx: Tx, ready: Sequence[Admitted]) -> dict[tuple[str, str], int]:
    """Return the matches of triggers in shadow that would have fired so far, by trigger and root."""
    keys = sorted({(item.fire.trigger.id, item.event.root_id) for item in ready if item.fire.in_shadow})
    if not keys:
        return {}
    mine = one_of_keys((suppression.c.trigger_id, suppression.c.root_id), keys)
    rows = tx.all(
        _InShadow,
        sa.select(*columns(_InShadow, suppression)).where(mine, suppression.c.reason == "shadow"),
    )
    return {(row.trigger_id, row.root_id): row.count for row in rows}


class RootBudgets:
    """The root budgets of one batch: decisions only, no rows."""

    def __init__(
        self, used: Mapping[str, tuple[int, int]], in_shadow: Mapping[tuple[str, str], int] | None = None
    ) -> None:
        """``used`` has the executions so far and the maximum by root. ``in_shadow`` has the executions that a trigger
        in shadow would have started, by trigger and root: they count for that trigger alone.
        """
        self._used = used
        self._taken: Counter[str] = Counter()
        self._imagined: Counter[tuple[str, str]] = Counter(in_shadow)

    def refusal(self, item: Admitted) -> Suppress | None:
        """Return why the budget of its root does not allow this match; None when it does."""
        trigger, root = item.fire.trigger, item.event.root_id
        spent, maximum = self._used[root]
        spent += self._taken[root] + (self._imagined[trigger.id, root] if item.fire.in_shadow else 0)
        limit = min(maximum, item.fire.budget or maximum)
        if spent >= limit:
            detail = f"root {root} has caused {limit} of at most {limit} executions"
            return Suppress(trigger, "budget", limit, spent + 1, detail)
        return None

    def use(self, item: Admitted) -> None:
        """Count a match that starts."""
        if item.fire.in_shadow:
            self._imagined[item.fire.trigger.id, item.event.root_id] += 1
        else:
            self._taken[item.event.root_id] += 1


def _check_limits(
    tx: Tx,
    ready: Sequence[Admitted],
    read_used: Callable[[], Mapping[str, tuple[int, int]]],
    facts: RoutingFacts,
) -> tuple[list[Admitted], list[SuppressedMatch]]:
    limited = [item for item in ready if item.fire.rate_guards]
    triggers = sorted({item.fire.trigger.id for item in limited}) if facts.has_breakers else []
    breakers = Breakers(tx, triggers)
    closed = [item for item in limited if breakers.open_until(item.fire.trigger.id) is None]
    rate_guard = RateLimits(
        tx,
        "rate_guard",
        [(item.fire.trigger.id, guard.limit) for item in closed for guard in item.fire.rate_guards],
    )
    in_shadow = _count_in_shadow(tx, ready)
    # After the statement of the rates, which takes that of the budgets along.
    budgets = RootBudgets(read_used(), in_shadow)
    kept, refused, opened = within_limits(
        ready, budgets, rate_guard, breakers, lambda id_: usual_rates.median_per_minute(tx, id_)
    )
    rate_guard.write()
    event_store.append(
        tx,
        [
            _breaker_opened_event(tx, trigger, until.isoformat(timespec="seconds"))
            for trigger, until in opened
            if trigger.state != "shadow"
        ],
    )
    return kept, refused


def within_limits(
    ready: Sequence[Admitted],
    budgets: RootBudgets,
    rate_guard: RateLimitStates,
    breakers: BreakerStates,
    count_usual_rate: Callable[[str], int] = lambda _: 0,
) -> tuple[list[Admitted], list[SuppressedMatch], list[tuple[TriggerRow, datetime]]]:
    """Split matches by the budgets of their roots, and by the rate guards and breakers of their triggers.

    One after another: a match that a rate refuses takes nothing from the budget, and one that the budget refuses uses
    no rate. ``count_usual_rate`` returns the usual rate a minute of a trigger id; it is called when a guard depends on
    it.
    Returns also the triggers whose breaker opened, each with the time at which it closes.
    """
    kept: list[Admitted] = []
    refused: list[SuppressedMatch] = []
    opened: list[tuple[TriggerRow, datetime]] = []
    for item in ready:
        trigger, guards = item.fire.trigger, item.fire.rate_guards
        over = budgets.refusal(item)
        if over is not None:
            refused.append((item.event, over))
            continue
        until = breakers.open_until(trigger.id) if guards else None
        if until is not None:
            refused.append((item.event, _breaker_open(trigger, until)))
            continue
        violated = _first_violation(trigger.id, guards, rate_guard, breakers, count_usual_rate)
        if violated is None:
            kept.append(item)
            budgets.use(item)
            continue
        limit = violated.limit.limit
        detail = f"more than {limit} a minute {violated.what}"
        refused.append((item.event, Suppress(trigger, violated.reason, limit, limit + 1, detail)))
        # Copies of one event say nothing against the others: they do not pause the trigger.
        closes_at = None if violated.reason == "repeat_rate" else breakers.record_violation(trigger.id)
        if closes_at is not None:
            opened.append((trigger, closes_at))
    return kept, refused, opened


def _first_violation(
    trigger_id: str,
    guards: Sequence[RateGuard],
    rate_guard: RateLimitStates,
    breakers: BreakerStates,
    count_usual_rate: Callable[[str], int],
) -> RateGuard | None:
    """Use the guards once. Returns the one that does not allow it; the usual rate is counted only if one depends on
    it.
    """
    if not guards:
        return None
    known = breakers.usual_rate(trigger_id)
    violated = rate_guard.acquire_all(trigger_id, [guard.adapted(known) for guard in guards])
    if violated is None or not violated.adapts or known is not None:
        return violated
    usual = count_usual_rate(trigger_id)
    breakers.set_usual_rate(trigger_id, usual)
    wider = violated.adapted(usual)
    if wider is violated:
        return violated
    rate_guard.change_limit(trigger_id, violated.limit, wider.limit)
    return rate_guard.acquire_all(trigger_id, [guard.adapted(usual) for guard in guards])


def _breaker_open(trigger: FiringTrigger, until: datetime) -> Suppress:
    closes = until.isoformat(timespec="seconds")
    detail = f"it closes at {closes}, or by: functory trigger resume {trigger.name}"
    limit = circuit_breaker.VIOLATIONS_TO_OPEN
    return Suppress(trigger, "breaker_open", limit, limit, detail)


def _breaker_opened_event(tx: Tx, trigger: FiringTrigger, until: str) -> dict[str, Any]:
    """Return the event ``trigger.paused`` of a breaker that opened. It is inert: it starts nothing."""
    data = {
        "trigger": trigger.name,
        "version": trigger.version,
        "until": until,
        "note": f"its rate guard was violated {circuit_breaker.VIOLATIONS_TO_OPEN} times "
        f"within {circuit_breaker.WINDOW:g} s",
    }
    return event_store.record(
        tx,
        "trigger.paused",
        trigger.name,
        data,
        source=f"/functory/triggers/{trigger.name}",
        inert=True,
    )
