"""Compiled criteria: an event pattern that preselects events, and the evaluation that decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec
from functory.packs.stackstorm.criteria import jinja_operands
from functory.packs.stackstorm.criteria.evaluation_budget import (
    MAX_WORK,
    EvaluationBudget,
    Spent,
    count_elements,
)
from functory.packs.stackstorm.criteria.operators import (
    EXPECTATIONS,
    NotApplicable,
    Test,
    compile_test,
    cost_per_character,
    decode_bytes,
    is_expression,
    operator_name,
)
from functory.packs.stackstorm.criteria.pattern_translation import narrow, pattern_of, translate
from functory.packs.stackstorm.criteria.payload_paths import PayloadPath, parse_payload_path
from functory.triggers.expressions.conditions import ConditionResult
from functory.triggers.patterns.formatting import format_value, format_values
from functory.triggers.patterns.pattern import Clause

MAX_CRITERIA = 100
MAX_BYTES = 65_536
# Searches within searches.
MAX_DEPTH = 3
# The cost of a criterion, in characters.
CRITERION_COST = 50

_SEARCH_EXPECTATIONS = {
    "any": "a list with an element that meets all criteria",
    "all": "a list whose elements all meet all criteria",
    "any2any": "a list with an element that meets one of the criteria",
    "all2any": "a list whose elements all meet one of the criteria",
}
SEARCHES = tuple(_SEARCH_EXPECTATIONS)
_FIELDS = frozenset({"type", "pattern", "condition"})
_NOTHING: Mapping[str, Any] = {}
# The names that keys and operands may begin with: StackStorm's for the payload, and those of conditions and templates.
ROOTS = frozenset({"trigger", "data", "event"})


@dataclass(frozen=True)
class Criterion:
    """One criterion: the test of the value at ``key``.

    ``operator`` is the name in full, ``operand`` as written; a test costs ``fixed`` and ``weight`` for each character.
    """

    key: PayloadPath
    operator: str
    operand: Any
    test: Test | None = field(repr=False, compare=False, default=None)
    weight: int = field(repr=False, compare=False, default=1)
    fixed: int = field(repr=False, compare=False, default=0)
    dynamic: jinja_operands.Operand | None = field(repr=False, compare=False, default=None)
    search: _Search | None = field(repr=False, compare=False, default=None)

    @property
    def text(self) -> str:
        """What is expected, as text for people."""
        if self.search:
            return _SEARCH_EXPECTATIONS[self.search.condition]
        listed = isinstance(self.operand, list | tuple)
        return EXPECTATIONS[self.operator].format(
            format_values(self.operand) if listed else format_value(self.operand)
        )

    def matches(self, context: Mapping[str, Any], now: datetime, budget: EvaluationBudget) -> bool:
        """True if the criterion is satisfied.

        Raises :class:`NotApplicable`, :class:`Invalid` (an operand that came from the event), :class:`Spent`.
        """
        value = self.key.value(context, budget)
        test, weight, fixed = self.test, self.weight, self.fixed
        if self.dynamic is not None:
            operand = self.dynamic.render(context, budget)
            budget.spend_on_value(operand)
            if isinstance(operand, str) and is_expression(self.operator):
                budget.spend_on_expression(self.operator, operand)
            test, weight = compile_test(self.operator, operand), cost_per_character(self.operator, operand)
            fixed = count_elements(operand)
        size = len(value) if isinstance(value, str | bytes | list | tuple) else 0
        budget.spend(CRITERION_COST + fixed + size * weight)
        if test is None:
            assert self.search is not None
            return self.search.matches(value, context, now, budget)
        return test(value, now)


@dataclass(frozen=True)
class _Search:
    """The operand of ``search``: criteria about ``item``; how many items must satisfy how many of them."""

    condition: str
    criteria: tuple[Criterion, ...]

    def matches(
        self, value: Any, context: Mapping[str, Any], now: datetime, budget: EvaluationBudget
    ) -> bool:
        if value is None:
            return False
        items = [value] if isinstance(value, Mapping) else value
        if not isinstance(items, list | tuple):
            raise NotApplicable(f"search takes a list of items, not {format_value(value)}")
        quantify = any if self.condition.startswith("any") else all
        combine = any if self.condition.endswith("2any") else all
        return quantify(
            combine(self._one(c, item, context, now, budget) for c in self.criteria) for item in items
        )

    @staticmethod
    def _one(
        criterion: Criterion, item: Any, context: Mapping[str, Any], now: datetime, budget: EvaluationBudget
    ) -> bool:
        try:
            return criterion.matches({**context, "item": item}, now, budget)
        except (NotApplicable, Invalid):
            # An item of the wrong type does not satisfy the criterion; the others still count.
            return False


class Criteria:
    """Compiled criteria. Immutable; may be used from any thread.

    ``pattern``: what an event must match to satisfy them, as an event pattern; None when there is none.
    ``warnings``: texts for the author.
    ``required_names``: names other than the payload's that operands or keys need in ``vars``.
    """

    __slots__ = ("_root", "all", "pattern", "required_names", "source", "warnings")

    def __init__(
        self, source: Mapping[str, Any], criteria: Sequence[Criterion], root: tuple[str, ...]
    ) -> None:
        self.source = source
        self.all = tuple(criteria)
        self._root = root
        self.pattern = pattern_of([found for c in self.all if (found := _accepted(c, root)) is not None])
        self.required_names = frozenset(name for c in self.all for name in _reads(c)) - ROOTS
        self.warnings = tuple(warning for c in self.all for warning in _warnings(c))

    def narrow(self, on: Mapping[str, Any]) -> dict[str, Any]:
        """``on`` with the parts of ``pattern`` at paths that it does not test itself."""
        return narrow(on, self.pattern)

    def evaluate(
        self,
        event: Mapping[str, Any],
        now: datetime,
        vars: Mapping[str, Any] = _NOTHING,  # noqa: A002
    ) -> ConditionResult:
        """The verdict on ``event`` (the envelope) at ``now`` (aware, or taken as UTC). Never raises.

        ``vars`` are further names for keys and operands. An event without a payload satisfies no criteria but
        the empty ones.
        """
        if not self.all:
            return ConditionResult(True)
        context = self._context(event, vars)
        budget = EvaluationBudget()
        if context is None:
            return ConditionResult(False)
        # A pattern also matches a list that contains the value, so it replaces no criterion.
        for criterion in self.all:
            verdict = _verdict(criterion, context, now, budget)
            if not verdict.matched:
                return verdict
        return ConditionResult(True)

    def explain(
        self,
        event: Mapping[str, Any],
        now: datetime,
        vars: Mapping[str, Any] = _NOTHING,  # noqa: A002
    ) -> list[Clause]:
        """One clause for each criterion: its key, its test and the value in the event. Never raises.

        The criteria share one budget; the value of one that is beyond it is not looked up.
        """
        context = self._context(event, vars)
        budget = EvaluationBudget()
        clauses: list[Clause] = []
        for criterion in self.all:
            verdict = ConditionResult(False) if context is None else _verdict(criterion, context, now, budget)
            found = "no payload" if context is None else _found(criterion, context, budget)
            problem = f" ({verdict.problem})" if verdict.problem else ""
            clauses.append(Clause(criterion.key.written, criterion.text, found + problem, verdict.matched))
        return clauses

    def _context(self, event: Mapping[str, Any], vars: Mapping[str, Any]) -> dict[str, Any] | None:  # noqa: A002
        payload: Any = event
        for name in self._root:
            payload = payload.get(name) if isinstance(payload, Mapping) else None
        # The names of conditions and templates too: one value has one name in all places of a trigger.
        return {"event": event, "data": event.get("data"), **vars, "trigger": payload} if payload else None


def compile_criteria(criteria: Mapping[str, Any], *, root: str = "data") -> Criteria:
    """Compile criteria. ``root`` is where the payload is in the event: member names joined with dots.

    Raises :class:`Invalid` that names the key and the remedy: a key that cannot be read, an unknown type, an
    operand that the operator does not take.
    """
    if not isinstance(criteria, Mapping):
        raise Invalid(
            "criteria must be an object",
            f"got {format_value(criteria)}",
            'write {"trigger.body.action": {"type": "equals", "pattern": "opened"}}',
        )
    try:
        criteria = _as_json(criteria, "the criteria")
    except RecursionError:
        raise Invalid(
            "the criteria are nested too deeply", f"at most {json_codec.MAX_DEPTH} levels are allowed"
        ) from None
    if len(json_codec.encode(criteria)) > MAX_BYTES:
        raise Invalid(
            "the criteria are too large",
            f"at most {MAX_BYTES:,} bytes are allowed",
            "look the values up in the function",
        )
    compiled = _compile(criteria, MAX_DEPTH, [MAX_CRITERIA])
    return Criteria(criteria, compiled, tuple(root.split(".")))


def _compile(criteria: Mapping[str, Any], depth: int, left: list[int]) -> list[Criterion]:
    made: list[Criterion] = []
    for key, asked in criteria.items():
        left[0] -= 1
        if left[0] < 0:
            raise Invalid(
                "there are too many criteria", f"at most {MAX_CRITERIA} are allowed", "make several triggers"
            )
        try:
            made.append(_criterion(key, asked, depth, left))
        except Invalid as error:
            raise Invalid(f'criterion "{key}": {error.what}', error.why, error.try_) from None
    return made


def _criterion(written: str, asked: Any, depth: int, left: list[int]) -> Criterion:
    key = parse_payload_path(written)
    if not isinstance(asked, Mapping) or "type" not in asked:
        raise Invalid(
            "no type is given", f"got {format_value(asked)}", 'write {"type": "equals", "pattern": "opened"}'
        )
    unknown = sorted(str(name) for name in set(asked) - _FIELDS)
    if unknown:
        raise Invalid("unknown fields: " + ", ".join(unknown), "the fields are type, pattern and condition")
    name = operator_name(asked["type"])
    operand = asked.get("pattern")
    if name == "search":
        return Criterion(key, name, operand, search=_search(asked, depth, left))
    if isinstance(operand, str) and jinja_operands.is_dynamic(operand):
        return Criterion(key, name, operand, dynamic=jinja_operands.compile_operand(operand))
    return Criterion(
        key,
        name,
        operand,
        test=compile_test(name, operand),
        weight=cost_per_character(name, decode_bytes(operand)),
        fixed=count_elements(operand),
    )


def _search(asked: Mapping[str, Any], depth: int, left: list[int]) -> _Search:
    condition = asked.get("condition")
    if condition not in SEARCHES:
        raise Invalid(
            f"search has the unknown condition {format_value(condition)}",
            "it sets how many items must satisfy how many criteria",
            "use one of " + ", ".join(SEARCHES),
        )
    inner = asked.get("pattern")
    if not isinstance(inner, Mapping):
        raise Invalid(
            "the pattern of search is not an object",
            f"got {format_value(inner)}",
            'write {"item.name": {"type": "equals", "pattern": "a"}}',
        )
    if depth == 0:
        raise Invalid("searches are nested too deeply", f"at most {MAX_DEPTH} levels are allowed")
    return _Search(condition, tuple(_compile(inner, depth - 1, left)))


def _verdict(
    criterion: Criterion, context: Mapping[str, Any], now: datetime, budget: EvaluationBudget
) -> ConditionResult:
    place = f"{criterion.key.written} {criterion.operator}"
    try:
        return ConditionResult(criterion.matches(context, now, budget))
    except Spent:
        return ConditionResult(
            False, f"the criteria look at more than {MAX_WORK:,} characters for this event", "budget"
        )
    except NotApplicable as error:
        return ConditionResult(False, f"{place}: {error}", "error")
    except Invalid as error:
        return ConditionResult(False, f"{place}: {error.what}", "error")
    except RecursionError:
        return ConditionResult(False, f"{place}: the value is nested too deeply", "error")


def _found(criterion: Criterion, context: Mapping[str, Any], budget: EvaluationBudget) -> str:
    try:
        return format_value(criterion.key.value(context, budget))
    except (Spent, RecursionError):
        return "not looked up"


def _accepted(criterion: Criterion, root: tuple[str, ...]) -> tuple[tuple[str, ...], list[Any]] | None:
    names = criterion.key.names
    if criterion.key.root not in ROOTS or names is None or criterion.test is None:
        return None
    place = {"trigger": (*root, *names), "data": ("data", *names), "event": names}[criterion.key.root]
    accepted = translate(criterion.operator, criterion.operand)
    return None if accepted is None or not place else (place, accepted)


def _reads(criterion: Criterion) -> set[str]:
    if criterion.search is None:
        return {criterion.key.root} | (criterion.dynamic.names if criterion.dynamic else set())
    return {criterion.key.root} | ({name for c in criterion.search.criteria for name in _reads(c)} - {"item"})


def _warnings(criterion: Criterion) -> list[str]:
    key = criterion.key.written
    found: list[str] = []
    if criterion.key.root not in ROOTS:
        found.append(f'"{key}" does not begin with trigger, so there is never a value; write trigger.{key}')
    if criterion.operand is None and criterion.operator not in ("nequals", "exists", "nexists", "search"):
        found.append(f'"{key}" has no pattern, so {criterion.operator} never holds')
    return found


def _as_json(value: Any, what: str) -> Any:
    if isinstance(value, bytes):
        return decode_bytes(value)
    if isinstance(value, Mapping):
        if wrong := next((name for name in value if not isinstance(name, str)), None):
            raise Invalid(f"{what} have the key {wrong!r}", "keys must be texts", "quote it")
        return {name: _as_json(inner, what) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(inner, what) for inner in value]
    return value
