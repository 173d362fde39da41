"""Cancel-on: the events that cancel executions of a trigger.

A rule has a pattern, a condition over the event and the event that started the execution, and a timeout after the
start. A trigger has at most five rules. The model is Inngest's ``cancelOn``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.serialization.durations import parse
from functory.triggers.expressions.conditions import Condition, ConditionResult, compile_condition
from functory.triggers.flow_control import fields
from functory.triggers.patterns import Pattern, compile_pattern

MAX_RULES = 5
YEAR = 366 * 86_400.0
_EXAMPLE = '"cancel_on": [{"on": {"type": ["order.cancelled"]}, "when": "data.id == started.data.id"}]'


@dataclass(frozen=True)
class CancelOn:
    """One rule. ``timeout``: seconds after the start of an execution during which the rule can cancel it."""

    pattern: Pattern
    condition: Condition | None
    timeout: float | None

    @classmethod
    def parse(cls, given: Any) -> tuple[CancelOn, ...]:
        """Read a list of rules. Raises :class:`Invalid`."""
        if not isinstance(given, list | tuple):
            raise Invalid("wrong cancel_on", "it must be a list of rules", _EXAMPLE)
        if not 1 <= len(given) <= MAX_RULES:
            raise Invalid(
                "wrong cancel_on", f"it must have 1 to {MAX_RULES} rules, got {len(given)}", _EXAMPLE
            )
        return tuple(cls._one(one) for one in given)

    @classmethod
    def _one(cls, given: Any) -> CancelOn:
        found = fields.check_object(given, "cancel_on", ("on", "when", "timeout"), _EXAMPLE)
        when, timeout = found.get("when"), found.get("timeout")
        return cls(
            compile_pattern(fields.needed(found, "on", "a rule of cancel_on", _EXAMPLE)),
            None if when is None else compile_condition(when, ("started",)),
            None if timeout is None else parse(timeout, "timeout of cancel_on", 1, YEAR),
        )

    def evaluate(
        self, event: Mapping[str, Any], started: Mapping[str, Any], now: datetime
    ) -> ConditionResult:
        """The result for an event and the event that ``started`` an execution; both are envelopes. Never raises."""
        if self.condition is None:
            return ConditionResult(True)
        return self.condition.evaluate(event, now, {}, started=started)
