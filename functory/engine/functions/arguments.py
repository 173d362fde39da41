"""Arguments: from a call to the stored input, and from a step to the input of its compensation.

An execution's input is always a JSON object of parameter names and values, so that it can be validated, shown, edited
and replayed. ``*args`` is stored under its own name as a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functory.engine.errors import Invalid

# A compensation gets these arguments by the names of its parameters: the input and result of the step, the id of its
# execution, and the error that made the compensation necessary.
COMPENSATION_ARGUMENTS = ("input", "result", "execution_id", "error")

# A worker writes this in place of a secret's value (functory.workers.execution.redaction).
_REDACTED = "***"

# What a record holds of a part without a JSON form (functory.workers.sandbox.guest.json_values), now and formerly.
_PREVIEWS = ({"$type", "$preview"}, {"$type", "$repr"})


def bind(
    function: str, parameters: Sequence[Mapping[str, Any]], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Bind positional and keyword arguments to parameter names.

    Raises :class:`Invalid` for too many arguments and for one given twice; the input schema refuses missing ones.
    """
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
    """Return the input that passes ``value`` as the first argument; an empty one for a function without any."""
    for parameter in parameters:
        if parameter["kind"] in ("positional_only", "positional", "keyword"):
            return {parameter["name"]: value}
        if parameter["kind"] == "var_positional":
            return {parameter["name"]: [value]}
    return dict(value) if parameters and isinstance(value, Mapping) else {}


def accepted_compensation_arguments(parameters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the compensation arguments that a function declares as parameters; all of them for ``**named``."""
    if any(p["kind"] == "var_keyword" for p in parameters):
        return list(COMPENSATION_ARGUMENTS)
    return [name for name in COMPENSATION_ARGUMENTS if any(p["name"] == name for p in parameters)]


def missing_compensation_arguments(parameters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the required parameters that no compensation argument fills."""
    return [p["name"] for p in parameters if p["required"] and p["name"] not in COMPENSATION_ARGUMENTS]


def compensation_warnings(parameters: Sequence[Mapping[str, Any]] | None, reference: str) -> list[str]:
    """Return warnings about the version that compensates another function, by its ``parameters``; None when it does
    not exist.
    """
    if parameters is None:
        return [f"the compensation {reference} does not exist yet"]
    missing = missing_compensation_arguments(parameters)
    if not missing:
        return []
    return [
        f"the compensation {reference} needs {', '.join(missing)}: "
        f"it is given {', '.join(COMPENSATION_ARGUMENTS)} and nothing else"
    ]


def is_complete(value: Any) -> bool:
    """Return True when a recorded value is the original one: no part replaced by a preview, no secret redacted."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            if _REDACTED in part:
                return False
        elif isinstance(part, Mapping):
            if set(part) in _PREVIEWS:
                return False
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
    return True
