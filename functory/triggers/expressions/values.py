"""Value expressions: CEL that computes a JSON value from an event, for keys, priorities and mappings.

They work as conditions do (``functory.triggers.expressions.conditions``), but return any JSON value::

    data.customer + "/" + event.subject

An expression that is one path and nothing else, such as ``data.customer``, is read without the library: its value is
the event's own, whatever it is. The library loses the order of members, so the objects that it returns are replaced by
those of the event with the same content, or get the order in which the expression writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from functory.engine.errors import Invalid
from functory.triggers.expressions.cel import EvaluationError, Expression, compile_expression
from functory.triggers.expressions.member_order import MemberOrder, read_literals
from functory.triggers.expressions.paths import ExpressionPath, read_single_path

# CEL's types that have a JSON form; DYN is only known when it is evaluated.
JSON_TYPES = frozenset({"NULL", "BOOL", "INT", "UINT", "DOUBLE", "STRING", "LIST", "MAP", "DYN"})


class ValueExpression:
    """A compiled expression with a JSON value. Immutable; may be used from any thread."""

    __slots__ = ("_expression", "_literals", "_path", "text")

    def __init__(self, expression: Expression) -> None:
        self.text = expression.text
        self._expression = expression
        self._path = read_single_path(expression.syntax)
        self._literals = read_literals(expression.syntax)

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
            if self._path is not None:
                return _follow(variables, self._path)
            answer, kind = self._expression.evaluate(variables, {})
        except EvaluationError as failed:
            raise Invalid(f"{self._expression.what} has no value for this event", failed.problem) from None
        try:
            if kind.split("<")[0] not in JSON_TYPES:
                raise ValueError(f"its type is {kind.lower()}")
            return MemberOrder(variables, self._literals).restore(answer)
        except ValueError as error:
            raise Invalid(f"{self._expression.what} has no JSON value for this event", str(error)) from None


def _follow(found: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        if isinstance(step, str):
            if not isinstance(found, Mapping):
                raise EvaluationError(
                    f"{step!r} is read from a {type(found).__name__}, which is not an object"
                )
            if step not in found:
                raise EvaluationError(f'Key not found in map : "{step}"; test with has(...) first')
            found = found[step]
        else:
            if not isinstance(found, list | tuple):
                raise EvaluationError(f"{step} is read from a {type(found).__name__}, which is not a list")
            if not 0 <= step < len(found):
                raise EvaluationError(f"the list has {len(found)} elements and none at {step}")
            found = found[step]
    return found


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
