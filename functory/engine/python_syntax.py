"""Parses Python text, also where other threads parse at the same time.

Before Python 3.11.8 the threads of a process share the depth that the parser counts, so that one of them may get a
SystemError for a text that is right (https://github.com/python/cpython/issues/106905). Such a text is parsed again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeVar

# Each one needs a collection of garbage at an unlucky time, and another thread that parses then.
TRIES = 20

T = TypeVar("T")


def parse(text: str) -> ast.Module:
    """Return the tree of a module. Raises SyntaxError, ValueError, RecursionError and MemoryError, as ``ast.parse``."""
    return _again(lambda: ast.parse(text))


def parse_expression(text: str) -> ast.expr:
    """Return the tree of an expression. Raises as :func:`parse`."""
    return _again(lambda: ast.parse(text, mode="eval")).body


def _again(work: Callable[[], T]) -> T:
    for _ in range(TRIES - 1):
        try:
            return work()
        except SystemError:
            continue
    return work()
