"""Captured source: the text that is stored for a function of a running program."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.functions.source import decorator


def capture_source(function: Callable[..., Any], dependency_names: frozenset[str]) -> str:
    """Return the source to store: the parts of its file that a function uses, then the function without the decorator.

    Raises :class:`Invalid` when there is no source text (a lambda, a function typed at a prompt).
    """
    name = getattr(function, "__name__", "")
    try:
        own = textwrap.dedent(inspect.getsource(function))
        module_file = inspect.getsourcefile(function)
    except (OSError, TypeError):
        raise Invalid(
            f"the source of {name or function!r} cannot be read",
            "it was not defined in a file",
            "define it in a file, or save its source text: functory function add FILE",
        ) from None
    body = decorator.without_decorators(own, name)
    nested = getattr(function, "__code__", None) is not None and function.__code__.co_freevars
    if nested:
        raise Invalid(
            f"{name} uses variables of the function around it",
            ", ".join(function.__code__.co_freevars),
            "move it to the top level of the file, or pass them as arguments",
        )
    try:
        module = Path(module_file).read_text() if module_file else ""
    except OSError:
        module = ""
    before = decorator.required_statements(module, name, dependency_names) if module else ""
    return f"{before}\n\n{body}" if before else body
