"""A part of a composite: the pattern of its events, and the key by which they belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec
from functory.triggers.expressions.conditions import Condition, compile_condition
from functory.triggers.expressions.values import ValueExpression
from functory.triggers.flow_control import fields
from functory.triggers.patterns import Clause, Pattern, compile_pattern

FIELDS = ("name", "on", "when", "key")

EXAMPLE = '{"name": "paid", "on": {"type": ["order.paid"]}, "key": "data.order"}'


@dataclass(frozen=True)
class Part:
    """A pattern with a name, and a condition and a key if it has them. ``on`` is the pattern as it was written."""

    name: str
    on: Mapping[str, Any]
    pattern: Pattern
    condition: Condition | None = None
    key: ValueExpression | None = None

    @property
    def types(self) -> frozenset[str] | None:
        """The only event types that the part can match; None when it does not list plain types."""
        return listed_types(self.on)

    def matches(self, event: Mapping[str, Any], now: datetime) -> bool:
        """True if an event (its envelope) matches the part. A condition that cannot be evaluated is no match."""
        if not self.pattern.matches(event):
            return False
        return self.condition is None or self.condition.evaluate(event, now, {}).matched

    def explain(self, event: Mapping[str, Any], now: datetime) -> list[Clause]:
        """One clause for each requirement of the pattern, and one for the condition."""
        clauses = list(self.pattern.explain(event))
        if self.condition is not None and self.pattern.matches(event):
            verdict = self.condition.evaluate(event, now, {})
            found = verdict.problem or ("true" if verdict.matched else "false")
            clauses.append(Clause("when", self.condition.text, found, verdict.matched))
        return clauses


def listed_types(on: Mapping[str, Any]) -> frozenset[str] | None:
    """The only event types that a pattern can match; None when it does not list plain types."""
    listed = on.get("type")
    if isinstance(listed, list) and all(isinstance(item, str) for item in listed):
        return frozenset(listed)
    return None


def compile_part(given: Any, name: str, key: ValueExpression | None) -> Part:
    """Read a part. ``name`` and ``key`` apply when it has none of its own. Raises :class:`Invalid`."""
    what = f"part {name} of the composite"
    found = fields.check_object(given, what, FIELDS, EXAMPLE)
    on = fields.needed(found, "on", what, EXAMPLE)
    chosen = found.get("name") or name
    if not isinstance(chosen, str) or len(chosen) > 100:
        raise Invalid(f"wrong name of {what}", "it must be a text of at most 100 characters", EXAMPLE)
    condition = found.get("when")
    return Part(
        chosen,
        json_codec.loads(json_codec.encode(on)),
        compile_pattern(on),
        None if condition is None else compile_condition(condition),
        fields.compile_key(found, what) or key,
    )
