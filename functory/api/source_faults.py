"""Where the fault of a source is: errors of the engine name a line in their text, an editor needs its number."""

from __future__ import annotations

import re
from typing import Any

from functory.engine import python_syntax
from functory.engine.errors import FunctoryError
from functory.engine.serialization import combining_marks

_LINE = re.compile(r"\bline (\d+)\b")


def fault(error: FunctoryError, source: str | None) -> dict[str, Any]:
    """The error with its line and column in the source, when it has a place there."""
    line, column = _place(error, source)
    return {"what": error.what, "why": error.why, "try": error.try_, "line": line, "column": column}


def _place(error: FunctoryError, source: str | None) -> tuple[int | None, int | None]:
    if combining_marks.has_too_many(source or ""):
        return None, None
    try:
        python_syntax.parse(source or "")
    except SyntaxError as wrong:
        return wrong.lineno, max((wrong.offset or 1) - 1, 0)
    except (ValueError, RecursionError, MemoryError):
        return None, None
    named = _LINE.search(f"{error.what} {error.why}")
    return (int(named[1]), 0) if named else (None, None)
