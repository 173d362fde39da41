"""A trigger's ``flow``: compiled when the trigger is saved, and evaluated for one match.

Each control is optional; ``functory.engine.flow_control.controls`` has their order. Saving a trigger refuses
combinations of controls that contradict each other:

- ``debounce`` with ``batch``: both decide how long a match waits for others;
- a composite with ``debounce`` or ``batch``, for the same reason;
- ``singleton`` with ``overlap``: both decide what happens while an execution of the same key is open;
- ``cancel_on`` with ``batch`` or a composite: several events start such an execution, not one.

Every other pair combines. Idempotency and the rate limit apply to each event before it waits for others. The later
controls (singleton, overlap, throttle, concurrency, priority, expiry) apply to the deciding event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.flow_control.controls import NO_CONTROLS, Controls
from functory.engine.serialization.durations import parse
from functory.triggers.flow_control import fields
from functory.triggers.flow_control.cancel_on import YEAR, CancelOn
from functory.triggers.flow_control.debounce_batch import Batch, Debounce, compile_batch, compile_debounce
from functory.triggers.flow_control.limits import Concurrency, Idempotency, OverlapRule, Priority, Rate

# Why two controls cannot work together. ``composite`` is the definition's own field.
INCOMPATIBLE: Mapping[frozenset[str], str] = {
    frozenset({"debounce", "batch"}): "both decide how long a match waits for others",
    frozenset({"debounce", "composite"}): "a composite decides itself how long its events wait",
    frozenset({"batch", "composite"}): "a composite decides itself which events belong together",
    frozenset(
        {"singleton", "overlap"}
    ): "both decide what happens while an execution of the same key is open",
    frozenset(
        {"cancel_on", "batch"}
    ): "several events start such an execution, and cancel_on compares with one",
    frozenset(
        {"cancel_on", "composite"}
    ): "several events start such an execution, and cancel_on compares with one",
}


@dataclass(frozen=True)
class Flow:
    """The compiled flow control of a trigger."""

    debounce: Debounce | None = None
    batch: Batch | None = None
    throttle: Rate | None = None
    rate_limit: Rate | None = None
    concurrency: tuple[Concurrency, ...] = ()
    priority: Priority | None = None
    overlap: OverlapRule | None = None
    idempotency: Idempotency | None = None
    cancel_on: tuple[CancelOn, ...] = ()
    expires: float | None = None

    def evaluate(self, event: Mapping[str, Any]) -> Controls:
        """The controls for a match, by the event's envelope. Raises :class:`Invalid` when a key has no value."""
        if self is NO_FLOW:
            return NO_CONTROLS
        variables = {"event": event, "data": event.get("data")}
        return Controls(
            idempotency=None if self.idempotency is None else self.idempotency.evaluate(variables),
            rate_limit=None if self.rate_limit is None else self.rate_limit.evaluate(variables),
            throttle=None if self.throttle is None else self.throttle.evaluate(variables),
            concurrency_limits=tuple(limit.evaluate(variables) for limit in self.concurrency),
            overlap=None if self.overlap is None else self.overlap.evaluate(variables),
            priority=0.0 if self.priority is None else self.priority.evaluate(variables),
            expires_after=self.expires,
        )


NO_FLOW = Flow()

# How each control is read, and the field of Flow that it becomes.
_READERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "debounce": ("debounce", compile_debounce),
    "batch": ("batch", compile_batch),
    "throttle": ("throttle", lambda given: Rate.parse(given, "throttle")),
    "rate_limit": ("rate_limit", lambda given: Rate.parse(given, "rate_limit")),
    "concurrency": ("concurrency", Concurrency.parse),
    "priority": ("priority", Priority.parse),
    "overlap": ("overlap", OverlapRule.parse_overlap),
    "singleton": ("overlap", OverlapRule.parse_singleton),
    "idempotency": ("idempotency", Idempotency.parse),
    "cancel_on": ("cancel_on", CancelOn.parse),
    "expires": ("expires", lambda given: parse(given, "expires", 0.001, YEAR)),
}

CONTROLS = tuple(_READERS)


def compile_flow(given: Mapping[str, Any] | None, *, composite: bool) -> Flow:
    """Read the ``flow`` of a definition. ``composite``: the trigger is a composite. Raises :class:`Invalid`."""
    if given is None:
        return NO_FLOW
    found = fields.check_object(given, "flow", CONTROLS, '"flow": {"concurrency": {"limit": 1}}')
    there = [
        name
        for name in (*CONTROLS, "composite")
        if found.get(name) is not None or (name, composite) == ("composite", True)
    ]
    for pair in combinations(there, 2):
        why = INCOMPATIBLE.get(frozenset(pair))
        if why is not None:
            raise Invalid(
                f"{pair[0]} and {pair[1]} cannot be combined", why, f"leave out {pair[0]} or {pair[1]}"
            )
    made: dict[str, Any] = {}
    for name in there:
        if name in _READERS:
            field, read = _READERS[name]
            made[field] = read(found[name])
    return Flow(**made) if made else NO_FLOW
