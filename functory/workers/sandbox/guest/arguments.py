"""Binds an input, a JSON object of parameter names, to the parameters of a Python function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


_STARS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


@lru_cache(maxsize=64)
def _parameters(function: Callable) -> tuple[inspect.Parameter, ...] | None:
    """Return a function's signature, cached for processes that call the same function repeatedly."""
    try:
        return tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def bind(function: Callable, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and keyword arguments that call ``function`` with the input ``given``.

    By keyword where Python allows it. ``*args`` is given as a list under its own name; names that are
    no parameter go to ``**kwargs``, or make the call fail as Python's own calls do.
    """
    code = getattr(function, "__code__", None)
    if code is not None and not code.co_flags & _STARS and not code.co_posonlyargcount:
        # All of them can be given by keyword, and Python itself reports a missing or surplus one.
        return [], dict(given)
    parameters = _parameters(function)
    if parameters is None:
        return [], dict(given)
    rest = dict(given)
    more = next((p for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), None)
    tail: list[Any] = []
    if more is not None and more.name in rest:
        tail = rest.pop(more.name)
        if not isinstance(tail, list):
            raise TypeError(f"{more.name!r} holds the values of *{more.name} and must be a list")
    positional: list[Any] = []
    skipped: list[Any] = []
    for parameter in parameters:
        if parameter.kind not in _POSITIONAL:
            break
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and not tail:
            break
        if parameter.name in rest:
            # A parameter after a left-out one can be reached only by giving that one its default.
            positional += [*skipped, rest.pop(parameter.name)]
            skipped = []
        elif parameter.default is inspect.Parameter.empty:
            raise TypeError(f"missing a required argument: {parameter.name!r}")
        else:
            skipped.append(parameter.default)
    if tail:
        positional += skipped
    return positional + tail, rest
