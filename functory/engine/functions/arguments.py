"""From a call's arguments to the stored input: an object of parameter names and values.

An execution's input is always a JSON object, whatever the call looked like, so that it can be
validated, shown, edited and replayed. ``*args`` stands under its own name as a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functory.engine.errors import Invalid


def bind(
    function: str, parameters: Sequence[Mapping[str, Any]], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Bind positional and keyword arguments to parameter names. Raises :class:`Invalid` as Python would
    raise TypeError: too many arguments, or one given twice. Missing ones are the schema's to refuse."""
    bound: dict[str, Any] = {}
    positional = [p["name"] for p in parameters if p["kind"] in ("positional_only", "positional")]
    rest = next((p["name"] for p in parameters if p["kind"] == "var_positional"), None)
    for name, value in zip(positional, args, strict=False):
        bound[name] = value
    if len(args) > len(positional):
        if rest is None:
            raise Invalid(
                f"{function} takes {len(positional)} positional arguments", f"{len(args)} were given"
            )
        bound[rest] = list(args[len(positional) :])
    for name, value in kwargs.items():
        if name in bound:
            raise Invalid(f"{function} got {name!r} twice", "once by position and once by name")
        bound[name] = value
    return bound


def bind_first(parameters: Sequence[Mapping[str, Any]], value: Any) -> dict[str, Any]:
    """The input that passes ``value`` as the first argument; an empty one for a function without any."""
    for parameter in parameters:
        if parameter["kind"] in ("positional_only", "positional", "keyword"):
            return {parameter["name"]: value}
        if parameter["kind"] == "var_positional":
            return {parameter["name"]: [value]}
    return dict(value) if parameters and isinstance(value, Mapping) else {}
