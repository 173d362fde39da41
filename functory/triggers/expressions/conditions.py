"""Conditions: expressions in CEL for tests that a pattern cannot express.

A trigger may have ``when``, a text in the Common Expression Language (https://cel.dev). It is evaluated after the
pattern has matched::

    data.output.stock < 3 && event.source.startsWith("functory/")

The variables are ``event`` (the whole envelope), ``data`` (``event.data``), ``now`` (a timestamp) and
``vars`` (values that the caller adds).

The work of an evaluation is bounded (``functory.triggers.expressions.cel``). An error, a value that is not true or
false, or an exceeded budget is *no match* with its reason, never an exception: an event from outside cannot stop the
router.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal

from functory.engine.errors import Invalid
from functory.triggers.expressions.cel import EvaluationError, Expression, compile_expression
from functory.triggers.expressions.paths import ExpressionPath

EXAMPLE = "has(data.stock) && data.stock < 3"


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """The result of a condition. Without a value, ``matched`` is False and ``problem`` is the reason.

    ``kind`` of the problem: ``error`` (missing member, wrong types), ``non_bool`` (the value is not true or
    false), ``budget`` (too much work).
    """

    matched: bool
    problem: str | None = None
    kind: Literal["error", "non_bool", "budget"] | None = None


class Condition:
    """A compiled condition. Immutable; ``evaluate`` may be called from any thread."""

    __slots__ = ("_expression", "text")

    def __init__(self, expression: Expression) -> None:
        self.text = expression.text
        self._expression = expression

    @property
    def what(self) -> str:
        """Its name in messages."""
        return self._expression.what

    @property
    def paths(self) -> tuple[ExpressionPath, ...]:
        """The paths that the condition reads."""
        return self._expression.paths

    def evaluate(
        self,
        event: Mapping[str, Any],
        now: datetime,
        vars: Mapping[str, Any],  # noqa: A002
        **more: Any,
    ) -> ConditionResult:
        """Evaluate the condition for ``event`` (the envelope) at ``now`` (aware, or taken as UTC). Never raises.

        ``more`` are the values of the variables that it was compiled with beyond the usual ones.
        """
        data = event.get("data") if isinstance(event, Mapping) else None
        variables = {"event": event, "data": data, "vars": vars, **more}
        try:
            if not isinstance(event, Mapping):
                raise EvaluationError(f"the event is not an object but {type(event).__name__}")
            answer, kind = self._expression.evaluate(
                variables, {"now": now if now.tzinfo else now.replace(tzinfo=UTC)}
            )
        except EvaluationError as failed:
            return ConditionResult(False, failed.problem, "budget" if failed.kind == "budget" else "error")
        if isinstance(answer, bool):
            return ConditionResult(answer)
        return ConditionResult(False, f"the value is of type {kind.lower()}, not true or false", "non_bool")


def compile_condition(text: str, extra_variables: tuple[str, ...] = ()) -> Condition:
    """Compile a condition; ``extra_variables`` are names beyond the usual ones.

    Raises Invalid: too long, not CEL (with CEL's own message), a value that cannot be true or false, or a macro over a
    list that the expression builds.
    """
    if not isinstance(text, str):
        raise Invalid(
            "the condition is not a text",
            f"got a {type(text).__name__}",
            'write it in quotes, such as "data.stock < 3"',
        )
    return _compile(text, extra_variables)


@lru_cache(maxsize=4096)
def _compile(text: str, more: tuple[str, ...]) -> Condition:
    expression = compile_expression(
        text, "the condition", ("event", "data", "vars", *more), ("now",), EXAMPLE
    )
    if expression.kind not in ("BOOL", "DYN"):
        raise Invalid(
            "the condition does not answer yes or no",
            f"its value is of type {expression.kind.lower()}",
            "compare it with something, such as: data.stock < 3",
        )
    return Condition(expression)
