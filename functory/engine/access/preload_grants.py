"""Preload grants: which packages the worker may import ahead, once for all executions of a version.

Without one each execution imports its packages itself: it takes longer and is otherwise the same. An import that is
done ahead is done by the process that starts executions, and what it leaves behind is in all of them. So an operator
decides about it. A grant names a module: ``numpy``, ``PIL.Image``. Pure: no database access.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from functory.engine import python_syntax
from functory.engine.errors import Invalid
from functory.engine.serialization import combining_marks

OWN = "functory"
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_MOST_CHARACTERS = 200


def package_modules(imports: Iterable[Any]) -> tuple[str, ...]:
    """Return the modules of packages that these imports load, in their order: ``numpy as np`` → ``numpy``."""
    found = [module for item in imports for module in modules(item) if is_third_party(module)]
    return tuple(dict.fromkeys(found))


def modules(item: Any) -> tuple[str, ...]:
    """Return the modules that an import names, in any of its spellings; none for other texts."""
    return _modules(item["name"] if isinstance(item, dict) else item)


@lru_cache(maxsize=1024)
def _modules(text: str) -> tuple[str, ...]:
    statement = text if text.startswith(("import ", "from ")) else f"import {text}"
    if combining_marks.has_too_many(statement):
        return ()
    try:
        nodes = python_syntax.parse(statement).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # It fails when the function runs, with Python's own error.
        return ()
    found: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append(node.module)
    return tuple(found)


def is_third_party(module: str) -> bool:
    """Return True for a module that is neither Python's nor Functory's."""
    top = module.partition(".")[0]
    return top not in sys.stdlib_module_names and top not in (OWN, "__future__")


def check(module: str) -> str:
    """Return the module of a grant. Raises :class:`Invalid` for a text that is not the name of a package's module."""
    if len(module) > _MOST_CHARACTERS or not _MODULE.fullmatch(module):
        raise Invalid(
            f"{module[:80]!r} is not the name of a module", "a preload grant names one", "for example numpy"
        )
    if not is_third_party(module):
        raise Invalid(
            f"{module} needs no grant",
            "it is a module of Python or of Functory, and no package",
            "leave it out",
        )
    return module
