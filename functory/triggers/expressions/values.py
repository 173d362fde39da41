"""Value expressions: CEL that computes a JSON value from an event, for keys, priorities and mappings.

They work as conditions do (``functory.triggers.expressions.conditions``), but return any JSON value::

    data.customer + "/" + event.subject
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from functory.engine.errors import Invalid
from functory.triggers.expressions.cel import EvaluationError, Expression, compile_expression
from functory.triggers.expressions.paths import ExpressionPath

# CEL's types that have a JSON form; DYN is only known when it is evaluated.
JSON_TYPES = frozenset({"NULL", "BOOL", "INT", "UINT", "DOUBLE", "STRING", "LIST", "MAP", "DYN"})


class ValueExpression:
    """A compiled expression with a JSON value. Immutable; may be used from any thread."""

    __slots__ = ("_expression", "text")

    def __init__(self, expression: Expression) -> None:
        self.text = expression.text
        self._expression = expression

    @property
    def kind(self) -> str:
        """CEL's name of the value's type; DYN when only an evaluation shows it."""
        return self._expression.kind.split("<")[0]

    @property
    def what(self) -> str:
        """Its name in messages."""
        return self._expression.what

    @property
    def paths(self) -> tuple[ExpressionPath, ...]:
        """The paths that the expression reads."""
        return self._expression.paths

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """The value for ``variables`` (those it was compiled with). Raises :class:`Invalid` when there is none."""
        try:
            answer, kind = self._expression.evaluate(variables, {})
        except EvaluationError as failed:
            raise Invalid(f"{self._expression.what} has no value for this event", failed.problem) from None
        if kind.split("<")[0] not in JSON_TYPES or (isinstance(answer, float) and not math.isfinite(answer)):
            raise Invalid(
                f"{self._expression.what} has no JSON value for this event", f"its type is {kind.lower()}"
            )
        return answer


def compile_value(
    text: str,
    what: str = "the key",
    names: tuple[str, ...] = ("event", "data"),
    example: str = "data.customer",
) -> ValueExpression:
    """Compile an expression over the variables ``names``. ``what`` is its name in messages.

    Raises :class:`Invalid`: no text, too long, not CEL (with CEL's own message), or a value that is not JSON.
    """
    if not isinstance(text, str):
        raise Invalid(
            f"{what} is not a text",
            f"got a {type(text).__name__}",
            f'write CEL in quotes, such as "{example}"',
        )
    return _compile(text, what, names, example)


@lru_cache(maxsize=4096)
def _compile(text: str, what: str, names: tuple[str, ...], example: str) -> ValueExpression:
    expression = compile_expression(text, what, names, (), example)
    if expression.kind.split("<")[0] not in JSON_TYPES:
        raise Invalid(
            f"{what} is not a JSON value",
            f"its type is {expression.kind.lower()}",
            "make a text of it: string(…)",
        )
    return ValueExpression(expression)
