"""Compiles a trigger's ``composite``: its parts with their patterns, and its rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from functory.engine.errors import Invalid
from functory.engine.flow_control.controls import Key
from functory.engine.serialization.durations import parse
from functory.triggers.composites import rules
from functory.triggers.composites.part import FIELDS, Part, compile_part
from functory.triggers.composites.rules import Rule, Silence
from functory.triggers.expressions.values import ValueExpression
from functory.triggers.flow_control import fields
from functory.triggers.flow_control.buffered_match import BufferDecision, BufferMemory, WaitingMatch
from functory.triggers.flow_control.debounce_batch import key_of_event

DAY = 86_400.0

# Maximum number of parts. A set of parts is a number with one bit for each.
MAX_PARTS = 16

# Maximum number of waiting matches of one key; the oldest are dropped.
MAX_WAITING = 5000

RULE_NAMES = ("all", "any", "n_of", "sequence", "threshold", "absence")
EXAMPLE = '"composite": {"all": [{"on": {"type": ["a"]}}, {"on": {"type": ["b"]}}], "within": "10m"}'


@dataclass(frozen=True)
class Composite:
    """A compiled composite. ``allowance`` and ``within`` are in seconds."""

    parts: tuple[Part, ...]
    within: float
    allowance: float
    rule: Rule | Silence

    kind: ClassVar[str] = "composite"

    @property
    def delivers_list(self) -> bool:
        return True

    @property
    def armed(self) -> bool:
        """True when its trigger waits without a first event: a silence without a key."""
        return isinstance(self.rule, Silence) and not self.rule.keyed

    @property
    def firing_parts(self) -> tuple[Part, ...]:
        """The parts whose events can fire the composite, without those whose absence it waits for."""
        if isinstance(self.rule, Silence):
            return ()
        return self.parts[1:] if isinstance(self.rule, rules.Absence) else self.parts

    def can_fire(self, numbers: Sequence[int]) -> bool:
        """True when an event that matches the parts of these numbers may start an execution: not only end a wait."""
        awaited = len(self.parts) - len(self.firing_parts)
        return any(number >= awaited for number in numbers)

    @property
    def types(self) -> frozenset[str] | None:
        """The only event types that its parts can match; None when one can match any."""
        types = [part.types for part in self.parts]
        return None if None in types else frozenset().union(*filter(None, types))

    def key_and_parts(self, event: Mapping[str, Any], numbers: Sequence[int]) -> tuple[Key, int]:
        """The key of an event (its envelope) that matches the parts ``numbers`` (ascending), and the bits of the parts
        with that key. Raises :class:`Invalid` when the evaluation of a key fails."""
        key = key_of_event(self.parts[numbers[0]].key, event)
        mask = 1 << numbers[0]
        for number in numbers[1:]:
            other = self.parts[number].key
            if other is self.parts[numbers[0]].key or key_of_event(other, event).hash == key.hash:
                mask |= 1 << number
        return key, mask

    def due_at(
        self, state: BufferMemory, count: int, size: int, match: WaitingMatch, now: datetime
    ) -> datetime | None:
        """The time at which the match can be decided: just after its allowance."""
        return match.at + timedelta(seconds=self.allowance) + timedelta.resolution

    def decide(self, state: BufferMemory, waiting: Sequence[WaitingMatch], now: datetime) -> BufferDecision:
        """Decide about events older than the allowance; ``now`` is the time up to which all events are routed."""
        lag = timedelta(seconds=self.allowance)
        span = timedelta(seconds=self.within)
        outcome = rules.decide(self.rule, state, waiting, now - lag, span, MAX_WAITING)
        if outcome.due_at is not None:
            # Just after that time: only then are all its events known.
            outcome.due_at += lag + timedelta.resolution
        return outcome


def compile_composite(given: Any) -> Composite:
    """Read the ``composite`` of a definition. Raises :class:`Invalid`."""
    found = fields.check_object(given, "composite", (*RULE_NAMES, "within", "key", "allowance"), EXAMPLE)
    forms = [kind for kind in RULE_NAMES if found.get(kind) is not None]
    if len(forms) != 1:
        raise Invalid(
            f"the composite has {' and '.join(forms) if forms else 'no rule'}",
            "a composite has exactly one of " + ", ".join(RULE_NAMES),
            EXAMPLE,
        )
    (form,) = forms
    within = parse(
        fields.needed(found, "within", "composite", EXAMPLE), "within of composite", 0.001, 365 * DAY
    )
    allowance = parse(found.get("allowance", 5.0), "allowance of composite", 0.0, DAY)
    key = fields.compile_key(found, "composite")
    parts, rule = _READERS[form](found[form], key)
    return Composite(parts, within, allowance, rule)


Read = tuple[tuple[Part, ...], Rule | Silence]


def _parts(given: Any, what: str, least: int, key: ValueExpression | None) -> tuple[Part, ...]:
    if not isinstance(given, list | tuple) or not least <= len(given) <= MAX_PARTS:
        raise Invalid(
            f"wrong {what} of composite", f"it must be a list of {least} to {MAX_PARTS} parts", EXAMPLE
        )
    parts = tuple(compile_part(one, str(number), key) for number, one in enumerate(given, 1))
    _same_kind_of_key(parts)
    names = [part.name for part in parts]
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise Invalid(
            f"two parts of the composite are called {double[0]}", "each has a name of its own", EXAMPLE
        )
    return parts


def _same_kind_of_key(parts: Sequence[Part]) -> None:
    if len({part.key is None for part in parts}) > 1:
        raise Invalid(
            "some parts of the composite have a key and others have none",
            "events belong together by their keys",
            'write "key" at the composite, or at every part',
        )


def _all(given: Any, key: ValueExpression | None) -> Read:
    parts = _parts(given, "all", 2, key)
    return parts, rules.NOf(len(parts), len(parts))


def _any(given: Any, key: ValueExpression | None) -> Read:
    parts = _parts(given, "any", 1, key)
    return parts, rules.NOf(1, len(parts))


def _n_of(given: Any, key: ValueExpression | None) -> Read:
    example = '"n_of": {"n": 2, "parts": [{"on": …}, {"on": …}, {"on": …}]}'
    found = fields.check_object(given, "n_of", ("n", "parts"), example)
    parts = _parts(fields.needed(found, "parts", "n_of", example), "n_of", 1, key)
    n = fields.integer(fields.needed(found, "n", "n_of", example), "n of n_of", 1, len(parts))
    return parts, rules.NOf(n, len(parts))


def _sequence(given: Any, key: ValueExpression | None) -> Read:
    parts = _parts(given, "sequence", 2, key)
    return parts, rules.Sequence(len(parts))


def _threshold(given: Any, key: ValueExpression | None) -> Read:
    example = '"threshold": {"count": 5, "on": {"type": ["login.failed"]}}'
    found = fields.check_object(given, "threshold", (*FIELDS, "count"), example)
    count = fields.integer(fields.needed(found, "count", "threshold", example), "count of threshold", 1, 1000)
    part = compile_part({name: found[name] for name in found if name != "count"}, "1", key)
    return (part,), rules.Threshold(count)


def _absence(given: Any, key: ValueExpression | None) -> Read:
    example = (
        '"absence": {"of": {"on": {"type": ["order.paid"]}}, "after": {"on": {"type": ["order.created"]}}}'
    )
    found = fields.check_object(given, "absence", ("of", "after"), example)
    of = compile_part(fields.needed(found, "of", "absence", example), "of", key)
    if found.get("after") is None:
        return (of,), rules.Silence(of.key is not None)
    after = compile_part(found["after"], "after", key)
    _same_kind_of_key((of, after))
    return (of, after), rules.Absence()


_READERS: Mapping[str, Callable[[Any, ValueExpression | None], Read]] = {
    "all": _all,
    "any": _any,
    "n_of": _n_of,
    "sequence": _sequence,
    "threshold": _threshold,
    "absence": _absence,
}
