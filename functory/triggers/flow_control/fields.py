"""Reads the fields of a control: objects with known members, whole numbers, and expressions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from functory.engine.errors import Invalid
from functory.triggers.expressions.values import ValueExpression, compile_value


def check_object(given: Any, what: str, known: Collection[str], example: str) -> Mapping[str, Any]:
    """``given`` as an object whose members are all ``known``. Raises :class:`Invalid`."""
    if not isinstance(given, Mapping):
        raise Invalid(f"wrong {what}", f"it must be an object, got {_shown(given)}", example)
    unknown = sorted(set(map(str, given)) - set(known))
    if unknown:
        raise Invalid(
            f"unknown fields of {what}: " + ", ".join(unknown),
            "the fields are " + ", ".join(sorted(known)),
            example,
        )
    return given


def needed(given: Mapping[str, Any], name: str, what: str, example: str) -> Any:
    """A required member. Raises :class:`Invalid`."""
    if given.get(name) is None:
        raise Invalid(f"{what} has no {name!r}", try_=example)
    return given[name]


def integer(given: Any, what: str, low: int, high: int) -> int:
    """A whole number within bounds. Raises :class:`Invalid`."""
    if isinstance(given, bool) or not isinstance(given, int) or not low <= given <= high:
        raise Invalid(f"wrong {what} {_shown(given)}", f"it must be a whole number from {low:,} to {high:,}")
    return given


def choice(given: Any, what: str, known: Collection[str]) -> str:
    """One of the ``known`` words. Raises :class:`Invalid`."""
    if not isinstance(given, str) or given not in known:
        raise Invalid(f"wrong {what} {_shown(given)}", "it must be one of " + ", ".join(known))
    return given


def compile_key(given: Mapping[str, Any], what: str) -> ValueExpression | None:
    """The compiled member ``key``, if there is one. Raises :class:`Invalid`."""
    return None if given.get("key") is None else compile_value(given["key"], f"the key of {what}")


def _shown(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 80 else text[:79] + "…"
